"""The runs of the paper's evaluation as tasks on a Ray cluster: what ``zgul experiment paper --engine ray`` does.

All machines share one store. SQLite must not be opened over a network, so a Ray actor on the machine of the command
keeps it, and the tasks ask the actor. Data, encoder, weights and checkpoints are files: their folders must be on a disk
that all machines see under one path. A run whose process or machine dies is done again elsewhere, from its checkpoint.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from zgul.cluster.ray_cluster import ClusterSettings, connected, reason, resources, slots
from zgul.paper.experiments import WAIT, Experiment, Outcome, RunWorker, Work, run_paper
from zgul.paper.store import DONE, FAILED, Store
from zgul.progress import Report, silent

Ask = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]
ASKED = ("status", "facts", "scored", "gold_keys", "update", "add_score", "add_gold", "forget_scores")


class StoreKeeper:
    """An actor that has the store open."""

    def __init__(self, folder: str) -> None:
        self.store = Store(folder, create=True)

    def ask(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return getattr(self.store, method)(*arguments, **named)


class RemoteStore(Store):
    """The store as a task sees it: the database is elsewhere, the folder is here."""

    def __init__(self, folder: Path, ask: Ask) -> None:
        self.folder, self._ask = folder, ask

    def __getattribute__(self, name: str) -> Any:
        if name in ASKED:
            return lambda *arguments, **named: self._ask(name, arguments, named)
        return super().__getattribute__(name)


@lru_cache(maxsize=1)
def _worker(everywhere: Any) -> RunWorker:
    """The worker of this process. It keeps the model in memory, from which the next run may start."""
    import ray

    work, keeper = ray.get(everywhere)
    torch.set_num_threads(1)

    def ask(*call: Any) -> Any:
        return ray.get(keeper.ask.remote(*call))

    return RunWorker(work, store=RemoteStore(work.experiment.output, ask))


def attempt_run(everywhere: list[Any], run: str) -> bool:
    """Do a run, by its hash. False if it cannot start. What the run raises is in the store."""
    worker = _worker(everywhere[0])  # inside of a list, Ray does not copy it for every task
    return worker.attempt(worker.work.needed[run])


def run_paper_on_cluster(
    experiment: Experiment, settings: ClusterSettings, *, minutes: float | None = None, report: Report = silent
) -> Outcome:
    """Do all runs that are not done, on the cluster."""
    inputs = experiment.inputs
    paths = {name: _absolute(getattr(inputs, name)) for name in ("data", "encoder", "adapters", "head")}
    experiment = replace(experiment, output=experiment.output.resolve(), inputs=replace(inputs, **paths))
    with connected(settings) as ray:
        watch = partial(_watch_tasks, ray, settings)
        return run_paper(experiment, workers=1, minutes=minutes, report=report, watch=watch)


def _absolute(place: str) -> str:
    return str(Path(place).resolve()) if place and Path(place).exists() else place


def _watch_tasks(
    ray: Any, settings: ClusterSettings, work: Work, store: Store, workers: int, report: Report, until: float | None
) -> bool:
    """Do the runs as tasks, each when those it needs are done. True if the time limit ended the work."""
    here = ray.get_runtime_context().get_node_id()
    beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
    keeper = ray.remote(num_cpus=0, scheduling_strategy=beside)(StoreKeeper).remote(str(work.experiment.output))
    everywhere = ray.put((work, keeper))
    on_gpu = work.experiment.inputs.device == "cuda"
    task = ray.remote(**resources(on_gpu))(attempt_run)
    left, pending = [run.hash for run in work.runs], dict[Any, str]()
    while left or pending:
        if until is not None and time.monotonic() >= until:
            for one in pending:
                ray.cancel(one, force=True)
            return True
        free = slots(ray, settings, on_gpu) - len(pending)
        ready = [run for run in left if all(store.status(need) in (DONE, FAILED) for need in work.needed[run].needs)]
        for run in ready[: max(0, free)]:
            left.remove(run)
            pending[task.remote([everywhere], run)] = run
        if not pending:  # another command does what these wait for
            time.sleep(WAIT)
            continue
        for one in ray.wait(list(pending), timeout=WAIT)[0]:
            run = pending.pop(one)
            try:
                if not ray.get(one) and store.status(run) not in (DONE, FAILED):
                    left.append(run)  # another command does it
            except ray.exceptions.RayError as error:
                store.update(run, status=FAILED, error=reason(error))
        work.show(store, report)
    return False

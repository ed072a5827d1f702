"""The paper's whole evaluation from Python: `run_paper` does what ``zgul experiment paper`` does.

A worker process takes the first run in the plan that can start: the runs it needs are done, and no other process holds
its lock. Locks are files and end with their process, so several commands can share a store. A run that fails is
recorded, and runs that need it fail too. If a worker dies, the parent process records its run and starts another one.
"""

import multiprocessing
import os
import shlex
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import mean

import torch
from filelock import Timeout

from zgul import __version__, encoders
from zgul.corpora.data_folder import DataFolder, source_split
from zgul.errors import ZgulError
from zgul.paper import plan, provenance
from zgul.paper.execution import Executor
from zgul.paper.export import open_store
from zgul.paper.plan import TEXT_RUN, Inputs, Protocol, Run
from zgul.paper.store import DONE, FAILED, FILE, PARTS, PLANNED, RUNNING, Store, StoredRun
from zgul.progress import Report, Status, silent
from zgul.training.labelled_data import training_languages

WAIT = 0.5  # seconds before a worker, or the parent, looks again
DEATHS = 5  # workers that may die as they start before the parent gives up
# Seconds for a sentence with the embedded encoder: in training (forward and backward), and for one forward pass.
TRAIN, FORWARD = {"cuda": 0.0003, "cpu": 0.12}, {"cuda": 0.0001, "cpu": 0.025}
STEP = {"cuda": 0.03, "cpu": 4.0}  # seconds for a step of masked-LM training
BYTES = 70  # of a compressed sentence


@dataclass(frozen=True)
class Experiment:
    """What to run, and where the results go."""

    inputs: Inputs
    protocol: Protocol
    output: Path
    only: Sequence[str] = ()  # see `select_runs`
    same_code: bool = False  # keep finished runs even if the code has changed since
    tuned: Path | None = None  # results, or an export, whose tuning runs are used instead of tuning here

    def store(self) -> Store | None:
        """The existing results, if there are any."""
        return Store(self.output, create=True) if (self.output / FILE).is_file() else None

    def tuning_runs(self) -> list[StoredRun]:
        """The finished tuning runs of ``tuned``."""
        runs = open_store(self.tuned).runs(part="tuning", status=DONE) if self.tuned else []
        if self.tuned and not runs:
            raise ZgulError(f"{self.tuned} holds no tuning runs. Leave --tuned out to tune here.")
        return runs

    def plan(self) -> list[Run]:
        """The runs that can be planned now: tuning and, with the rates that are tuned so far, everything else."""
        store = self.store()
        meta, done = (store.meta, store.runs(status=DONE)) if store is not None else ({}, [])
        code = str(meta.get("code", "")) if self.same_code else ""
        given = self.tuning_runs()
        tuning = [] if given else plan.tuning_plan(self.inputs, self.protocol, done, code=code)
        own = {run.hash for run in tuning}
        settings = plan.tuned_settings(given or [run for run in done if run.hash in own])
        runs = plan.paper_plan(self.inputs, self.protocol, settings, code=code)
        chosen = plan.select_runs(tuning + runs, self.only)
        if not chosen:
            raise ZgulError(f"No run fits --only {', '.join(self.only)}. See the plan with --dry-run.")
        parts = {run.part for run in done}
        if done and (found := plan.differences(self.protocol, _checksums(chosen), meta, parts)):
            # a mean over results of two protocols would mean nothing
            changes = "; ".join([*found[:4], *(["…"] if len(found) > 4 else [])])
            other = f"{self.output} holds {len(done)} finished runs of another protocol ({changes})."
            raise ZgulError(f"{other} Give the same options as for them, or another --output.")
        return chosen


@dataclass(frozen=True)
class Work:
    """What a worker needs to know."""

    experiment: Experiment
    runs: Sequence[Run]  # in the order in which they are to be done
    needed: dict[str, Run]  # by hash: runs that others start from, in or outside of ``runs``
    threads: int  # of torch; 0: its own choice

    def statuses(self, store: Store) -> dict[str, str]:
        """The status of every run, by hash."""
        return {run.hash: store.status(run.hash) for run in self.runs}

    def show(self, store: Store, report: Report) -> None:
        """Report how many runs have ended."""
        statuses = list(self.statuses(store).values())
        figures = {status: float(statuses.count(status)) for status in (RUNNING, FAILED) if status in statuses}
        report(Status("runs", statuses.count(DONE) + statuses.count(FAILED), len(statuses), figures))


Watch = Callable[[Work, Store, int, Report, float | None], bool]  # `_watch`, or what does the same elsewhere


@dataclass
class Outcome:
    """The outcome of an experiment: how many runs are done, which failed, and whether time ran out."""

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # name of the run -> its error
    stopped: bool = False  # by the time limit


def run_paper(
    experiment: Experiment,
    *,
    workers: int = 1,
    minutes: float | None = None,
    report: Report = silent,
    watch: Watch | None = None,
) -> Outcome:
    """Do all runs that are not done: the tuning runs, then the others. ``workers=0`` runs them in this process.

    ``watch`` does the runs of some work elsewhere, instead of in worker processes.
    """
    until = time.monotonic() + 60 * minutes if minutes is not None else None
    if experiment.inputs.encoder == "embedded":
        encoders.load("embedded")  # once, so that the workers find what it caches
    whole = Outcome()
    while not (whole.failed or whole.stopped) and (work := _next_work(experiment, workers)):
        outcome = _execute_all(work, workers, report, until, watch or _watch)
        whole = Outcome(whole.done + outcome.done, outcome.failed, outcome.stopped)
    return whole


def _next_work(experiment: Experiment, workers: int) -> Work | None:
    """The runs that are not done, by part and seed, then the longest first. Tuning runs come alone."""
    needed, store = {run.hash: run for run in experiment.plan()}, Store(experiment.output, create=True)
    left = [run for run in needed.values() if store.status(run.hash) != DONE]
    if not left:
        return None
    runs = [run for run in left if run.part == "tuning"] or left
    _note(store, runs, experiment)
    store.plan(experiment.tuning_runs())  # the report shows them
    estimate = Estimate(experiment.inputs, experiment.protocol, store)
    store.close()
    ordered = sorted(runs, key=lambda run: (PARTS.index(run.part), run.seed, -estimate.seconds(run)))
    threads = max(1, (os.cpu_count() or 1) // workers) if workers > 1 else 0
    return Work(experiment, ordered, needed, threads)


def _checksums(runs: Iterable[Run]) -> dict[str, str]:
    """Checksums of the data, the encoder and the adapters that these runs read."""
    sums = {name: value for run in runs for name, value in run.checksums.items() if value != "new"}
    return {name: value for name, value in sums.items() if "/" in name or name in ("encoder", "adapters")}


def _note(store: Store, runs: Sequence[Run], experiment: Experiment) -> None:
    """Record the command, the protocol, the inputs and the machine in the store."""
    inputs, before = experiment.inputs, store.meta
    command = ["zgul", *(Path(word).name if "/" in word and Path(word).exists() else word for word in sys.argv[1:])]
    store.note(
        commands=list(dict.fromkeys([*before.get("commands", []), shlex.join(command)])),
        protocol=experiment.protocol.to_dict(),
        checksums=before.get("checksums", {}) | _checksums(runs),
        code=runs[0].checksums["code"],
        commit=provenance.commit() or before.get("commit", ""),
        encoder=Path(inputs.encoder).name,
        adapters=Path(inputs.adapters).name if "{lang}" not in inputs.adapters else inputs.adapters,
        machine=provenance.machine(inputs.device_kind),
        version=__version__,
    )


class Estimate:
    """Estimates how many seconds runs take: from earlier runs of the same kind or, without any, roughly."""

    def __init__(self, inputs: Inputs, protocol: Protocol, store: Store | None = None) -> None:
        self.data, self.protocol = DataFolder(inputs.data), protocol
        self.device = "cuda" if inputs.device_kind == "cuda" else "cpu"
        seconds = defaultdict(list)
        for run in store.runs(status=DONE) if store is not None else ():
            seconds[_kind(run)].append(run.seconds)
        self.measured = {kind: mean(values) for kind, values in seconds.items()}

    def total(self, runs: Iterable[Run], workers: int = 1) -> float:
        """Seconds of several runs with this many parallel processes, if the machine has room for them."""
        return sum(map(self.seconds, runs)) / max(1, workers)

    def seconds(self, run: Run) -> float:
        """Seconds from the start of a run to its last score."""
        return self.measured.get(_kind(run)) or self._guess(run)

    def _guess(self, run: Run) -> float:
        if run.method == TEXT_RUN:
            return 3.0 * int(run.config["steps"]) * STEP[self.device]
        config = run.training()
        sources = training_languages(config)
        trained = sum(self._sentences(run, code, source_split(run.group, code, "train")) for code in sources)
        trained = min(trained, self.protocol.limit * len(sources)) if self.protocol.limit else trained
        trained = int(run.extra.get("examples", trained))
        tests = sum(self._sentences(run, code, "test") for code in run.languages)
        em = 1 + 3 * max(self.protocol.em_steps, default=0)  # a step of EM is a forward and a backward pass
        passes = sum(tests * (em if row["em"] else 1) for row in run.rows)
        return config.rounds * trained * TRAIN[self.device] + passes * FORWARD[self.device]

    def _sentences(self, run: Run, language: str, split: str) -> int:
        """Estimate the number of sentences from the size of a file, because reading it would take too long."""
        path = self.data.labelled_file(run.config["task"], language, split)
        return path.stat().st_size // BYTES if path is not None else 0


def _kind(run: Run | StoredRun) -> tuple[object, ...]:
    """The kind of a run. Runs of one kind take about the same time."""
    extra = run.extra
    return (run.part, run.group, run.method, extra.get("variant"), extra.get("examples"), extra.get("share"))


def _execute_all(work: Work, workers: int, report: Report, until: float | None, watch: Watch) -> Outcome:
    """Do all runs of the work, in worker processes or here. ``until`` is a time of ``time.monotonic``."""
    store = Store(work.experiment.output, create=True)
    store.plan(run.stored() for run in work.runs)
    for run, status in work.statuses(store).items():
        if status != DONE:
            store.update(run, status=PLANNED, error="")  # failed and killed runs are tried again
    if not workers:
        RunWorker(work, report).run_all()
    stopped = bool(workers) and watch(work, store, workers, report, until)
    statuses = work.statuses(store)
    failed = {run.name: run.error for run in store.runs(status=FAILED) if run.hash in statuses}
    store.close()
    return Outcome([*statuses.values()].count(DONE), failed, stopped)


def _watch(work: Work, store: Store, workers: int, report: Report, until: float | None) -> bool:
    """Start worker processes and replace those that die. True if the time limit ended the work."""
    context = multiprocessing.get_context("spawn")

    def start() -> BaseProcess:
        process = context.Process(target=_work, args=(work,), daemon=True)
        process.start()
        return process

    processes = [start() for _ in range(min(workers, len(work.runs)))]
    deaths = 0
    try:
        while processes and (until is None or time.monotonic() < until):
            time.sleep(WAIT)
            work.show(store, report)
            for process in [process for process in processes if not process.is_alive()]:
                processes.remove(process)
                if process.exitcode == 0:
                    continue  # nothing was left to do
                deaths += 1
                if not _record_death(work, store, process.exitcode) and deaths >= DEATHS:
                    raise ZgulError(f"Worker processes die as they start (exit code {process.exitcode}). Try --jobs 0.")
                processes.append(start())
        return bool(processes)
    finally:
        for process in processes:
            process.terminate()  # all at once, because a remaining worker would take the next run
        for process in processes:
            process.join(10)
            process.kill()


def _record_death(work: Work, store: Store, code: int | None) -> bool:
    """Mark the run whose process is gone as failed. False if no run was lost."""
    name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    reason = f"its process died ({name})" + (": out of memory?" if code == -signal.SIGKILL else "")
    lost = False
    for run in (run for run, status in work.statuses(store).items() if status == RUNNING):
        with suppress(Timeout), store.lock(run).acquire(timeout=0):  # another process may be executing it
            store.update(run, status=FAILED, error=reason)
            lost = True
    return lost


def _work(work: Work) -> None:
    """A worker process. It ends when nothing is left to do, or with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if work.threads:
        torch.set_num_threads(work.threads)
    with suppress(KeyboardInterrupt):  # stopped: the run has left a checkpoint
        RunWorker(work).run_all()


def _end_with_parent() -> None:
    """End this process when its parent is gone, because a killed parent cannot stop its workers."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


class RunWorker:
    """Takes runs from the plan until none is left."""

    def __init__(self, work: Work, report: Report = silent, store: Store | None = None) -> None:
        self.work, self.report = work, report
        self.store = store or Store(work.experiment.output, create=True)
        self.executor = Executor(self.store, work.experiment.inputs, work.experiment.protocol)

    def run_all(self) -> None:
        while left := [run for run in self.work.runs if self.store.status(run.hash) not in (DONE, FAILED)]:
            held = self.executor.held and self.executor.held.run
            left.sort(key=lambda run: run.needs[:1] != [held])  # first those that start from the model in memory
            if not any(map(self.attempt, left)):
                self.executor.release()
                time.sleep(WAIT)  # other processes execute the remaining runs, or what these wait for
            self.work.show(self.store, self.report)

    def attempt(self, run: Run) -> bool:
        """Do a run if it can start. False if it cannot."""
        needs = {need: self.store.status(need) for need in run.needs}
        if failed := [self.work.needed[need].name for need, status in needs.items() if status == FAILED]:
            self.store.update(run.hash, status=FAILED, error=f"it needs {failed[0]}, which failed")
            return True
        if any(status != DONE for status in needs.values()):
            return False
        with suppress(Timeout), self.store.lock(run.hash).acquire(timeout=0):  # another process may be executing it
            if self.store.status(run.hash) not in (DONE, FAILED):
                self._do(run)
                return True
        return False

    def _do(self, run: Run) -> None:
        self.store.update(run.hash, status=RUNNING, error="", started=time.time())
        started = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                facts = self.executor.execute(run, self.work.needed)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            if not isinstance(error, ZgulError):
                reason += "\n" + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
            self.executor.release()
            self.store.update(run.hash, status=FAILED, error=reason)
            return
        self.store.update(run.hash, status=DONE, seconds=round(time.monotonic() - started, 2), facts=facts)
        for candidate in (run.hash, *run.needs):  # remove weights that no run of the plan needs any more
            dependents = (other.hash for other in self.work.runs if candidate in other.needs)
            if all(self.store.status(other) == DONE for other in (candidate, *dependents)):
                for file in self.store.run_folder(candidate).glob("*.safetensors"):
                    file.unlink(missing_ok=True)

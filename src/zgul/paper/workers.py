"""Many runs side by side: worker processes that take the next run from the store, and a parent that watches them.

A worker takes the first run in the plan that can start: its needs are done and no other process holds its lock. Locks
are files and go with their process, so several commands can share a store. A run that fails is recorded; what needs it
fails with it, everything else goes on. When a worker dies, its run is recorded as failed and another worker starts.
"""

import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from filelock import Timeout

from zgul.errors import ZgulError
from zgul.paper.execution import Executor
from zgul.paper.plan import Inputs, Run
from zgul.paper.protocol import Protocol
from zgul.paper.store import DONE, FAILED, PLANNED, RUNNING, Store
from zgul.progress import Report, Status, silent

WAIT = 0.5  # seconds before a worker, or the parent, looks again
DEATHS = 5  # workers that may die as they start before the parent gives up


@dataclass(frozen=True)
class Work:
    """What a worker needs to know."""

    folder: Path
    runs: Sequence[Run]  # in the order in which they are to be done
    needed: dict[str, Run]  # by hash: runs that others start from, in or outside of ``runs``
    inputs: Inputs
    protocol: Protocol
    cache: Path | None = None
    threads: int = 0  # of torch; 0: its own choice

    def statuses(self, store: Store) -> dict[str, str]:
        """The status of every run, by hash."""
        known = {run.hash: run.status for run in store.runs()}
        return {run.hash: known.get(run.hash, PLANNED) for run in self.runs}


@dataclass
class Outcome:
    """How it went."""

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # name of the run -> its error
    stopped: bool = False  # by the time limit


def execute_all(work: Work, workers: int, *, report: Report = silent, until: float | None = None) -> Outcome:
    """Do all runs; with ``workers=0`` in this process. ``until`` (``time.monotonic``) stops what still runs then."""
    store = Store(work.folder, create=True)
    store.plan(run.stored() for run in work.runs)
    for run, status in work.statuses(store).items():
        if status != DONE:
            store.update(run, status=PLANNED, error="")  # what failed before, or was killed, is tried again
    stopped = False
    if workers:
        stopped = _watch(work, store, workers, report, until)
    else:
        _Worker(work, report).run_all()
    names = {run.hash: run.name for run in work.runs}
    failed = {names[run.hash]: run.error for run in store.runs(status=FAILED) if run.hash in names}
    done = [*work.statuses(store).values()].count(DONE)
    store.close()
    return Outcome(done, failed, stopped)


def _show(work: Work, store: Store, report: Report) -> None:
    """Report how many runs have ended."""
    statuses = list(work.statuses(store).values())
    figures = {status: float(statuses.count(status)) for status in (RUNNING, FAILED) if status in statuses}
    report(Status("runs", statuses.count(DONE) + statuses.count(FAILED), len(statuses), figures))


def _watch(work: Work, store: Store, workers: int, report: Report, until: float | None) -> bool:
    """Start worker processes and replace those that die. True if the time limit ended the work."""
    context = multiprocessing.get_context("spawn")

    def start() -> BaseProcess:
        process = context.Process(target=_work, args=(work,), daemon=True)
        process.start()
        return process

    crew = [start() for _ in range(min(workers, len(work.runs)))]
    deaths = 0
    try:
        while crew and (until is None or time.monotonic() < until):
            time.sleep(WAIT)
            _show(work, store, report)
            for process in [process for process in crew if not process.is_alive()]:
                crew.remove(process)
                if process.exitcode == 0:
                    continue  # nothing was left to do
                deaths += 1
                if not _record_death(work, store, process.exitcode) and deaths >= DEATHS:
                    raise ZgulError(f"Worker processes die as they start (exit code {process.exitcode}). Try --jobs 0.")
                crew.append(start())
        return bool(crew)
    finally:
        for process in crew:
            process.terminate()
            process.join(10)
            process.kill()


def _record_death(work: Work, store: Store, code: int | None) -> bool:
    """Mark the run whose process is gone as failed. False if no run was lost."""
    name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    reason = f"its process died ({name})" + (": out of memory?" if code == -signal.SIGKILL else "")
    lost = False
    for run in (run for run, status in work.statuses(store).items() if status == RUNNING):
        try:
            with store.lock(run).acquire(timeout=0):
                store.update(run, status=FAILED, error=reason)
                lost = True
        except Timeout:
            continue  # another process is at it
    return lost


def _work(work: Work) -> None:
    """A worker process. It ends when nothing is left to do, or with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if work.threads:
        torch.set_num_threads(work.threads)
    with suppress(KeyboardInterrupt):  # stopped: the run has left a checkpoint
        _Worker(work).run_all()


def _end_with_parent() -> None:
    """End this process when its parent is gone: a parent that was killed stops nobody."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _Worker:
    """Takes runs from the plan until none is left."""

    def __init__(self, work: Work, report: Report = silent) -> None:
        self.work, self.report = work, report
        self.store = Store(work.folder, create=True)
        self.executor = Executor(self.store, work.inputs, work.protocol, cache=work.cache)

    def run_all(self) -> None:
        while left := [run for run in self.work.runs if self.store.status(run.hash) not in (DONE, FAILED)]:
            held = self.executor.held_run
            left.sort(key=lambda run: run.needs[:1] != [held])  # first those that start from the model in memory
            if not any(map(self._attempt, left)):
                self.executor.release()
                time.sleep(WAIT)  # all that is left runs elsewhere, or waits for it
            _show(self.work, self.store, self.report)

    def _attempt(self, run: Run) -> bool:
        """Do a run if it can start. False if it cannot."""
        needs = {need: self.store.status(need) for need in run.needs}
        if failed := [self.work.needed[need].name for need, status in needs.items() if status == FAILED]:
            self.store.update(run.hash, status=FAILED, error=f"it needs {failed[0]}, which failed")
            return True
        if any(status != DONE for status in needs.values()):
            return False
        try:
            with self.store.lock(run.hash).acquire(timeout=0):
                if self.store.status(run.hash) in (DONE, FAILED):
                    return False
                self._do(run)
                return True
        except Timeout:
            return False  # another process is at it

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
        self._tidy(run)

    def _tidy(self, run: Run) -> None:
        """Remove weights that no run of the plan needs any more."""
        for candidate in (run.hash, *run.needs):
            dependents = (other.hash for other in self.work.runs if candidate in other.needs)
            if all(self.store.status(other) == DONE for other in (candidate, *dependents)):
                for file in self.store.run_folder(candidate).glob("*.safetensors"):
                    file.unlink(missing_ok=True)

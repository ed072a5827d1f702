"""Doing many runs: worker processes that take jobs, longest first, and a parent that survives any of them.

A job is a run and those that start from its model in memory (few-shot runs); it is given out when the runs that it
needs are done. Who does a run holds a lock on it, so that two commands can share one store; the lock goes with
the process. A run that fails, or whose process dies, is recorded; what needs it fails with it, all else goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from filelock import Timeout

from zgul.errors import ZgulError
from zgul.experiments.plan import Inputs, Protocol, Run
from zgul.paper.store import DONE, FAILED, PLANNED, RUNNING, Store, StoredRun

Listener = Callable[[str, Run, dict[str, Any]], None]  # event, run, what is known of it
BUSY = "busy"  # another command has it
NEARLY = 0.7  # of the longest job's time
AGAIN = 2.0  # seconds before asking again for a run that another command has


@dataclass(eq=False)
class Job:
    """Runs that one process does one after another."""

    runs: list[Run]
    needed: dict[str, Run]  # by hash: all runs that these start from
    seconds: float = 0.0  # about
    not_before: float = 0.0

    @property
    def waits_for(self) -> set[str]:
        """Runs of other jobs that must be done first."""
        return {need for run in self.runs for need in run.needs} - {run.hash for run in self.runs}


@dataclass(frozen=True)
class Told:
    """What a worker process is told."""

    folder: Path
    inputs: Inputs
    protocol: Protocol
    device: str
    cache: Path | None
    pace: float
    threads: int


@dataclass
class Outcome:
    """How it went."""

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # name of the run: its error
    stopped: bool = False  # by the limit of time


def make_jobs(runs: Sequence[Run], known: dict[str, Run], seconds: Callable[[Run], float], done: set[str]) -> list[Job]:
    """Jobs of the runs that are not done, longest first; few-shot runs join the run whose model they start from."""
    jobs: dict[str, Job] = {}
    for run in runs:
        if run.hash in done:
            continue
        leader = run.needs[0] if run.part == "few-shot" else run.hash
        job = jobs.setdefault(leader, Job([], {}))
        job.runs.append(run)
        job.needed |= {need: known[need] for need in run.needs}
        job.seconds += seconds(run)
    for leader, job in jobs.items():
        job.runs.sort(key=lambda run: run.hash != leader)
    following: dict[str, float] = {}  # what waits for a job makes it more urgent
    for job in jobs.values():
        for need in job.waits_for:
            following[need] = following.get(need, 0.0) + job.seconds
    return sorted(jobs.values(), key=lambda job: -job.seconds - sum(following.get(r.hash, 0.0) for r in job.runs))


def execute(
    runs: Sequence[Run],
    whole: Sequence[Run],
    told: Told,
    *,
    workers: int,
    seconds: Callable[[Run], float],
    listener: Listener | None = None,
    until: float | None = None,
) -> Outcome:
    """Do the runs that are not done. ``whole`` is the plan they are of: weights that it still needs are kept.

    ``until`` (``time.monotonic``) stops what still runs then; the next start goes on from there.
    """
    store = Store(told.folder, create=True)
    store.plan(as_stored(run) for run in runs)
    boss = _Boss(store, runs, whole, told, seconds, listener or (lambda *_: None))
    try:
        return boss.work_here() if workers == 0 else boss.work(workers, until)
    finally:
        store.close()


def as_stored(run: Run) -> StoredRun:
    """How the store knows a run."""
    return StoredRun(run.hash, run.part, run.group, run.method, run.seed, run.name, run.config, run.extra)


class _Boss:
    """Gives out jobs and hears how they went."""

    def __init__(
        self,
        store: Store,
        runs: Sequence[Run],
        whole: Sequence[Run],
        told: Told,
        seconds: Callable[[Run], float],
        listener: Listener,
    ) -> None:
        self.store, self.told, self.listener = store, told, listener
        self.runs = {run.hash: run for run in runs}
        self.whole = {run.hash: run for run in whole} | self.runs
        self.statuses = {run.hash: run.status for run in store.runs()}
        self.finished = {run for run, status in self.statuses.items() if status == DONE}
        self.failed: set[str] = set()
        self.jobs = make_jobs(runs, self.whole, seconds, self.finished)
        self.outcome = Outcome()

    def work_here(self) -> Outcome:
        """All jobs in this process."""
        worker = _Worker(self.told, lambda event, run, facts: self._heard(event, run, facts))
        while self.jobs:
            job = self._next()
            if job is None:
                time.sleep(0.2)
                continue
            self._after(job, worker.do(job))
        return self.outcome

    def work(self, count: int, until: float | None) -> Outcome:
        """All jobs in worker processes."""
        crew = [_Hand(self.told) for _ in range(min(count, len(self.jobs)))]
        try:
            while self.jobs or any(hand.job for hand in crew):
                if until is not None and time.monotonic() >= until:
                    self.outcome.stopped = True
                    break
                for hand in crew:
                    if hand.ready and hand.job is None and (job := self._next(hand.groups)) is not None:
                        hand.give(job)
                wait([*(hand.connection for hand in crew), *(hand.process.sentinel for hand in crew)], timeout=0.5)
                for index, hand in enumerate(crew):
                    self._listen(hand)
                    if not hand.process.is_alive():
                        self._listen(hand)  # what it said last
                        self._buried(hand)
                        crew[index] = _Hand(self.told)
        finally:
            for hand in crew:
                hand.dismiss()
        return self.outcome

    def _next(self, groups: Collection[str] = ()) -> Job | None:
        """The longest job that can start now or, if it is nearly as long, one of ``groups``, whose data is at hand.

        What can never start is failed on the way.
        """
        for job in list(self.jobs):
            lost = next((need for need in job.waits_for if need in self.failed), None)
            if lost is not None:
                self.jobs.remove(job)
                self._fail_all(job, f"it needs {self.whole[lost].name}, which failed")
                return self._next(groups)
        now = time.monotonic()
        ready = [job for job in self.jobs if now >= job.not_before and all(map(self._is_done, job.waits_for))]
        if not ready:
            return None
        near = (job for job in ready if job.runs[0].group in groups and job.seconds >= NEARLY * ready[0].seconds)
        job = next(near, ready[0])
        self.jobs.remove(job)
        return job

    def _is_done(self, run: str) -> bool:
        if run not in self.finished and run not in self.runs and self.store.status(run) == DONE:
            self.finished.add(run)
        return run in self.finished

    def _listen(self, hand: _Hand) -> None:
        for message in hand.messages():
            if message[0] == "ready":
                hand.ready = True
            elif message[0] == "idle":
                job, hand.job = hand.job, None
                assert job is not None
                self._after(job, message[1])
            else:
                self._heard(message[0], self.whole[message[1]], message[2])

    def _heard(self, event: str, run: Run, facts: dict[str, Any]) -> None:
        if event == DONE:
            self.finished.add(run.hash)
            self.outcome.done += 1
            self._tidy(run)
        elif event == FAILED:
            self.failed.add(run.hash)
            self.outcome.failed[run.name] = str(facts.get("error", ""))
        self.listener(event, run, facts)

    def _after(self, job: Job, busy: list[str]) -> None:
        """Runs that another command had are asked for again later."""
        if busy:
            again = [run for run in job.runs if run.hash in busy]
            self.jobs.append(Job(again, job.needed, job.seconds, time.monotonic() + AGAIN))

    def _buried(self, hand: _Hand) -> None:
        """A process is gone: the run it was at fails, the rest of its job goes to another."""
        job, code = hand.job, hand.process.exitcode
        if not hand.ready:
            raise ZgulError(f"a worker process could not start (exit code {code}); try --jobs 0 to see why")
        if job is None:
            return
        left = [run for run in job.runs if run.hash not in self.finished | self.failed]
        at = next((run for run in left if run.hash == hand.current), left[0] if left else None)
        if at is not None:
            name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
            error = f"its process died ({name})" + (": out of memory?" if code == -signal.SIGKILL else "")
            self.store.fail(at.hash, error)
            self._heard(FAILED, at, {"error": error})
            rest = [run for run in left if run is not at]
            if rest:
                self.jobs.insert(0, Job(rest, job.needed, job.seconds))

    def _fail_all(self, job: Job, error: str) -> None:
        for run in job.runs:
            self.store.fail(run.hash, error)
            self._heard(FAILED, run, {"error": error})

    def _tidy(self, run: Run) -> None:
        """Remove weights that no run of the whole plan needs any more."""
        for candidate in (run.hash, *run.needs):
            needed = [other for other in self.whole.values() if candidate in other.needs]
            if candidate in self.finished and all(other.hash in self.finished for other in needed):
                for file in self.store.run_folder(candidate).glob("*.safetensors"):
                    file.unlink(missing_ok=True)


class _Hand:
    """A worker process as the parent sees it."""

    def __init__(self, told: Told) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, told), daemon=True)
        self.process.start()
        theirs.close()  # so that its end is noticed
        self.ready = False
        self.job: Job | None = None
        self.current = ""
        self.groups: set[str] = set()  # whose data it has read

    def give(self, job: Job) -> None:
        self.job, self.current = job, ""
        self.groups.add(job.runs[0].group)
        self.connection.send(job)

    def messages(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if message[0] == RUNNING:
                    self.current = message[1]
                found.append(message)
        except (EOFError, OSError):
            pass  # the process is gone; whoever looks at it next will see
        return found

    def dismiss(self) -> None:
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(10)
            if self.process.is_alive():
                self.process.kill()
        self.connection.close()


def _work(connection: Connection[Any, Any], told: Told) -> None:
    """A worker process: jobs come in, messages go out, until it is dismissed or its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    last = 0.0

    def say(event: str, run: Run, facts: dict[str, Any]) -> None:
        nonlocal last
        if event == "progress":
            if time.monotonic() - last < 0.5:
                return
            last = time.monotonic()
        connection.send((event, run.hash, facts))

    worker = _Worker(told, say)
    connection.send(("ready",))
    try:
        while True:
            connection.send(("idle", worker.do(connection.recv())))
    except (EOFError, KeyboardInterrupt):
        return


def _end_with_parent() -> None:
    """A parent that was killed dismisses nobody."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _Worker:
    """Does jobs in this process."""

    def __init__(self, told: Told, say: Listener) -> None:
        import torch

        from zgul.devices import find_device
        from zgul.experiments.execute import Executor

        device = find_device(told.device)
        if told.threads:
            torch.set_num_threads(told.threads)
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        self.say = say
        self.store = Store(told.folder, create=True)
        self.run: Run | None = None
        self.executor = Executor(
            self.store,
            told.inputs,
            told.protocol,
            device,
            cache=told.cache,
            pace=told.pace,
            report=lambda status: self.say("progress", self.run, status) if self.run else None,
        )

    def do(self, job: Job) -> list[str]:
        """Do a job's runs; gives those that another command is at."""
        busy: list[str] = []
        failed: set[str] = set()
        known = job.needed | {run.hash: run for run in job.runs}
        for run in job.runs:
            if lost := next((need for need in run.needs if need in failed), None):
                error = f"it needs {known[lost].name}, which failed"
                self.store.fail(run.hash, error)
                self.say(FAILED, run, {"error": error})
                failed.add(run.hash)
                continue
            if any(need in busy for need in run.needs):
                busy.append(run.hash)
                continue
            status = self._attempt(run, job.needed)
            if status == BUSY:
                busy.append(run.hash)
            elif status == FAILED:
                failed.add(run.hash)
        self.executor.release()
        return busy

    def _attempt(self, run: Run, needed: dict[str, Run]) -> str:
        lock = self.store.lock(run.hash)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return BUSY
        try:
            if self.store.status(run.hash) == DONE:
                self.say(DONE, run, {"seconds": 0.0})
                return DONE
            return self._do(run, needed)
        finally:
            lock.release()

    def _do(self, run: Run, needed: dict[str, Run]) -> str:
        self.run = run
        self.store.start(run.hash)
        self.say(RUNNING, run, {})
        started = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                facts = self._with_second_chance(run, needed)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if not isinstance(error, ZgulError):
                told += "\n" + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
            self.store.fail(run.hash, told)
            self.executor.release()
            self.say(FAILED, run, {"error": told})
            return FAILED
        seconds = round(time.monotonic() - started, 2)
        self.store.finish(run.hash, seconds, facts)
        self.say(DONE, run, {"seconds": seconds})
        return DONE

    def _with_second_chance(self, run: Run, needed: dict[str, Run]) -> dict[str, Any]:
        """Others may need the memory of the GPU only for a while."""
        import torch

        try:
            return self.executor.execute(run, needed)
        except torch.OutOfMemoryError:
            print(f"zgul: {run.name}: out of memory, once more in 10 seconds", file=sys.stderr)
        self.executor.release()
        time.sleep(10)
        return self.executor.execute(run, needed)


def planned(store: Store | None, runs: Sequence[Run]) -> dict[str, str]:
    """How each run of a plan stands."""
    known = {run.hash: run.status for run in store.runs()} if store is not None else {}
    return {run.hash: known.get(run.hash, PLANNED) for run in runs}

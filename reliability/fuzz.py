"""Fuzzing: many cases a process, in processes with limits, under a watchdog.

A case is a target, a seed and a number, and nothing else: ``python -m reliability fuzz --case readers:0:4711`` repeats
it. It passes if the code accepts it or raises ``ZgulError``. It fails if it raises anything else, takes more than five
seconds or two gigabytes, starts a program, connects to anything, writes outside its folder, or loses a word. A case
that fails is kept in a folder: its files, and what happened.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from reliability.cases import Broken, Case, Target
from reliability.targets import EVERY
from zgul.errors import ZgulError
from zgul.progress import Report, Status, silent

HANG = 5.0  # seconds
MEMORY = 2 << 30  # bytes
KEPT = 20  # failing cases of a worker; more of them tell nothing new
# Cells of the memory that a worker shares with the watchdog.
BEGUN, NUMBER, ACCEPTED, REFUSED, FAILED, SLOWEST, PEAK, STOP = range(8)
_FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_FORBIDDEN += ("socket.connect", "socket.bind", "socket.getaddrinfo", "ctypes.dlopen", "pty.spawn", "webbrowser.open")


@dataclass
class Outcome:
    """What came of the cases of one target."""

    target: str
    seed: int
    cases: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0  # of the clock
    slowest: float = 0.0  # seconds of one case
    memory: int = 0  # bytes, the most that a process held
    failed: int = 0
    failures: dict[str, str] = field(default_factory=dict)  # case -> what happened, one for each place in the code


class Guard:
    """Notices programs that are started, connections, and files that are opened for writing outside a folder."""

    def __init__(self) -> None:
        self.folders: tuple[str, ...] = ()  # where a case may write; empty: no case is running
        self.seen: list[str] = []
        sys.addaudithook(self._notice)

    def _notice(self, event: str, arguments: Any) -> None:
        if not self.folders:
            return
        if event in _FORBIDDEN and arguments != (None,):  # dlopen of None is this process itself: release_memory
            self.seen.append(f"{event}{arguments!r:.200}")
        elif event == "open" and isinstance(arguments[0], str) and arguments[2] & _WRITING:
            inside = os.path.realpath(arguments[0]).startswith(self.folders)
            self.seen += [] if inside else [f"writes {arguments[0]}"]


def run_case(target: Target, case: Case, guard: Guard) -> bool:
    """Do one case. Returns whether it was accepted; anything but that or a refusal is raised."""
    guard.seen.clear()
    guard.folders = (str(case.folder.resolve()), os.devnull)
    try:
        target.run(case)
        accepted = True
    except ZgulError as error:
        accepted = False
        if "alloc" in str(error) and "memory" in str(error):
            raise Broken(f"a refusal for want of memory: {error}") from error
    finally:
        guard.folders = ()
    if guard.seen:
        raise Broken(f"code was run: {guard.seen[0]}")
    return accepted


def fuzz(
    name: str, cases: int, *, seed: int = 0, workers: int = 2, seconds: float = 0, keep: Path, report: Report = silent
) -> Outcome:
    """Do so many cases of a target, or as many as fit into so many seconds."""
    context = multiprocessing.get_context("spawn")
    started = time.monotonic()
    outcome = Outcome(name, seed)
    for old in keep.glob(f"{name}-{seed}-*"):
        shutil.rmtree(old)
    with scratch() as folder:
        running: list[_Worker] = [
            _Worker(context, name, seed, range(first, cases, workers), Path(folder) / str(first), keep)
            for first in range(min(workers, cases))
        ]
        done = -1
        while any(worker.is_running() for worker in running):
            time.sleep(0.05)
            late = seconds and time.monotonic() - started > seconds
            for worker in running:
                worker.watch(bool(late))
            before, done = done, sum(worker.done for worker in running)
            if done == before:
                continue
            report(Status(f"fuzz {name}", done, cases, {"refused": sum(w.total(REFUSED) for w in running)}))
    for worker in running:
        outcome.accepted += round(worker.total(ACCEPTED))
        outcome.refused += round(worker.total(REFUSED))
        outcome.failed += round(worker.total(FAILED))
        outcome.slowest = max(outcome.slowest, worker.most(SLOWEST))
        outcome.memory = max(outcome.memory, round(worker.most(PEAK)))
    outcome.cases = sum(worker.done for worker in running)
    outcome.seconds = time.monotonic() - started
    for file in sorted(keep.glob(f"{name}-{seed}-*/problem.txt")):
        lines = file.read_text(encoding="utf-8").strip().splitlines()
        outcome.failures[lines[0]] = lines[-1]
    return outcome


class _Worker:
    """A process that does cases, and the next process after one that had to be killed or crashed."""

    def __init__(self, context: Any, name: str, seed: int, numbers: range, folder: Path, keep: Path) -> None:
        self.context, self.name, self.seed, self.left = context, name, seed, numbers
        self.folder, self.keep = folder, keep
        self._before: list[list[float]] = []  # cells of earlier processes
        self._start()

    def _start(self) -> None:
        self.cells = self.context.RawArray("d", 8)
        self.cells[NUMBER] = -1
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        arguments = (self.name, self.seed, self.left, self.folder, self.keep, self.cells)
        self.process = self.context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()

    def is_running(self) -> bool:
        return bool(self.process.is_alive())

    @property
    def done(self) -> int:
        return round(sum(map(self.total, (ACCEPTED, REFUSED, FAILED))))

    def total(self, cell: int) -> float:
        return float(self.cells[cell] + sum(cells[cell] for cells in self._before))

    def most(self, cell: int) -> float:
        return float(max([self.cells[cell], *(cells[cell] for cells in self._before)]))

    def watch(self, stop: bool) -> None:
        """Kill a process whose case takes too long. Go on with the next case after that, or after a crash."""
        if stop:
            self.cells[STOP] = 1
        begun = self.cells[BEGUN]
        hangs = begun and time.monotonic() - begun > HANG
        if self.process.is_alive() and not hangs:
            return
        if hangs:
            self.process.kill()
        self.process.join()
        if self.process.exitcode == 0:
            return
        case = f"{self.name}:{self.seed}:{round(self.cells[NUMBER])}"
        if self.cells[NUMBER] < 0:
            raise RuntimeError(f"the process for {self.name} ended before its first case")
        problem = f"no end after {HANG:g} seconds" if hangs else f"the process ended: exit code {self.process.exitcode}"
        _keep(self.keep, case, self.folder / "case", problem)
        self.cells[FAILED] += 1
        self._before.append(list(self.cells))
        self.left = self.left[self.left.index(round(self.cells[NUMBER])) + 1 :]
        if self.left and not self.cells[STOP]:
            self._start()

    def __del__(self) -> None:
        if self.process.is_alive():
            self.process.kill()


def _work(name: str, seed: int, numbers: range, folder: Path, keep: Path, cells: Any) -> None:
    """What a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    prepare_process(folder)
    target: Target = EVERY[name](folder / "valid")
    place, guard = folder / "case", Guard()
    _limit_memory()
    problems: set[str] = set()
    for number in numbers:
        if cells[STOP]:
            break
        case = Case(name, seed, number, place)
        place.mkdir(exist_ok=True)
        begun = cells[BEGUN] = time.monotonic()
        cells[NUMBER] = number
        try:
            cells[ACCEPTED if run_case(target, case, guard) else REFUSED] += 1
        except BaseException as error:
            cells[BEGUN] = 0
            cells[FAILED] += 1
            problem = traceback.format_exc()
            where = f"{error!r:.30} {traceback.extract_tb(error.__traceback__)[-1][:2]}"
            if where not in problems and len(problems) < KEPT:  # one case for each place is enough
                problems.add(where)
                _keep(keep, str(case), place, problem)
        cells[SLOWEST] = max(cells[SLOWEST], time.monotonic() - begun)
        cells[BEGUN] = 0
        if any(place.iterdir()):
            shutil.rmtree(place)
    cells[PEAK] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def scratch() -> Any:
    """A temporary folder, in memory where that can be: cases write and remove some files each."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="zgul-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)


def prepare_process(folder: Path) -> None:
    """One thread, no network, no warnings, and a cache of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.environ |= {"ZGUL_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _limit_memory() -> None:
    """Two gigabytes in all. What is mapped already, such as torch's libraries, is not counted twice."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    mapped, held = (1024 * int(fields[name].split()[0]) for name in ("VmSize", "VmRSS"))
    resource.setrlimit(resource.RLIMIT_AS, (mapped - held + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _keep(keep: Path, case: str, files: Path, problem: str) -> None:
    folder = keep / case.replace(":", "-")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(files, folder / "files", symlinks=True)
    command = f"python -m reliability fuzz --case {case}"
    (folder / "problem.txt").write_text(f"{case}\nAgain: {command}\n\n{problem}\n", encoding="utf-8", errors="replace")


def repeat_case(name: str) -> bool:
    """Do one case again in this process, without limits. Returns whether it was accepted, or raises what it raises."""
    target, seed, number = name.split(":")
    with scratch() as folder:
        prepare_process(Path(folder))
        made: Callable[[Path], Target] = EVERY[target]
        case = Case(target, int(seed), int(number), Path(folder) / "case")
        case.folder.mkdir()
        return run_case(made(Path(folder) / "valid"), case, Guard())

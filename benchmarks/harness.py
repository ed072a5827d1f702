"""How a number is made here: outputs compared first, then repetitions of all contestants in turn, medians and spread.

A row of the table is a function that gives a :class:`Result`. A ratio is the median of the ratios of the single rounds
(in a round every contestant runs once, one after another), so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import gc
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zgul.precision import multiplies_bf16
from zgul.products import by_columns, linear

ROOT = Path(__file__).resolve().parents[1]


class NotMeasured(Exception):
    """A row that cannot be measured here, and why."""


class Unequal(Exception):
    """Outputs differ, so there is nothing to time."""


@dataclass
class Times:
    """Seconds of one contestant in each round."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def to_json(self) -> dict[str, Any]:
        return {"median": self.median, "min": min(self.seconds), "max": max(self.seconds), "rounds": self.seconds}


@dataclass
class Floor:
    """The least work that gives the result: operations and bytes counted, and the seconds they take at full speed."""

    flops: float  # two for each multiply-add of a matrix product, padding not counted
    bytes: float  # weights read once for each pass over a batch
    seconds: float  # the larger of flops / peak and bytes / bandwidth
    measured: float  # seconds that were needed

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"times_floor": self.measured / self.seconds}


@dataclass
class Result:
    """One row of the table."""

    key: str
    measure: str
    against: str
    target: str  # in words
    value: float | None = None
    unit: str = "×"
    low: float | None = None  # of the rounds
    high: float | None = None
    met: bool | None = None
    times: dict[str, Times] = field(default_factory=dict)
    compared: str = ""  # which outputs, how far apart, how far they may be
    floor: Floor | None = None
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    reason: str = ""  # why it was not measured
    seconds: float = 0.0  # that the row took

    def to_json(self) -> dict[str, Any]:
        told = dict(vars(self))
        told["times"] = {name: times.to_json() for name, times in self.times.items()}
        told["floor"] = self.floor.to_json() if self.floor else None
        return told

    def judge(self, ratios: Sequence[float], reached: Callable[[float], bool | None]) -> Result:
        """The value is the median of the rounds' ratios; ``reached`` of None: there is no target."""
        self.value, self.low, self.high = statistics.median(ratios), min(ratios), max(ratios)
        self.met = reached(self.value)
        return self


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(run: Callable[[], object]) -> float:
    """How long one call takes, with everything that it left to the GPU."""
    synchronise()
    started = time.perf_counter()
    run()
    synchronise()
    return time.perf_counter() - started


# A contestant is a call to be timed, or one that tells its own seconds (a peer in another process)
Contestant = Callable[[], object]


def interleave(
    contestants: Mapping[str, Contestant],
    rounds: int,
    *,
    warm: int = 1,
    clock: Callable[[Contestant], float] = seconds_of,
) -> dict[str, Times]:
    """Every contestant once a round, in turn; the order is reversed in every other round."""
    for _ in range(warm):
        for run in contestants.values():
            clock(run)
    gc.collect()
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        names = list(contestants)
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(clock(contestants[name]))
        say("  " + ", ".join(f"{name} {found[name][-1]:.3g} s" for name in names) + f"  (round {number + 1}/{rounds})")
    return {name: Times(seconds) for name, seconds in found.items()}


KINDS = {  # of operators and of GPU kernels, by their names
    "attention": r"fmha|sdpa|attention",
    "products": r"gemm|nvjet|cutlass::Kernel|mm$|mm_|linear",
    "weights and mixtures": r"weigh_and_mix",
    "norms": r"layer_norm",
    "activations": r"gelu|relu|clamp|softmax",
}


def profile(run: Contestant) -> dict[str, float]:
    """Seconds of one call by kind of work: of kernels where a GPU does it, of operators elsewhere."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity

    on_gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    run()
    synchronise()
    with torch.profiler.profile(activities=activities) as seen:
        run()
        synchronise()
    kernels = [event for event in seen.key_averages() if event.device_type == DeviceType.CUDA]
    times = [(event.key, event.self_device_time_total) for event in kernels]
    if not kernels:
        times = [(event.key, event.self_cpu_time_total) for event in seen.key_averages()]
    found = dict.fromkeys([*KINDS, "the rest"], 0.0)
    for name, microseconds in times:
        kind = next((kind for kind, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE)), "the rest")
        found[kind] += microseconds / 1e6
    return {kind: seconds for kind, seconds in found.items() if seconds}


def told_by_kind(found: Mapping[str, float]) -> str:
    """A profile in words, the largest first."""
    total, order = sum(found.values()), sorted(found, key=lambda kind: -found[kind])
    return ", ".join(f"{kind} {1e3 * found[kind]:.3g} ms ({found[kind] / total:.0%})" for kind in order)


class Timed:
    """A contestant that measured itself; ``clock_self`` takes its word."""

    def __init__(self, run: Callable[[], float]) -> None:
        self.run = run

    def __call__(self) -> float:
        return self.run()


def clock(run: Contestant) -> float:
    """Seconds of a call, or what it says that it took."""
    return run() if isinstance(run, Timed) else seconds_of(run)


def ratios(times: dict[str, Times], above: str, below: str) -> list[float]:
    return [a / b for a, b in zip(times[above].seconds, times[below].seconds, strict=True)]


def assert_same(name: str, ours: Tensor, theirs: Tensor, tolerance: float) -> str:
    """Refuse to go on where numbers differ by more than this share of their size; says how far apart they are."""
    far = _apart(name, ours, theirs)
    if not far <= tolerance:
        raise Unequal(f"{name}: {far:.1e} apart (of the largest number), {tolerance:.0e} allowed")
    return f"{name}: {far:.1e} apart, {tolerance:.0e} allowed"


def assert_as_exact(name: str, ours: Tensor, theirs: Tensor, exact: Tensor) -> str:
    """For rounded numbers: refuse to go on where ours are further from the exact ones than theirs, by half again."""
    far, their = _apart(name, ours, exact), _apart(name, theirs, exact)
    told = f"{name}: from the result in fp32 ours is {far:.1e} apart, theirs {their:.1e}"
    if not far <= 1.5 * their:
        raise Unequal(told)
    return told


def _apart(name: str, ours: Tensor, theirs: Tensor) -> float:
    """The largest difference as a share of the largest number."""
    ours, theirs = ours.double().cpu(), theirs.double().cpu()
    if ours.shape != theirs.shape:
        raise Unequal(f"{name}: {list(ours.shape)} against {list(theirs.shape)}")
    if not torch.isfinite(ours).all() or not torch.isfinite(theirs).all():
        raise Unequal(f"{name}: not all numbers are finite")
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12))


def assert_same_tags(name: str, ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> str:
    """Refuse to go on where a single tag differs."""
    flat = [[tag for sentence in tags for tag in sentence] for tags in (ours, theirs)]
    if len(flat[0]) != len(flat[1]):
        raise Unequal(f"{name}: {len(flat[0])} tags against {len(flat[1])}")
    different = sum(a != b for a, b in zip(*flat, strict=True))
    if different:
        raise Unequal(f"{name}: {different} of {len(flat[0])} tags differ")
    return f"{name}: all {len(flat[0])} equal"


# --- the machine


@dataclass
class Machine:
    """Where it was measured, and how fast that is at plain products and copies."""

    about: dict[str, str]
    flops: dict[str, float]  # operations a second, by number format
    bandwidth: float  # bytes a second

    def floor(self, flops: float, size: float, measured: float, dtype: torch.dtype = torch.float32) -> Floor:
        speed = self.flops[str(dtype).removeprefix("torch.")]
        return Floor(flops, size, max(flops / speed, size / self.bandwidth), measured)


def machine(device: torch.device, *, size: int | None = None) -> Machine:
    """Describe this machine and measure what it can do: the best of several large products and copies."""
    say("measuring the machine")
    on_gpu = device.type == "cuda"
    size = size or (8192 if on_gpu else 1536)
    formats = [torch.float32, torch.bfloat16] if on_gpu or multiplies_bf16() else [torch.float32]
    speeds = {}
    for dtype in formats:
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        b = by_columns(b)
        best = min(seconds_of(lambda: linear(a, b)) for _ in range(6))  # noqa: B023
        speeds[str(dtype).removeprefix("torch.")] = 2 * size**3 / best
    source = torch.ones((1 << 28) if on_gpu else (1 << 25), device=device)  # larger than any cache
    copy = torch.empty_like(source)
    bandwidth = 2 * source.nbytes / min(seconds_of(lambda: copy.copy_(source)) for _ in range(6))
    return Machine(_about(device), speeds, bandwidth)


def _about(device: torch.device) -> dict[str, str]:
    about = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_model(),
        "threads": str(torch.get_num_threads()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "zgul": _version("zgul"),
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        # without where things lie on this machine
        "command": " ".join(
            ["python -m benchmarks", *(Path(w).name if w.startswith("/") else w for w in sys.argv[1:])]
        ),
    }
    if device.type == "cuda":
        about |= {"cuda": torch.version.cuda or "?", "cpu": _cpu_model()}
        about["products in fp32"] = "TF32" if torch.backends.cuda.matmul.allow_tf32 else "IEEE fp32"
    return about


def _version(package: str) -> str:
    if package == "zgul":
        import zgul

        return zgul.__version__
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit() -> str:
    """The commit that was measured; with "+" where files differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short=10", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"

"""How a row is measured: outputs are compared first, then all contestants run in turn, for several rounds.

In a round every contestant runs once. A ratio is the median of the ratios of the rounds, so a machine that slows down
slows down all contestants.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]


class NotMeasured(Exception):
    """A row cannot be measured here. The message says why."""


class Unequal(Exception):
    """Outputs differ, so there is nothing to time."""


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
    met: bool | None = None  # None: there is no target
    times: dict[str, list[float]] = field(default_factory=dict)  # seconds of each contestant, by round
    compared: str = ""  # which outputs were compared, and how far apart they are
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    reason: str = ""  # why it was not measured

    def judge(self, ratios: Sequence[float], reached: Callable[[float], bool | None]) -> Result:
        """Set the value to the median of the rounds' ratios and compare it with the target."""
        self.value, self.low, self.high = statistics.median(ratios), min(ratios), max(ratios)
        self.met = reached(self.value)
        return self

    def median(self, name: str) -> float:
        """Median seconds of a contestant."""
        return statistics.median(self.times[name])

    def ratios(self, above: str, below: str) -> list[float]:
        """The ratio of two contestants in each round."""
        return [a / b for a, b in zip(self.times[above], self.times[below], strict=True)]

    def to_json(self) -> dict[str, Any]:
        times = {
            name: {"median": statistics.median(each), "min": min(each), "max": max(each), "rounds": each}
            for name, each in self.times.items()
        }
        return vars(self) | {"times": times}


# --- timing


Contestant = Callable[[], object]


def say(text: str) -> None:
    """Print progress to standard error."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def seconds_of(run: Contestant) -> float:
    """How long one call takes, including everything that it left to the GPU."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else (lambda: None)
    wait()
    started = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - started


def interleave(contestants: Mapping[str, Contestant], rounds: int, *, warm: int = 1) -> dict[str, list[float]]:
    """Run every contestant once a round. The order is reversed in every other round."""
    for _ in range(warm):
        for run in contestants.values():
            seconds_of(run)
    gc.collect()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name in list(contestants) if number % 2 == 0 else reversed(contestants):
            times[name].append(seconds_of(contestants[name]))
        shown = ", ".join(f"{name} {each[-1]:.3g} s" for name, each in times.items())
        say(f"  {shown}  (round {number + 1}/{rounds})")
    return times


# --- comparing outputs


def assert_same(name: str, ours: Tensor, theirs: Tensor, tolerance: float) -> str:
    """Raise `Unequal` if numbers differ by more than this share of the largest. Returns how far apart they are."""
    far = _apart(name, ours, theirs)
    if not far <= tolerance:
        raise Unequal(f"{name}: {far:.1e} apart (of the largest number), {tolerance:.0e} allowed")
    return f"{name}: {far:.1e} apart, {tolerance:.0e} allowed"


def assert_same_tags(name: str, ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> str:
    """Raise `Unequal` if a single tag differs."""
    flat = [[tag for sentence in tags for tag in sentence] for tags in (ours, theirs)]
    if len(flat[0]) != len(flat[1]):
        raise Unequal(f"{name}: {len(flat[0])} tags against {len(flat[1])}")
    different = sum(a != b for a, b in zip(*flat, strict=True))
    if different:
        raise Unequal(f"{name}: {different} of {len(flat[0])} tags differ")
    return f"{name}: all {len(flat[0])} equal"


def _apart(name: str, ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, as a share of the largest number."""
    ours, theirs = ours.double().cpu(), theirs.double().cpu()
    if ours.shape != theirs.shape:
        raise Unequal(f"{name}: {list(ours.shape)} against {list(theirs.shape)}")
    if not torch.isfinite(ours).all() or not torch.isfinite(theirs).all():
        raise Unequal(f"{name}: not all numbers are finite")
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12))

"""Is one system better than another? Spread over seeds, McNemar's test on words, paired bootstrap of F1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from zgul.errors import ZgulError
from zgul.evaluation.scoring import Tags, check_aligned, chunk_counts

EXACT_BELOW = 25  # discordant words; the chi-square approximation is good from here on


@dataclass(frozen=True)
class MeanStd:
    """Mean and sample standard deviation. A single run has no deviation."""

    mean: float
    std: float | None
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


@dataclass(frozen=True)
class McNemar:
    """McNemar's test on the words that exactly one of two systems tags correctly."""

    only_first: int  # words that only the first system has right
    only_second: int
    statistic: float  # exact test: the smaller count; otherwise chi-square with continuity correction
    p: float
    exact: bool


@dataclass(frozen=True)
class Difference:
    """F1 of the first system minus F1 of the second, in points, with a bootstrap confidence interval."""

    f1: float
    low: float
    high: float


def mean_std(values: Sequence[float]) -> MeanStd:
    """Mean and standard deviation of one score over seeds."""
    if not values:
        raise ZgulError("no runs to average: train at least one seed")
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return MeanStd(float(np.mean(values)), std, len(values))


def mcnemar(gold: Tags, first: Tags, second: Tags) -> McNemar:
    """Compare two systems word by word."""
    check_aligned(gold, first)
    check_aligned(gold, second)
    flat = (chain.from_iterable(tags) for tags in (gold, first, second))
    right = [(truth == a, truth == b) for truth, a, b in zip(*flat, strict=True)]
    return mcnemar_counts(right.count((True, False)), right.count((False, True)))


def mcnemar_counts(only_first: int, only_second: int) -> McNemar:
    """McNemar's test from the two discordant counts: exact binomial for few words, else chi-square."""
    total, smaller = only_first + only_second, min(only_first, only_second)
    if total < EXACT_BELOW:
        tail = sum(math.comb(total, count) for count in range(smaller + 1)) / 2**total
        return McNemar(only_first, only_second, float(smaller), min(1.0, 2 * tail), exact=True)
    statistic = max(0, abs(only_first - only_second) - 1) ** 2 / total
    p = math.erfc(math.sqrt(statistic / 2))  # upper tail of chi-square with one degree of freedom
    return McNemar(only_first, only_second, statistic, p, exact=False)


def bootstrap_f1(
    gold: Tags, first: Tags, second: Tags, samples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Difference:
    """Paired bootstrap over sentences of the difference in F1, with its percentile interval."""
    if samples < 1 or not 0 < confidence < 1:
        raise ZgulError("the bootstrap needs samples >= 1 and a confidence between 0 and 1, such as 0.95")
    counts = np.concatenate([chunk_counts(gold, first), chunk_counts(gold, second)], axis=1)  # [sentences, 6]
    rng = np.random.default_rng(seed)
    size = len(counts)
    drawn = np.empty((samples, 6))
    for row in drawn:
        row[:] = np.bincount(rng.integers(size, size=size), minlength=size) @ counts
    low, high = np.quantile(_f1_difference(drawn), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Difference(float(_f1_difference(counts.sum(axis=0))), float(low), float(high))


def _f1_difference(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The last axis of ``counts`` holds right, predicted and gold chunks of the first, then of the second system."""
    right, total = counts[..., [0, 3]], counts[..., [1, 4]] + counts[..., [2, 5]]
    f1 = 200.0 * right / np.maximum(total, 1)
    return np.asarray(f1[..., 0] - f1[..., 1])

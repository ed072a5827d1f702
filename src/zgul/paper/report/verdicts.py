"""The rule of the report: does a claimed difference hold?

A difference *holds* if it has the claimed sign in every seed and McNemar's test on the pooled words of the group
supports it in every seed (p < 0.005, the paper's level). It is *not beyond chance* if it has the sign on average only.
Otherwise it *does not hold*.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean

from zgul.evaluation import McNemar, MeanStd, mcnemar_counts, mean_std
from zgul.paper.frame import Frame, averages
from zgul.paper.rows import ZGUL

ALPHA = 0.005  # the paper's level


@dataclass(frozen=True)
class RowComparison:
    """ZGUL against another row of a group: average F1 and McNemar's test on the group's words, seed by seed."""

    row: str
    own: float  # mean over seeds of ZGUL's average F1
    other: float
    differences: tuple[float, ...]  # of the averages
    tests: tuple[McNemar, ...]  # ZGUL is the first system

    @property
    def difference(self) -> float:
        return mean(self.differences)

    @property
    def p(self) -> float:
        """The largest p of all seeds."""
        return max((test.p for test in self.tests), default=1.0)

    @property
    def holds(self) -> bool:
        more_words = bool(self.tests) and all(test.only_first > test.only_second for test in self.tests)
        return all(difference > 0 for difference in self.differences) and more_words and self.p < ALPHA

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "not beyond chance" if self.difference > 0 else "does not hold"


def against(frame: Frame, group: str, row: str) -> RowComparison | None:
    """ZGUL against a row, over the seeds that both have."""
    languages = frame.languages(group)
    own, other = (averages(frame.entries(group, title), languages) for title in (ZGUL, row))
    seeds = sorted(own.keys() & other.keys())
    if not seeds:
        return None
    place = {"part": "zero-shot", "group": group, "row": row}
    counts = [count for count in frame.analyses.get("mcnemar") or [] if place.items() <= count.items()]
    return RowComparison(
        row,
        mean(own[seed] for seed in seeds),
        mean(other[seed] for seed in seeds),
        tuple(own[seed] - other[seed] for seed in seeds),
        tuple(mcnemar_counts(count["only_zgul"], count["only_row"]) for count in counts),
    )


def against_closest(frame: Frame, group: str) -> RowComparison | None:
    """ZGUL against the baseline with the highest average."""
    baseline = frame.closest_baseline(group)
    return against(frame, group, baseline) if baseline else None


def row_difference(frame: Frame, group: str, row: str, other: str) -> MeanStd | None:
    """Difference of the average F1 of two rows, seed by seed, over the languages that both have."""
    scored = [{entry.score.language for entry in frame.entries(group, title)} for title in (row, other)]
    languages = [code for code in frame.languages(group) if all(code in codes for codes in scored)]
    first, second = (averages(frame.entries(group, title), languages) for title in (row, other))
    values = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    return mean_std(values) if values else None


def signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0: no −0.0


def format_p(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"

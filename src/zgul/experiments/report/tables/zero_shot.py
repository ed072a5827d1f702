"""The zero-shot tables, and ZGUL against the closest baseline by McNemar's test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from zgul.evaluation.compare import McNemar, mcnemar_counts, mean_std
from zgul.experiments.report import paper
from zgul.experiments.report.document import Cell, Column, Row, Table
from zgul.experiments.report.frame import (
    ABLATIONS,
    MULTI_ROWS,
    ZERO_SHOT_ROWS,
    ZGUL,
    Frame,
    averages,
    closest_baseline,
)
from zgul.experiments.report.tables.common import (
    ALPHA,
    BESIDE,
    cell,
    embolden,
    f1_row,
    group_title,
    language_columns,
    numbers,
)
from zgul.languages import GROUPS


def zero_shot_table(frame: Frame, part: str, group: str, counts: list[dict[str, Any]]) -> Table:
    """A group's table of the paper."""
    languages = frame.languages(part, group)
    there = frame.rows(part, group)
    published = paper.ZERO_SHOT[group]
    complete = tuple(languages) == GROUPS[group].targets
    rows: list[Row] = []
    for title in ZERO_SHOT_ROWS:
        if title not in there:
            continue

        def number(code: str, title: str = title) -> float | None:
            return published.get(title, code) if code != paper.AVERAGE or complete else None

        rule = title in (MULTI_ROWS[0], ABLATIONS[0]) or (title == MULTI_ROWS[1] and MULTI_ROWS[0] not in there)
        spreads = (paper.DEVIATIONS[group].get(title, code) for code in (*languages, paper.AVERAGE))
        cells = [
            replace(item, paper_std=spread if item.paper is not None else None)
            for item, spread in zip(f1_row(frame.entries(part, group, title), languages, number), spreads, strict=True)
        ]
        rows.append(Row(title, tuple(cells), rule and bool(rows)))
    rows = list(embolden(rows))
    test = against_closest(frame, part, group, counts)
    told = ""
    if test is not None and test.holds:
        last = rows[[row.title for row in rows].index(ZGUL)]
        marked = replace(last, cells=(*last.cells[:-1], replace(last.cells[-1], mark="*")))
        rows = [marked if row is last else row for row in rows]
        told = f"; * better than the closest baseline ({test.row}) by McNemar's test, p < {ALPHA} in every seed"
    task = GROUPS[group].task.upper()
    seeds = sorted({run.seed for run in frame.runs_of(part, group)})
    treated = ", every method with X and DATE unannotated and character noise" if part == "treated" else ""
    which = f"{'seed' if len(seeds) == 1 else 'seeds'} {numbers(seeds)}"
    caption = f"{group_title(group)}, {task}, zero-shot F1{treated}: {BESIDE} ({which}){told}"
    return Table(f"{part}-{group}", caption, language_columns(languages), tuple(rows), "Method")


@dataclass(frozen=True)
class Comparison:
    """ZGUL against another row of a group: average F1, and McNemar's test on the group's words, seed by seed."""

    row: str
    own: float  # mean over seeds of ZGUL's average F1
    other: float
    differences: tuple[float, ...]  # of the averages
    tests: tuple[McNemar, ...]  # the first system is ZGUL

    @property
    def difference(self) -> float:
        return mean(self.differences)

    @property
    def p(self) -> float:
        """The largest of the seeds'."""
        return max((test.p for test in self.tests), default=1.0)

    @property
    def more_words(self) -> bool:
        """Does ZGUL have more words right, in every seed?"""
        return bool(self.tests) and all(test.only_first > test.only_second for test in self.tests)

    @property
    def fewer_words(self) -> bool:
        return bool(self.tests) and all(test.only_first < test.only_second for test in self.tests)

    @property
    def holds(self) -> bool:
        """Better in F1 and in words, beyond chance, in every seed."""
        return all(difference > 0 for difference in self.differences) and self.more_words and self.p < ALPHA


def against(frame: Frame, part: str, group: str, row: str, counts: list[dict[str, Any]]) -> Comparison | None:
    """ZGUL against a row, over the seeds that both have."""
    languages = frame.languages(part, group)
    own = averages(frame.entries(part, group, ZGUL), languages)
    other = averages(frame.entries(part, group, row), languages)
    seeds = sorted(own.keys() & other.keys())
    if not seeds:
        return None
    found = [count for count in counts if (count["part"], count["group"], count["row"]) == (part, group, row)]
    return Comparison(
        row,
        mean(own[seed] for seed in seeds),
        mean(other[seed] for seed in seeds),
        tuple(own[seed] - other[seed] for seed in seeds),
        tuple(mcnemar_counts(count["only_zgul"], count["only_row"]) for count in found),
    )


def against_closest(frame: Frame, part: str, group: str, counts: list[dict[str, Any]]) -> Comparison | None:
    baseline = closest_baseline(frame, part, group)
    return against(frame, part, group, baseline, counts) if baseline else None


def significance(frame: Frame, part: str, counts: list[dict[str, Any]]) -> Table | None:
    """ZGUL against the closest baseline of each group."""
    rows = []
    for group in frame.groups(part):
        test = against_closest(frame, part, group, counts)
        if test is None:
            continue
        nearest, gain = paper.lead(group)
        star = "*" if group in paper.SIGNIFICANT else ""
        rows.append(
            Row(
                group_title(group),
                (
                    Cell(text=test.row),
                    cell(mean_std(test.differences)),
                    Cell(mean(t.only_first for t in test.tests) if test.tests else None, digits=0),
                    Cell(mean(t.only_second for t in test.tests) if test.tests else None, digits=0),
                    Cell(text=", ".join(p_value(t.p) for t in test.tests) or "–"),
                    Cell(text=f"{f'{gain:+.1f}'.replace('-', '−')}{star} over {nearest}"),
                ),
            )
        )
    if not rows:
        return None
    columns = (
        "closest baseline",
        "ZGUL − baseline, F1",
        "only ZGUL right",
        "only baseline right",
        "p by seed",
        "paper",
    )
    caption = (
        "ZGUL against the closest baseline (highest average of the group): words of all the group's test files that "
        "exactly one of the two has right (mean over seeds) and McNemar's p of each seed; in the paper's column * is "
        f"p < {ALPHA}"
    )
    return Table(f"mcnemar-{part}", caption, tuple(map(Column, columns)), tuple(rows), "Group")


def p_value(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"

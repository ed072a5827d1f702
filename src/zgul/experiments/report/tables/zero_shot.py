"""The zero-shot tables, and ZGUL against the closest baseline by McNemar's test."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import Any

from zgul.evaluation.compare import mcnemar_counts, mean_std
from zgul.experiments.report import paper
from zgul.experiments.report.document import Cell, Column, Row, Table
from zgul.experiments.report.frame import (
    ABLATIONS,
    BASELINES,
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
        cells = f1_row(frame.entries(part, group, title), languages, number)
        rows.append(Row(title, tuple(cells), rule and bool(rows)))
    rows = list(embolden(rows))
    test = against_closest(frame, part, group, counts)
    told = ""
    if test is not None:
        if test["better"] and test["p"] < ALPHA:
            rows = [
                replace(row, cells=(*row.cells[:-1], replace(row.cells[-1], mark="*"))) if row.title == ZGUL else row
                for row in rows
            ]
        told = f"; * better than the closest baseline ({test['baseline']}) by McNemar's test, p < {ALPHA} in every seed"
    task = GROUPS[group].task.upper()
    seeds = sorted({run.seed for run in frame.runs_of(part, group)})
    treated = ", every method with X and DATE unannotated and character noise" if part == "treated" else ""
    caption = f"{group_title(group)}, {task}, zero-shot F1{treated}: {BESIDE} (seeds {numbers(seeds)}){told}"
    return Table(f"{part}-{group}", caption, language_columns(languages), tuple(rows), "Method")


def against(
    frame: Frame, part: str, group: str, row: str, counts: list[dict[str, Any]], than: str = ZGUL
) -> dict[str, Any] | None:
    """ZGUL against another row: difference of the average F1 by seed, McNemar's counts and p by seed."""
    languages = frame.languages(part, group)
    own = averages(frame.entries(part, group, than), languages)
    other = averages(frame.entries(part, group, row), languages)
    seeds = sorted(own.keys() & other.keys())
    if not seeds:
        return None
    differences = [own[seed] - other[seed] for seed in seeds]
    found = [c for c in counts if (c["part"], c["group"], c["row"]) == (part, group, row)]
    tests = [mcnemar_counts(c["only_zgul"], c["only_row"]) for c in found]
    return {
        "group": group,
        "baseline": row,
        "own": mean(own[seed] for seed in seeds),
        "other": mean(other[seed] for seed in seeds),
        "differences": differences,
        "difference": mean(differences),
        "only_zgul": mean(c["only_zgul"] for c in found) if found else None,
        "only_row": mean(c["only_row"] for c in found) if found else None,
        "ps": [test.p for test in tests],
        "p": max((test.p for test in tests), default=1.0),
        "better": bool(tests) and all(test.only_first > test.only_second for test in tests),
        "worse": bool(tests) and all(test.only_first < test.only_second for test in tests),
    }


def against_closest(frame: Frame, part: str, group: str, counts: list[dict[str, Any]]) -> dict[str, Any] | None:
    baseline = closest_baseline(frame, part, group)
    return against(frame, part, group, baseline, counts) if baseline else None


def significance(frame: Frame, part: str, counts: list[dict[str, Any]]) -> Table | None:
    """ZGUL against the closest baseline of each group."""
    rows = []
    for group in frame.groups(part):
        test = against_closest(frame, part, group, counts)
        if test is None:
            continue
        published = paper.ZERO_SHOT[group]
        nearest = max(BASELINES, key=lambda row: published.get(row, paper.AVERAGE) or 0.0)
        gain = (published.get(ZGUL, paper.AVERAGE) or 0.0) - (published.get(nearest, paper.AVERAGE) or 0.0)
        star = "*" if group in paper.SIGNIFICANT else ""
        rows.append(
            Row(
                group_title(group),
                (
                    Cell(text=test["baseline"]),
                    cell(mean_std(test["differences"])),
                    Cell(test["only_zgul"], digits=0),
                    Cell(test["only_row"], digits=0),
                    Cell(text=", ".join(map(p_value, test["ps"])) or "–"),
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

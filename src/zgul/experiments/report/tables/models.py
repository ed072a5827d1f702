"""Encoders, classes, parameters and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from zgul.evaluation.compare import MeanStd, mean_std
from zgul.experiments.report import paper
from zgul.experiments.report.document import Cell, Column, Row, Table
from zgul.experiments.report.frame import (
    ABLATIONS,
    COMPARED,
    ZGUL,
    Entry,
    Frame,
    average,
)
from zgul.experiments.report.tables.common import BESIDE, cell, embolden, group_title
from zgul.languages import GROUPS, find

ENCODER_ROWS = ("SFT-M", "CPG", ZGUL, *ABLATIONS)


COST_ROWS = {"SFT-M": "sft-m", "CPG": "cpg", "ZGUL": "zgul", "MADX^multi": "madx-multi"}


def encoders(frame: Frame) -> Table | None:
    """The same methods on every encoder of the store, and on the paper's two."""
    groups = frame.groups("zero-shot")
    if not groups:
        return None
    columns: list[Column] = []
    cells: dict[str, list[Cell]] = {row: [] for row in ENCODER_ROWS}
    for group in groups:
        for number, name in enumerate(frame.encoders):
            languages = frame.languages("zero-shot", group, name)
            if not languages:
                continue
            columns.append(Column(name, group_title(group), rule=number == 0 and bool(columns)))
            for row in ENCODER_ROWS:
                cells[row].append(cell(average(frame.entries("zero-shot", group, row, encoder=name), languages)))
        for title, source in (("mBERT (paper)", paper.ZERO_SHOT), ("XLM-R (paper)", paper.XLMR)):
            if group in source:
                columns.append(Column(title, group_title(group)))
                for row in ENCODER_ROWS:
                    cells[row].append(Cell(source[group].get(row, paper.AVERAGE)))
    rows = [Row(row, tuple(items), rule=row == ABLATIONS[0]) for row, items in cells.items()]
    rows = [row for row in rows if any(item.std is not None or item.value is not None for item in row.cells)]
    caption = (
        "Average F1 of each group on each encoder, the best of a column in bold; columns marked “paper” are "
        "published numbers"
    )
    return Table("encoders", caption, tuple(columns), embolden(rows), "Method")


def classes(frame: Frame, task: str, language: str | None = None) -> Table | None:
    """F1 of each class, averaged over the languages that have it."""
    groups = [group for group in frame.groups("zero-shot") if GROUPS[group].task == task]
    if language is not None:
        groups = [group for group in groups if language in GROUPS[group].targets]
    found = {
        row: [entry for group in groups for entry in frame.entries("zero-shot", group, row, language=language)]
        for row in COMPARED
    }
    shown = [row for row in COMPARED if found[row]]
    if not shown:
        return None
    support: dict[str, dict[str, float]] = {}
    for entry in found[shown[0]]:
        for name, values in entry.score.per_class.items():
            if values["support"]:
                support.setdefault(name, {})[entry.score.language] = values["support"]
    published = paper.CLASSES[task]
    order = [name for name in published.values if name in support]
    order += sorted(set(support) - set(order))
    rows = []
    for name in order:
        cells = [
            cell(
                _class_f1(found[row], name, list(support[name])),
                published.get(name, row) if language is None else None,
            )
            for row in shown
        ]
        rows.append(Row(name, tuple(cells)))
    rows = [Row(row.title, _bold_across(row.cells)) for row in rows]
    totals = [sum(support[name].values()) for name in order]
    rows = [
        Row(
            row.title,
            (
                *row.cells,
                Cell(total, paper=published.get(row.title, "support") if language is None else None, digits=0),
            ),
        )
        for row, total in zip(rows, totals, strict=True)
    ]
    languages = list(dict.fromkeys(entry.score.language for entry in found[shown[0]]))
    micro = _bold_across(
        [
            cell(average(found[row], languages), published.get("Micro-F1", row) if language is None else None)
            for row in shown
        ]
    )
    rows.append(
        Row(
            "Micro-F1",
            (
                *micro,
                Cell(sum(totals), paper=published.get("Micro-F1", "support") if language is None else None, digits=0),
            ),
            rule=True,
        )
    )
    where = find(language).name if language else "averaged over all languages that have the class"
    beside = BESIDE.replace("column", "row") if language is None else "mean ± standard deviation over seeds"
    caption = (
        f"Class-wise F1, {task.upper()}, {where}: {beside}; support is the number of gold chunks as seqeval counts them"
    )
    name = f"classes-{task}" if language is None else f"classes-{language}"
    return Table(name, caption, (*map(Column, shown), Column("Support", rule=True)), tuple(rows), "Class")


def _class_f1(entries: Sequence[Entry], name: str, languages: Sequence[str]) -> MeanStd | None:
    by_seed: dict[int, list[float]] = {}
    for entry in entries:
        if entry.score.language in languages:
            by_seed.setdefault(entry.run.seed, []).append(entry.score.per_class.get(name, {}).get("f1", 0.0))
    return mean_std([mean(values) for values in by_seed.values()]) if by_seed else None


def _bold_across(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    best = max((round(item.value, item.digits) for item in cells if item.value is not None), default=0.0)
    return tuple(
        replace(item, bold=item.value is not None and round(item.value, item.digits) == best) for item in cells
    )


def cost(frame: Frame) -> Table | None:
    """Trainable parameters and seconds an epoch."""
    groups = frame.groups("zero-shot")
    rows = []
    for title, method in COST_ROWS.items():
        runs = {group: frame.runs_of("zero-shot", group, method) for group in groups}
        parameters = [run.facts["trainable"] for found in runs.values() for run in found if "trainable" in run.facts]
        if not parameters:
            continue
        cells = [Cell(mean(parameters) / 1e6, paper=paper.COST.get(title, "parameters"))]
        for group in groups:
            times = [run.facts["seconds_per_epoch"] for run in runs[group] if "seconds_per_epoch" in run.facts]
            minutes = paper.COST.get(title, group)
            seconds = minutes * 60 if minutes is not None else None
            cells.append(Cell(mean(times), paper=seconds) if times else Cell(paper=seconds))
        rows.append(Row(title, tuple(cells)))
    if not rows:
        return None
    columns = (
        Column("Parameters, M"),
        *(Column(group_title(g), "Seconds an epoch", i == 0) for i, g in enumerate(groups)),
    )
    caption = (
        "Trainable parameters (millions) and training time of an epoch. The paper's are of mBERT on its own, larger "
        "data on a V100; runs here may have shared a device, so times are upper bounds"
    )
    return Table("cost", caption, columns, tuple(rows), "Method")

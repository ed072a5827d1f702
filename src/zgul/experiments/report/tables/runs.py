"""All scores of a language, and the runs behind a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zgul.evaluation.compare import mean_std
from zgul.experiments.report import paper
from zgul.experiments.report.document import Cell, Column, Row, Table
from zgul.experiments.report.frame import (
    Frame,
    encoder,
)
from zgul.experiments.report.tables.common import cell, numbers
from zgul.experiments.report.tables.em import published_em
from zgul.experiments.report.tables.unlabelled import share
from zgul.languages import find


def language_rows(frame: Frame, group: str, language: str) -> Table:
    """Every row of every part that scored a language."""
    rows: list[Row] = []
    for part in ("zero-shot", "treated", "unlabelled"):
        first = True
        for row in frame.rows(part, group):
            entries = [e for e in frame.entries(part, group, row, language=language) if share(e) == 1.0]
            if not entries:
                continue
            published = paper.ZERO_SHOT[group].get(row, language)
            if published is None and ", EM" in row:
                published = published_em(group, row)(language)
            if part == "unlabelled":
                published = paper.UNLABELLED.get(row, language)
            values = [[getattr(e.score, name) for e in entries] for name in ("f1", "precision", "recall", "accuracy")]
            own = [cell(mean_std(column)) for column in values]
            own[0] = replace(own[0], paper=published)
            settings = sorted({_em_settings(e.score.em) for e in entries if e.score.em})
            cells = (Cell(text=part), *own, Cell(text="; ".join(settings)))
            title = f"{row} (uses target labels)" if row.endswith("on target dev") else row
            rows.append(Row(title, cells, rule=first and bool(rows)))
            first = False
    columns = tuple(map(Column, ("Part", "F1", "Precision", "Recall", "Accuracy", "EM settings")))
    caption = f"{find(language).name}: all rows, mean ± standard deviation over seeds, the paper's F1 beside"
    return Table(f"rows-{language}", caption, columns, tuple(rows), "Method")


def _em_settings(em: dict[str, Any] | None) -> str:
    em = em or {}
    return (
        f"T = {em.get('steps', '?')}, lr = {em.get('lr', '?'):g}" if isinstance(em.get("lr"), int | float) else str(em)
    )


def runs_table(frame: Frame) -> Table | None:
    """How many runs and hours each part took."""
    rows = []
    for part in dict.fromkeys(run.part for run in frame.runs):
        found = [run for run in frame.runs if run.part == part]
        devices = sorted({str(run.facts["device"]) for run in found if "device" in run.facts})
        names = sorted({encoder(run) for run in found})
        seeds = sorted({run.seed for run in found})
        cells = (
            Cell(len(found), digits=0),
            Cell(text=numbers(seeds)),
            Cell(sum(run.seconds for run in found) / 3600, digits=2),
            Cell(text=", ".join(devices) or "–"),
            Cell(text=", ".join(names)),
        )
        rows.append(Row(part, cells))
    columns = tuple(map(Column, ("Runs", "Seeds", "Hours, summed", "Device", "Encoder")))
    return Table("runs", "Runs behind this report", columns, tuple(rows), "Part") if rows else None

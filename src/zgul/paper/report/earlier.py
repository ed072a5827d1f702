"""This report beside earlier ones: which verdicts and averages changed with the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zgul.paper.frame import Frame, average
from zgul.paper.report.claims import find_claims
from zgul.paper.report.document import Cell, Column, ReportTable, TableRow, table, text_cells
from zgul.paper.report.score_tables import cell, group_title, listed
from zgul.paper.report.texts import text
from zgul.paper.report.verdicts import signed
from zgul.paper.rows import ZERO_SHOT


def verdicts_table(frames: Mapping[str, Frame]) -> ReportTable | None:
    """Claims by protocol. The last frame is this report's."""
    found = [{claim.title: claim.test for claim in find_claims(frame)} for frame in frames.values()]
    rows = []
    for title, now in found[-1].items():
        cells = [Cell(text="–") for _ in found]
        for place, tests in enumerate(found):
            if test := tests.get(title):
                told = f"{signed(test.difference)} ({test.verdict})"
                cells[place] = Cell(text=told, bold=test.verdict != now.verdict)
        rows.append(TableRow(title, tuple(cells)))
    return table("earlier-verdicts", text("earlier-verdicts"), "Claim", frames, rows)


def averages_table(frames: Mapping[str, Frame]) -> ReportTable | None:
    """Average F1 of each row and group by protocol."""
    groups = list(frames.values())[-1].groups()
    heads = [Column(name, group_title(g), name == next(iter(frames))) for g in groups for name in frames]
    rows = []
    for row in ZERO_SHOT:
        values = [average(f.entries(g, row), f.languages(g)) for g in groups for f in frames.values()]
        if any(values):
            rows.append(TableRow(row, tuple(map(cell, values))))
    return table("earlier-averages", text("earlier-averages"), "Method", heads, rows)


def settings_table(frames: Mapping[str, Frame]) -> ReportTable | None:
    """The settings in which the protocols differ."""
    protocols = [frame.store.meta.get("protocol", {}) for frame in frames.values()]
    names = dict.fromkeys(name for protocol in protocols for name in protocol)
    shown = {name: [_shown(protocol.get(name)) for protocol in protocols] for name in names}
    shown["tuning runs"] = [str(len(frame.runs_of("tuning"))) for frame in frames.values()]
    rows = (TableRow(name, text_cells(*values)) for name, values in shown.items() if len({*values}) > 1)
    return table("earlier-settings", text("earlier-settings"), "Setting", frames, rows)


def _shown(value: Any) -> str:
    return listed(value) or "–" if isinstance(value, list | tuple) else "–" if value is None else str(value)

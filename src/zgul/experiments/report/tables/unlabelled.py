"""Unlabelled text of the target: the paper's table of the ++ methods."""

from __future__ import annotations

from zgul.experiments.report import paper
from zgul.experiments.report.document import Cell, Row, Table
from zgul.experiments.report.frame import (
    Entry,
    Frame,
)
from zgul.experiments.report.tables.common import BESIDE, embolden, f1_row, language_columns
from zgul.languages import GROUPS

UNLABELLED_ROWS = (
    "MADX^multi-Tgt",
    "SFT++",
    "ZGUL++",
    "ZGUL++ w/o target adapter",
    "ZGUL++ w/o adapted encoder",
)


def share(entry: Entry) -> float:
    return float(entry.run.extra.get("share", 1.0))


def unlabelled_entries(frame: Frame, row: str, part_of_text: float = 1.0) -> list[Entry]:
    """A row's scores over all groups with this share of the text; without text: the row it grew from."""
    return [
        entry
        for group in frame.groups("unlabelled")
        for entry in frame.entries("unlabelled", group, row)
        if share(entry) == part_of_text
    ]


def unlabelled_table(frame: Frame, text: dict[str, dict[str, int]]) -> Table | None:
    """Target text in various models."""
    found = {row: unlabelled_entries(frame, row) for row in UNLABELLED_ROWS}
    there = {entry.score.language for entries in found.values() for entry in entries}
    languages = [code for group in GROUPS.values() for code in group.targets if code in there]
    if not languages:
        return None
    same = set(languages) == set(paper.UNLABELLED.values["SFT++"]) - {paper.AVERAGE}
    rows = []
    for row, entries in found.items():
        if entries:

            def number(code: str, row: str = row) -> float | None:
                return paper.UNLABELLED.get(row, code) if code != paper.AVERAGE or same else None

            cells = f1_row(entries, languages, number)
            rows.append(Row(row, tuple(cells), rule=row == "ZGUL++ w/o target adapter"))
    result = list(embolden(rows))
    if text:
        sizes = [
            Cell(sum(text[c].values()) / 1000 if c in text else None, paper=paper.UNLABELLED_THOUSANDS.get(c), digits=0)
            for c in languages
        ]
        result.append(Row("Text, thousand lines", (*sizes, Cell()), rule=True))
    caption = f"F1 with unlabelled text of the target language: {BESIDE}" + (
        "" if same else ". Avg is over the languages shown; the paper's is over its twelve, so it is not put beside"
    )
    if left := [code for group in GROUPS.values() for code in group.targets if code in text and code not in there]:
        caption += f". Not run, though there is text: {', '.join(left)}"
    return Table("unlabelled", caption, language_columns(languages), tuple(result), "Method")

"""A few labelled sentences of the target."""

from __future__ import annotations

from zgul.experiments.report.document import Column, Row, Table
from zgul.experiments.report.frame import (
    Entry,
    Frame,
    average,
)
from zgul.experiments.report.tables.common import cell, embolden, group_title, language_title


def few_shot_sizes(frame: Frame, group: str) -> list[int]:
    sizes = {
        int(entry.run.extra["examples"])
        for row in frame.rows("few-shot", group)
        for entry in frame.entries("few-shot", group, row)
    }
    return sorted({0} | sizes)


def few_shot_entries(frame: Frame, group: str, row: str, size: int, language: str | None = None) -> list[Entry]:
    """Scores after so many examples; with none: the zero-shot scores of the languages that have examples."""
    if size:
        return frame.entries("few-shot", group, row, language=language, examples=size)
    codes = frame.languages("few-shot", group)
    return [e for e in frame.entries("zero-shot", group, row, language=language) if e.score.language in codes]


def few_shot_languages(frame: Frame, group: str) -> list[str]:
    """The languages that have every size: a mean over changing languages would bend the curve."""
    sizes = few_shot_sizes(frame, group)[1:]
    rows = frame.rows("few-shot", group)

    def complete(code: str) -> bool:
        return all(
            frame.entries("few-shot", group, row, language=code, examples=size) for row in rows for size in sizes
        )

    return [code for code in frame.languages("few-shot", group) if complete(code)]


def few_shot_table(frame: Frame, group: str) -> Table | None:
    """Averages of a group by number of examples."""
    if group not in frame.groups("few-shot"):
        return None
    sizes, languages = few_shot_sizes(frame, group), few_shot_languages(frame, group)
    rows = []
    for row in frame.rows("few-shot", group):
        values = (average(few_shot_entries(frame, group, row, size), languages) for size in sizes)
        rows.append(Row(row, tuple(map(cell, values))))
    caption = (
        f"{group_title(group)}, few-shot: F1 averaged over {', '.join(map(language_title, languages))} by number of "
        "labelled target sentences, mean ± standard deviation over seeds and draws, the best in bold (the paper gives "
        "curves only)"
    )
    return Table(f"few-shot-{group}", caption, tuple(Column(str(size)) for size in sizes), embolden(rows), "Examples")

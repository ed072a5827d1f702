"""What all tables share: cells with the paper's number beside, averages, the best in bold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from zgul.evaluation.compare import MeanStd
from zgul.experiments.report import paper
from zgul.experiments.report.document import Cell, Column, Row
from zgul.experiments.report.frame import (
    Entry,
    average,
    f1,
)

ALPHA = 0.005  # the paper's level

BESIDE = "mean ± standard deviation over seeds, the best of a column in bold; the paper's number beside"


def group_title(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def language_title(code: str) -> str:
    return code.capitalize()


def cell(value: MeanStd | None, published: float | None = None, digits: int = 1) -> Cell:
    if value is None:
        return Cell(paper=published, digits=digits)
    return Cell(value.mean, value.std, published, digits=digits)


def embolden(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The highest number of each column in bold, as it is printed: equals are all bold, unless nothing scores."""
    columns = zip(*(row.cells for row in rows), strict=True)
    best = [max((_printed(item) for item in column if item.value is not None), default=0.0) for column in columns]
    return tuple(
        replace(
            row,
            cells=tuple(
                replace(item, bold=item.value is not None and _printed(item) == top != 0.0)
                for item, top in zip(row.cells, best, strict=True)
            ),
        )
        for row in rows
    )


def _printed(item: Cell) -> float:
    return round(item.value or 0.0, item.digits)


def f1_row(entries: Sequence[Entry], languages: Sequence[str], published: Callable[[str], float | None]) -> list[Cell]:
    """F1 of each language, and their average."""
    cells = [cell(f1(e for e in entries if e.score.language == code), published(code)) for code in languages]
    whole = average(entries, languages)
    return [*cells, cell(whole, published(paper.AVERAGE))]


def language_columns(languages: Iterable[str]) -> tuple[Column, ...]:
    return (*(Column(language_title(code)) for code in languages), Column("Avg", rule=True))


def numbers(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))

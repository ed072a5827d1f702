"""What a report is made of, whatever format it is written in: sections of prose, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from zgul.evaluation import MeanStd

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Cell:
    """A number of ours with its deviation over seeds and the paper's number, or a text."""

    value: float | None = None
    std: float | None = None
    paper: float | None = None
    paper_std: float | None = None
    text: str = ""  # instead of a number
    bold: bool = False
    mark: str = ""  # follows the number
    digits: int = 1

    @property
    def empty(self) -> bool:
        return self.value is None and self.paper is None and not self.text

    @property
    def printed(self) -> float | None:
        """The number as it is printed."""
        return None if self.value is None else round(self.value, self.digits) + 0.0  # + 0.0: no −0.0

    def number(self, value: float | None) -> str:
        """A number in the form that all writers show."""
        return "–" if value is None else f"{round(value, self.digits) + 0.0:,.{self.digits}f}".replace("-", "−")


@dataclass(frozen=True)
class CellStyle:
    """How a writer shows a cell: bold numbers, deviations and the paper's numbers as templates."""

    escape: Callable[[str], str]
    bold: str
    std: str
    paper: str

    def show(self, cell: Cell) -> str:
        if cell.empty:
            return ""
        own = self.escape(cell.text or cell.number(cell.value))
        own = self.bold.format(own) if cell.bold else own
        own += self._spread(cell, cell.std) + self.escape(cell.mark)
        printed = self.escape(cell.number(cell.paper)) + self._spread(cell, cell.paper_std)
        return own if cell.paper is None else own + self.paper.format(printed)

    def _spread(self, cell: Cell, std: float | None) -> str:
        return "" if std is None else self.std.format(cell.number(std))


@dataclass(frozen=True)
class Column:
    """A column. Neighbours with the same ``group`` stand under one heading; ``rule`` is a line before it."""

    title: str
    group: str = ""
    rule: bool = False


@dataclass(frozen=True)
class TableRow:
    """A row of a table; ``rule`` is a line above it."""

    title: str
    cells: tuple[Cell, ...]
    rule: bool = False


@dataclass(frozen=True)
class ReportTable:
    """Rows by columns. ``name`` is the name of its file."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    corner: str = ""  # stands above the row titles
    sortable: bool = True

    @property
    def column_groups(self) -> list[tuple[str, int]]:
        """The headings over the columns and how many columns each spans; empty if there are none."""
        spans = [(title, len(list(columns))) for title, columns in groupby(column.group for column in self.columns)]
        return spans if any(title for title, _ in spans) else []


@dataclass(frozen=True)
class Figure:
    """A figure. It is drawn only when a writer asks for it."""

    name: str
    caption: str
    draw: Callable[[], Drawing]


# A text is a paragraph, a tuple of texts a list. Their only markup is `code`, **bold** and [links](page).
Block = ReportTable | Figure | str | tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading."""

    title: str
    anchor: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """The whole report, or what there is on one language."""

    title: str
    facts: tuple[tuple[str, str], ...]  # how it was made: name and value
    sections: tuple[Section, ...]
    links: tuple[tuple[str, str], ...] = ()  # other pages: title and file name without suffix
    opening: int = 0  # how many sections stand before the facts

    def blocks(self) -> Iterator[Block]:
        return (block for section in self.sections for block in section.blocks)


def table(
    name: str, caption: str, corner: str, columns: Iterable[Column | str], rows: Iterable[TableRow], **more: Any
) -> ReportTable | None:
    """A table, or nothing if it has no rows."""
    heads = tuple(Column(column) if isinstance(column, str) else column for column in columns)
    return ReportTable(name, caption, heads, filled, corner, **more) if (filled := tuple(rows)) else None


def cell(value: MeanStd | None, published: float | None = None, digits: int = 1) -> Cell:
    """Mean and deviation over seeds beside the paper's number."""
    mean, std = (None, None) if value is None else (value.mean, value.std)
    return Cell(mean, std, published, digits=digits)


def text_cells(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text=text) for text in texts)


def bold_best(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The highest number as printed in bold. Equals are all bold; zeros are not."""
    best = max((cell.printed for cell in cells if cell.printed is not None), default=0.0)
    return tuple(replace(cell, bold=cell.printed == best != 0.0) for cell in cells)


def bold_best_of_columns(rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """The highest number of each column in bold."""
    columns = [bold_best(column) for column in zip(*(row.cells for row in rows), strict=True)]
    return tuple(replace(row, cells=cells) for row, cells in zip(rows, zip(*columns, strict=True), strict=True))


def join(name: str, caption: str, tables: Sequence[tuple[str, ReportTable]]) -> ReportTable:
    """Tables with the same kind of rows side by side, each under its heading, as the paper prints two groups."""
    titles = list(dict.fromkeys(row.title for _, table in tables for row in table.rows))
    places = [{row.title: place for place, row in enumerate(table.rows)} for _, table in tables]
    titles.sort(key=lambda title: max(place.get(title, -1) for place in places))
    columns: list[Column] = []
    cells: dict[str, list[Cell]] = {title: [] for title in titles}
    for number, (heading, table) in enumerate(tables):
        for index, column in enumerate(table.columns):
            columns.append(Column(column.title, heading, column.rule or (index == 0 and number > 0)))
        own = {row.title: row.cells for row in table.rows}
        for title in titles:
            cells[title].extend(own.get(title, tuple(Cell() for _ in table.columns)))
    ruled = {row.title for _, table in tables for row in table.rows if row.rule}
    rows = tuple(TableRow(title, tuple(cells[title]), title in ruled) for title in titles)
    return ReportTable(name, caption, tuple(columns), rows, tables[0][1].corner)

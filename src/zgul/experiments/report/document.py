"""What a report is made of, whatever it is written as: sections of prose, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True)
class Cell:
    """A number of ours, its deviation over seeds and the paper's number; or a text."""

    value: float | None = None
    std: float | None = None
    paper: float | None = None
    paper_std: float | None = None  # the paper gives it for some rows
    text: str = ""  # instead of a number
    bold: bool = False
    mark: str = ""  # behind the number
    digits: int = 1

    @property
    def empty(self) -> bool:
        return self.value is None and self.paper is None and not self.text

    def number(self, value: float | None) -> str:
        """A number as all writers show it, with thousands apart."""
        return "–" if value is None else f"{round(value, self.digits) + 0.0:,.{self.digits}f}".replace("-", "−")


@dataclass(frozen=True)
class Column:
    """A column; neighbours with the same ``group`` stand under one heading."""

    title: str
    group: str = ""
    rule: bool = False  # a line before it


@dataclass(frozen=True)
class Row:
    """A row; ``rule`` is a line above it."""

    title: str
    cells: tuple[Cell, ...]
    rule: bool = False


@dataclass(frozen=True)
class Table:
    """Rows by columns; ``name`` is its file's."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    corner: str = ""  # over the row titles
    sortable: bool = True

    @property
    def column_groups(self) -> list[tuple[str, int]]:
        """The headings over the columns, each with how many columns it spans; empty without any."""
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and spans[-1][0] == column.group:
                spans[-1] = (column.group, spans[-1][1] + 1)
            else:
                spans.append((column.group, 1))
        return spans if any(title for title, _ in spans) else []


@dataclass(frozen=True)
class Figure:
    """A figure, drawn only when a writer wants it."""

    name: str
    caption: str
    draw: Callable[[], Drawing]


@dataclass(frozen=True)
class Prose:
    """A paragraph; `code` and **bold** are its only markup."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of sentences with the same markup."""

    items: tuple[str, ...]


Block = Table | Figure | Prose | Items


@dataclass(frozen=True)
class Section:
    """A headed part of a document."""

    title: str
    anchor: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report, or the page of one language."""

    title: str
    facts: tuple[tuple[str, str], ...]  # how it was made: what, value
    sections: tuple[Section, ...]
    links: tuple[tuple[str, str], ...] = field(default=())  # other pages: title, file name without suffix

    def tables(self) -> list[Table]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Table)]

    def figures(self) -> list[Figure]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]


def join(name: str, caption: str, tables: Sequence[tuple[str, Table]]) -> Table:
    """Tables with the same kind of rows side by side, each under its heading, as the paper prints two groups."""
    titles = list(dict.fromkeys(row.title for _, table in tables for row in table.rows))
    titles.sort(key=lambda title: max(_place(table, title) for _, table in tables))
    columns: list[Column] = []
    cells: dict[str, list[Cell]] = {title: [] for title in titles}
    for number, (heading, table) in enumerate(tables):
        for index, column in enumerate(table.columns):
            columns.append(Column(column.title, heading, column.rule or (index == 0 and number > 0)))
        found = {row.title: row.cells for row in table.rows}
        for title in titles:
            cells[title].extend(found.get(title, tuple(Cell() for _ in table.columns)))
    ruled = {row.title for _, table in tables for row in table.rows if row.rule}
    rows = tuple(Row(title, tuple(cells[title]), title in ruled) for title in titles)
    return Table(name, caption, tuple(columns), rows, tables[0][1].corner)


def _place(table: Table, title: str) -> int:
    return next((place for place, row in enumerate(table.rows) if row.title == title), -1)

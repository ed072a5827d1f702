"""What a report is made of, whatever format it is written in: pages of prose, tables and figures.

Captions, rules and departures stand in ``texts.txt``, columns and compared rows in ``tables.toml``.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from zgul.evaluation import MeanStd

_FILE = Path(__file__).with_name("texts.txt").read_text(encoding="utf-8")
_TEXTS: dict[str, str] = dict(re.findall(r"^\[(.+)\]\n(.+)$", _FILE, flags=re.M))
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
_LAST = ("Avg", "Support", "Paper")  # columns that a line sets apart


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
    def is_text(self) -> bool:
        return self.value is None and self.paper is None

    def number(self, value: float | None) -> str:
        """A number in the form that all writers show."""
        return "–" if value is None else f"{round(value, self.digits) + 0.0:,.{self.digits}f}".replace("-", "−")


Item = Cell | MeanStd | str | float | None  # what a cell is made from
Head = str | tuple[str, str]  # a column's title, or its group and title


@dataclass(frozen=True)
class ReportTable:
    """Rows by columns. ``name`` is the name of its file."""

    name: str
    caption: str
    corner: str  # stands above the titles of the rows
    heads: list[tuple[str, str]]  # group and title; neighbours of one group stand under one heading
    rows: dict[str, list[Cell]]  # by title
    rules: set[str]  # titles of the rows that have a line above them

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The headings over the columns and how many columns each spans; empty if there are none."""
        spans = [(group, len(list(heads))) for group, heads in groupby(group for group, _ in self.heads)]
        return spans if any(group for group, _ in spans) else []

    @property
    def bars(self) -> list[bool]:
        """The columns that have a line before them: the first of each group, and averages."""
        before = ["", *(group for group, _ in self.heads)]
        return [group != last or title in _LAST for (group, title), last in zip(self.heads, before, strict=False)]

    @property
    def texts(self) -> list[bool]:
        """The columns without numbers."""
        return [all(cell.is_text for cell in column) for column in zip(*self.rows.values(), strict=True)]


@dataclass(frozen=True)
class Figure:
    """A figure. It is drawn only when a writer asks for it."""

    name: str
    caption: str
    draw: Callable[[], Any]  # gives a figure of matplotlib


# A text is a paragraph, a tuple of texts a list. Their only markup is `code`, **bold** and [links](page).
Block = ReportTable | Figure | str | tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """The whole report, or what there is on one language."""

    title: str
    sections: dict[str, list[Block]]
    links: dict[str, str]  # other pages: file name without suffix -> title


def text(name: str, **words: object) -> str:
    """The text of this name with its {words} filled in."""
    return _TEXTS[name].format(**{"beside": _TEXTS["beside"], **words})


def group_title(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def listed(value: object) -> str:
    """Values with commas between them; a single value as it is."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return ", ".join(map(listed, value))


def cell(item: Item, paper: float | None = None, digits: int = 1) -> Cell:
    """A text, a number, or a mean with its deviation, beside the paper's number. Whole numbers have no digits."""
    if isinstance(item, Cell):
        return item
    if isinstance(item, str):
        return Cell(text=item)
    if isinstance(item, MeanStd):
        return Cell(item.mean, item.std, paper, digits=digits)
    return Cell(item, paper=paper, digits=0 if isinstance(item, int) else digits)


def table(
    name: str,
    rows: Mapping[str, Iterable[Item]],
    heads: Iterable[Head] | None = None,
    words: Mapping[str, object] | None = None,
    *,
    rules: Iterable[str] = (),
    digits: int = 1,
    best: bool = False,
) -> ReportTable | None:
    """A table, or nothing if it has no rows. The name is that of its caption, and after a slash of its file.

    The first heading stands above the titles of the rows; without ``heads`` they are those of ``tables.toml``.
    ``best`` sets the highest number of each column in bold.
    """
    cells = {title: [cell(item, digits=digits) for item in items] for title, items in rows.items()}
    if not cells:
        return None
    if best:
        columns = [bold_best(column) for column in zip(*cells.values(), strict=True)]
        cells = {title: list(row) for title, row in zip(cells, zip(*columns, strict=True), strict=True)}
    kind = name.split("/")[0]
    given = TABLES["heads"][kind] if heads is None else heads
    corner, *titles = [("", head) if isinstance(head, str) else (head[0], head[1]) for head in given]
    rules = {*rules} - {next(iter(cells))}
    return ReportTable(name.replace("/", "-"), text(kind, **(words or {})), corner[1], titles, cells, rules)


def bold_best(cells: Iterable[Cell]) -> list[Cell]:
    """The highest number as printed in bold. Equals are all bold; zeros are not."""
    printed = [(cell, round(cell.value or 0.0, cell.digits)) for cell in cells]
    best = max(value for _, value in printed)
    return [replace(cell, bold=value == best != 0.0) for cell, value in printed]

"""What all commands print alike: JSON, tables, similarities."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def print_json(value: object) -> None:
    """Print plain data or dataclasses for other programs."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=vars))


def print_result(result: T, show: Callable[[T], None], as_json: bool) -> None:
    """Print what a library function returned, as JSON or for people by ``show``."""
    if as_json:
        print_json(result)
    else:
        show(result)


def new_console(*, piped: int = 80, at_least: int = 0) -> Console:
    """A console on standard output. ``piped`` is its width where that is no terminal.

    With ``at_least`` values are never cut off: a table wider than the screen is left to the terminal to wrap.
    """
    console = Console(highlight=False)
    return Console(highlight=False, width=max(console.width if console.is_terminal else piped, at_least))


def make_table(
    headings: Iterable[str], rows: Iterable[Sequence[object]], *, words: int = 1, title: str | None = None
) -> Table:
    """A table without lines. The first ``words`` columns are aligned to the left, the others, numbers, to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    table.header_style = "dim"
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else str(cell) for cell in row))
    return table


def similarity_colour(value: float) -> str:
    """From blue (unrelated) over yellow to red (alike)."""
    return ("blue", "cyan", "green", "yellow", "red")[min(int(value * 5), 4)]

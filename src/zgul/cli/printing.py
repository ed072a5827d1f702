"""What all commands print alike: JSON, tables, progress."""

import json
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_json(value: object) -> None:
    """Print plain data for other programs."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def new_console(piped: int = 80) -> Console:
    """A console on standard output, ``piped`` characters wide where that is no terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=piped)


def make_table(
    headings: Iterable[str],
    rows: Iterable[Sequence[object]],
    *,
    words: int = 1,
    title: str | None = None,
    no_wrap: bool = False,
) -> Table:
    """A table without lines. The first ``words`` columns are aligned to the left, the others, numbers, to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < words else "right", overflow="fold", no_wrap=no_wrap)
    table.header_style = "dim"
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else str(cell) for cell in row))
    return table

"""Printing for all commands: JSON, tables, progress on standard error."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from zgul.progress import Status

GO_ON = "Continue with the same command and --resume"
EVERY = 30.0  # seconds between plain lines of one stage
COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[figures]}"))
T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def print_json(value: object) -> None:
    """Print plain data, dataclasses, or what has ``to_dict``, for other programs."""
    print(json.dumps(value, ensure_ascii=sys.stdout.encoding.lower() != "utf-8", indent=2, default=_plain))


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else vars(value)


def print_result(result: T, show: Callable[[T], None], as_json: bool) -> None:
    """Print what a library function returned: as JSON, or for people with ``show``."""
    if as_json:
        print_json(result)
    else:
        show(result)


def new_console(*, piped: int = 80, at_least: int = 0) -> Console:
    """A console on standard output. ``piped`` is its width if standard output is not a terminal.

    ``at_least`` is a minimal width, so that no value is cut off. The terminal wraps a table wider than the screen.
    """
    console = Console(highlight=False)
    return Console(highlight=False, width=max(console.width if console.is_terminal else piped, at_least))


def make_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, words: int = 1, title: str | None = None
) -> Table:
    """A table without lines. The first ``words`` columns are left-aligned; the others are numbers, right-aligned."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None)
    table.padding, table.show_header = (0, 2, 0, 0), any(headings)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else str(cell) for cell in row))
    return table


def similarity_colour(value: float) -> str:
    """A colour from blue (unrelated) through yellow to red (alike)."""
    return ("blue", "cyan", "green", "yellow", "red")[min(int(value * 5), 4)]


class TimeLeftColumn(ProgressColumn):
    """The time left. rich's own column forgets the speed whenever the total changes, and ours is an estimate."""

    def render(self, task: Task) -> Text:
        ends = task.fields["ends"]
        left = "-:--:--" if ends is None else str(timedelta(seconds=max(0, round(ends - time.monotonic()))))
        return Text(left, style="progress.remaining")


class ProgressBars:
    """Shows the `Status` reports of long work as bars, or as plain lines if there is no terminal.

    ``with ProgressBars() as bars: train(config, report=bars)``
    """

    def __init__(self, *, transient: bool = False, hidden: bool = False) -> None:
        """``transient`` bars vanish at the end, and write no plain lines."""
        self.console = Console(stderr=True, highlight=False)
        self.prints_lines = not transient and not self.console.is_terminal
        bars = {"transient": transient, "disable": hidden or not self.console.is_terminal}
        self.progress = Progress(*COLUMNS, TimeLeftColumn(), console=self.console, **bars)  # type: ignore[arg-type]
        self._tasks: dict[str, TaskID] = {}
        self._figures: dict[str, dict[str, float]] = {}
        self._printed: dict[str, float] = {}
        self._begun: dict[str, tuple[float, int]] = {}  # when, and how much had been done before

    def __enter__(self) -> "ProgressBars":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, status: Status) -> None:
        known = self._figures.setdefault(status.stage, {})
        known |= status.figures
        figures = "  ".join(f"{name} {value:.{3 if name == 'loss' else 1}f}" for name, value in known.items())
        if status.stage not in self._tasks:
            self._tasks[status.stage] = self.progress.add_task(status.stage, total=None, figures=figures, ends=None)
        task, ends = self._tasks[status.stage], self._ends(status)
        self.progress.update(task, completed=status.done, total=status.total or None, figures=figures, ends=ends)
        if self.prints_lines and self._is_time(status):
            total = f" of {status.total}" if status.total else ""
            line = f"{status.stage}: {status.done}{total}  {figures}".rstrip()
            self.console.print(line, soft_wrap=True, markup=False)

    def _ends(self, status: Status) -> float | None:
        """When the stage will end, at its speed so far; None if that is not known."""
        now = time.monotonic()
        begun, before = self._begun.setdefault(status.stage, (now, status.done))
        if not status.total or status.done <= before:
            return None
        return now + (now - begun) * (status.total - status.done) / (status.done - before)

    def _is_time(self, status: Status) -> bool:
        """Whether to print a plain line: at the start and end of a stage, with an evaluation, or after a while."""
        now, last = time.monotonic(), self._printed.get(status.stage)
        late = last is not None and now - last >= EVERY
        due = late or last is None or status.done == status.total or "dev F1" in status.figures
        if late or (due and status.stage != "dev sets"):
            self._printed[status.stage] = now
            return True
        self._printed.setdefault(status.stage, now)
        return False


@contextmanager
def stoppable(saved: Callable[[], object], go_on: str = GO_ON) -> Iterator[ProgressBars]:
    """Progress bars of work that a user may stop. If something was ``saved`` by then, the message says how to go on."""
    try:
        with ProgressBars() as bars:
            yield bars
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"the work so far is saved. {go_on}" if saved() else "nothing was saved yet") from stop

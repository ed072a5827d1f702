"""Progress on standard error: a bar for each stage, or plain lines where that is no terminal."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from zgul.progress import Status

EVERY = 30.0  # seconds between plain lines of one stage
COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[figures]}"))


class ProgressBars:
    """Shows the `Status` reports of long work: ``with ProgressBars() as bars: train(config, report=bars)``."""

    def __init__(self, *, transient: bool = False, hidden: bool = False) -> None:
        """``transient`` bars vanish at the end, and write no plain lines."""
        self.console = Console(stderr=True, highlight=False)
        self.prints_lines = not transient and not self.console.is_terminal
        bars = {"transient": transient, "disable": hidden or not self.console.is_terminal}
        self.progress = Progress(*COLUMNS, TimeRemainingColumn(), console=self.console, **bars)  # type: ignore[arg-type]
        self._tasks: dict[str, TaskID] = {}
        self._figures: dict[str, dict[str, float]] = {}
        self._printed: dict[str, float] = {}

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
            self._tasks[status.stage] = self.progress.add_task(status.stage, total=None, figures=figures)
        task = self._tasks[status.stage]
        self.progress.update(task, completed=status.done, total=status.total or None, figures=figures)
        if self.prints_lines and self._is_time(status):
            line = f"{status.stage}: {status.done} of {status.total}  {figures}".rstrip()
            self.console.print(line, soft_wrap=True, markup=False)

    def _is_time(self, status: Status) -> bool:
        """Whether a plain line is due: the first of a stage, the last, one with an evaluation, or after a while."""
        now, last = time.monotonic(), self._printed.get(status.stage)
        late = last is not None and now - last >= EVERY
        due = late or last is None or status.done == status.total or "dev F1" in status.figures
        if late or (due and status.stage != "dev sets"):
            self._printed[status.stage] = now
            return True
        self._printed.setdefault(status.stage, now)
        return False

"""Progress of long work, on standard error: a bar with loss, F1 and time left, or plain lines where that is a file."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class ReportBar:
    """Shows the reports of ``zgul.training`` and ``zgul.adapters``; one bar for each stage."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.tasks: dict[str, TaskID] = {}
        self.figures: dict[str, dict[str, str]] = {}

    def __enter__(self) -> ReportBar:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def __call__(self, status: dict[str, Any]) -> None:
        stage = str(status.get("stage", "training"))
        done, total = (int(status[a] if a in status else status[b]) for a, b in (("done", "step"), ("total", "steps")))
        figures = self.figures.setdefault(stage, {})
        for key, label in (("loss", "loss {:.3f}"), ("dev_f1", "dev F1 {:.1f}"), ("best_f1", "best {:.1f}")):
            if key in status:
                figures[key] = label.format(status[key])
        told = "  ".join(figures.values())
        if stage not in self.tasks:
            self.tasks[stage] = self.progress.add_task(stage, total=total, figures=told)
        self.progress.update(self.tasks[stage], completed=done, total=total, figures=told)
        if not self.console.is_terminal and ("dev_f1" in status or (done == total and stage != "dev sets")):
            self.console.print(f"{stage}: {done} of {total}  {told}".rstrip(), soft_wrap=True)


def sentences_bar(description: str, total: int) -> Progress:
    """A bar that counts sentences; ``bar.advance(0, n)`` moves it."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    bar.add_task(description, total=total)
    return bar

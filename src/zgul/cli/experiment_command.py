"""``zgul experiment``: the paper's evaluation, from labelled data to a store of results."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.errors import ZgulError
from zgul.paper.estimate import Estimate
from zgul.paper.experiments import Experiment, inputs_for, remove_cache, run_paper
from zgul.paper.export import export_results
from zgul.paper.plan import PARTS, Run
from zgul.paper.protocol import WHAT, Protocol, chosen_protocol
from zgul.paper.store import DONE, FAILED, RUNNING

app = new_app("Run the paper's experiments.")
HOW = "How to run it"


@app.command("paper")
@with_options(Protocol)
def paper(
    given: dict[str, Any],
    data: Annotated[Path, typer.Option(help="Data folder with TASK/LANG/SPLIT.tsv and text/.", rich_help_panel=WHAT)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the results; it may hold some.", rich_help_panel=WHAT),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Parts, groups, methods or targets; slashes join conditions: few-shot/germanic. Repeat the option, or "
            "separate values with commas.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="All methods on one group and little data: ten minutes.", rich_help_panel=WHAT),
    ] = False,
    encoder: Annotated[str, typer.Option(help="embedded, a folder or a hub name.", rich_help_panel=WHAT)] = "embedded",
    adapters: Annotated[
        str, typer.Option(help="shipped, new, files or folders with commas, or {lang}/wiki@ukp.", rich_help_panel=WHAT)
    ] = "shipped",
    head: Annotated[
        Path | None, typer.Option(help="Masked-LM head for unlabelled text [default: trained].", rich_help_panel=WHAT)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and its time; run nothing.", rich_help_panel=HOW)
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=0, help="Processes side by side; 0: this one [default: GPU 6, CPU 1].", rich_help_panel=HOW),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.", rich_help_panel=HOW)] = "auto",
    minutes: Annotated[
        float | None, typer.Option(help="Stop after this many minutes; the next start goes on.", rich_help_panel=HOW)
    ] = None,
    same_code: Annotated[
        bool,
        typer.Option(
            "--same-code", help="Count finished runs although the code has changed since.", rich_help_panel=HOW
        ),
    ] = False,
) -> None:
    """Run the paper's evaluation by all methods, groups and seeds.

    Its parts are tuning, zero-shot, variants, few-shot and unlabelled.

    What is finished is never repeated, and what was killed goes on: start the same command again. A run that fails is
    recorded and does not stop the others. `zgul report DIR` shows the results.

    Examples:

    `zgul experiment paper --data DIR --output results --dry-run`

    `zgul experiment paper --data DIR --output quick --quick`

    `zgul experiment paper --data DIR --output results --only zero-shot/germanic --seeds 0 --jobs 4`

    `zgul experiment paper --data DIR --output xlmr --encoder xlm-roberta-base --adapters {lang}/wiki@ukp`
    """
    protocol = chosen_protocol(given, quick)
    if output.exists() and not output.is_dir():
        raise ZgulError(f"{output} is a file. --output is a folder.")
    inputs = inputs_for(data, encoder, adapters, head, device)
    experiment = Experiment(inputs, protocol, output, only or (), same_code)
    workers = jobs if jobs is not None else (6 if inputs.device == "cuda" else 1)
    if dry_run:
        _show_plan(experiment, workers)
        return
    started = time.monotonic()
    with _RunBar() as bar:
        outcome = run_paper(
            experiment, workers=workers, device=device, minutes=minutes, listener=bar.update, on_plan=bar.plan
        )
    print(f"{outcome.done} runs done in {_time(time.monotonic() - started)}. Results: {output}")
    for name, error in outcome.failed.items():
        print(f"zgul: failed: {name}: {next(iter(error.splitlines()), '')}", file=sys.stderr)
    if outcome.stopped:
        print("Stopped by --minutes. Start the same command again to go on.")
    if outcome.failed:
        print(f"{len(outcome.failed)} runs failed. They are tried again at the next start.")
        raise typer.Exit(1)
    if not outcome.stopped:
        remove_cache(output)
        print(f"Next: zgul report {shlex.quote(str(output))} --output DIR")


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")],
    file: Annotated[Path, typer.Argument(help="FILE.json, FILE.json.gz or FILE.json.xz")],
    data: Annotated[Path | None, typer.Option(help="Data folder, for statistics of the data sets.")] = None,
    sentences: Annotated[
        bool, typer.Option(help="Include the words of the test files; not every licence allows it.")
    ] = True,
) -> None:
    """Write all results as one file, from which every table and figure can be made again.

    Example:

    `zgul experiment export results results.json.gz --data DIR`
    """
    export_results(folder, file, data, sentences=sentences)
    print(f"Written to {file}. Next: zgul report {shlex.quote(str(file))} --output DIR")


def _show_plan(experiment: Experiment, workers: int) -> None:
    runs, store = experiment.plan(), experiment.store()
    statuses = {run.hash: run.status for run in store.runs()} if store is not None else {}
    estimate = Estimate(experiment.inputs, experiment.protocol, store)
    lines: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in runs:
        lines[run.part, run.group, run.method].append(run)
    table = Table(title="Plan", title_justify="left")
    for name in ("part", "group", "method"):
        table.add_column(name)
    for name in ("runs", "done", "time left"):
        table.add_column(name, justify="right")
    before = ""
    for (part, group, method), found in sorted(lines.items(), key=lambda item: PARTS.index(item[0][0])):
        left = [run for run in found if statuses.get(run.hash) != DONE]
        if before and before != part + group:
            table.add_section()
        before = part + group
        seconds = sum(map(estimate.seconds, left))
        table.add_row(part, group, method, str(len(found)), str(len(found) - len(left)), _time(seconds))
    Console(highlight=False).print(table)
    left = [run for run in runs if statuses.get(run.hash) != DONE]
    basis = (
        "by runs that were measured here, where there are any" if estimate.measured else "roughly, none is measured yet"
    )
    print(f"{len(runs)} runs, {len(runs) - len(left)} done. With {workers or 1} processes side by side about")
    print(f"{_time(estimate.total(left, workers))} are left ({basis}).")
    if experiment.protocol.tunes:
        print("Learning rates are tuned first. Runs that depend on them may change.")


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


class _RunBar:
    """Runs done and running, on standard error; plain lines where that is no terminal."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
        )
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.progress.add_task("runs", total=None, now="")
        self.names: dict[str, str] = {}
        self.ended: dict[str, str] = {}

    def __enter__(self) -> _RunBar:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def plan(self, names: dict[str, str]) -> None:
        self.names |= names

    def update(self, statuses: dict[str, str]) -> None:
        for run, status in statuses.items():
            if status in (DONE, FAILED) and run not in self.ended:
                self.ended[run] = status
                if not self.console.is_terminal or status == FAILED:
                    line = f"{len(self.ended)}/{len(self.names)} {self.names.get(run, run)}: {status}"
                    self.console.print(line, soft_wrap=True, markup=False)
        now = [self.names.get(run, run) for run, status in statuses.items() if status == RUNNING]
        counts = Counter(self.ended.values())
        failed = f"{counts[FAILED]} failed; " if counts[FAILED] else ""
        self.progress.update(self.task, total=len(self.names), completed=len(self.ended), now=failed + "; ".join(now))

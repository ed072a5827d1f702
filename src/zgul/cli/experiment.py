"""``zgul experiment``: the paper's evaluation, from labelled data to a store of results."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zgul.cli import app
from zgul.errors import ZgulError

if TYPE_CHECKING:
    from zgul.experiments.estimate import Estimate
    from zgul.experiments.plan import Protocol, Run
    from zgul.paper.store import Store

experiment_app = typer.Typer(
    no_args_is_help=True,
    help="Run the paper's experiments.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)
app.add_typer(experiment_app, name="experiment")

WHAT, HOW, SMALLER = "What to run", "How to run it", "Another protocol than the paper's"


@experiment_app.callback()
def _group() -> None:
    pass


@experiment_app.command("paper")
def paper(
    data: Annotated[Path, typer.Option(help="Data folder with TASK/LANG/SPLIT.tsv and text/.", rich_help_panel=WHAT)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for the results; may hold some already.", rich_help_panel=WHAT),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Parts, groups, methods, targets, with slashes for all at once: few-shot/germanic. Again, or commas.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="With commas [default: 0,1,2]", rich_help_panel=WHAT)] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="All methods, one group, small data: ten minutes.", rich_help_panel=WHAT)
    ] = False,
    encoder: Annotated[str, typer.Option(help="embedded, a folder or a hub name.", rich_help_panel=WHAT)] = "embedded",
    adapters: Annotated[
        str, typer.Option(help="shipped, new, files or folders with commas, or {lang}/wiki@ukp.", rich_help_panel=WHAT)
    ] = "shipped",
    head: Annotated[
        Path | None, typer.Option(help="Masked-LM head for unlabelled text [default: trained]", rich_help_panel=WHAT)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, its time and disk; run nothing.", rich_help_panel=HOW)
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=0, help="Processes side by side; 0: this one [default: GPU 4, CPU 1]", rich_help_panel=HOW),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.", rich_help_panel=HOW)] = "auto",
    minutes: Annotated[
        float | None, typer.Option(help="Stop after so many; a next start goes on.", rich_help_panel=HOW)
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Seconds between checkpoints of a run.", rich_help_panel=HOW)
    ] = 60.0,
    same_code: Annotated[
        bool,
        typer.Option(
            "--same-code", help="Finished runs count although the code has changed since.", rich_help_panel=HOW
        ),
    ] = False,
    limit: Annotated[
        int | None, typer.Option(help="Training sentences of each source.", rich_help_panel=SMALLER)
    ] = None,
    dev_limit: Annotated[
        int | None, typer.Option(help="Dev sentences of each source.", rich_help_panel=SMALLER)
    ] = None,
    test_limit: Annotated[
        int | None, typer.Option(help="Test sentences of each target.", rich_help_panel=SMALLER)
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="[default: 5 for POS, 10 for NER]", rich_help_panel=SMALLER)
    ] = None,
    lr: Annotated[
        str | None,
        typer.Option(help="For all methods, or METHOD=RATE with commas [default: docs]", rich_help_panel=SMALLER),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="[default: 32]", rich_help_panel=SMALLER)] = None,
    accumulate: Annotated[
        int | None, typer.Option(help="Batches in a step [default: 4]", rich_help_panel=SMALLER)
    ] = None,
    em_sentences: Annotated[
        int | None, typer.Option(help="Dev sentences for EM's settings [default: 300]", rich_help_panel=SMALLER)
    ] = None,
    em_rates: Annotated[
        str | None, typer.Option(help="EM learning rates to try, with commas.", rich_help_panel=SMALLER)
    ] = None,
    em_steps: Annotated[str | None, typer.Option(help="EM steps to try, with commas.", rich_help_panel=SMALLER)] = None,
    examples: Annotated[
        str | None, typer.Option(help="Few-shot sizes [default: 0,10,30,70,100]", rich_help_panel=SMALLER)
    ] = None,
    few_epochs: Annotated[int | None, typer.Option(help="[default: 10]", rich_help_panel=SMALLER)] = None,
    few_lr: Annotated[float | None, typer.Option(help="[default: the method's own]", rich_help_panel=SMALLER)] = None,
    few_batch: Annotated[int | None, typer.Option(help="[default: 8]", rich_help_panel=SMALLER)] = None,
    shares: Annotated[
        str | None, typer.Option(help="Of the text [default: 0.25,0.5,1]", rich_help_panel=SMALLER)
    ] = None,
    text_languages: Annotated[
        str | None, typer.Option(help="Targets to read text of [default: all that have it]", rich_help_panel=SMALLER)
    ] = None,
    text_lines: Annotated[
        int | None, typer.Option(help="Lines of text of each target [default: all]", rich_help_panel=SMALLER)
    ] = None,
    text_steps: Annotated[
        int | None, typer.Option(help="Masked-LM steps [default: 2000]", rich_help_panel=SMALLER)
    ] = None,
) -> None:
    """Run the paper's evaluation: zero-shot, treated, few-shot and unlabelled, by all methods, groups and seeds.

    What is finished is never repeated, and what was killed goes on: start the same command again. A run that fails is
    recorded and does not stop the others. `zgul report DIR` shows what came out.

    Examples:

    `zgul experiment paper --data DIR --output results --dry-run`

    `zgul experiment paper --data DIR --output quick --quick`

    `zgul experiment paper --data DIR --output results --only zero-shot/germanic --seeds 0 --jobs 4`

    `zgul experiment paper --data DIR --output xlmr --encoder xlm-roberta-base --adapters {lang}/wiki@ukp`
    """
    from zgul.experiments.plan import Inputs, choose, paper_plan

    told = {
        "seeds": _numbers(seeds, int, "--seeds"),
        "limit": limit,
        "dev_limit": dev_limit,
        "test_limit": test_limit,
        "epochs": epochs,
        "rates": _rates(lr),
        "batch_size": batch_size,
        "accumulate": accumulate,
        "em_sentences": em_sentences,
        "em_rates": _numbers(em_rates, float, "--em-rates"),
        "em_steps": _numbers(em_steps, int, "--em-steps"),
        "examples": _numbers(examples, int, "--examples"),
        "few_epochs": few_epochs,
        "few_lr": few_lr,
        "few_batch": few_batch,
        "shares": _numbers(shares, float, "--shares"),
        "text_languages": tuple(text_languages.split(",")) if text_languages else None,
        "text_lines": text_lines,
        "text_steps": text_steps,
    }
    protocol = _protocol(quick, told)
    if not data.is_dir():
        raise ZgulError(f"{data}: no such folder; see: zgul data list")
    if output.exists() and not output.is_dir():
        raise ZgulError(f"{output} is a file; --output is a folder")
    kind = _kind_of_device(device)
    inputs = Inputs(data, encoder, adapters, str(head) if head is not None else "", kind)
    store = _existing_store(output)
    whole = paper_plan(inputs, protocol, code=str(store.meta.get("code", "")) if same_code and store else "")
    runs = choose(whole, only or [])
    if store is not None:
        _check_alike(store, runs, protocol, output)
    workers = jobs if jobs is not None else (4 if kind == "cuda" else 1)
    from zgul.experiments.estimate import Estimate

    estimate = Estimate(inputs, protocol, store)
    if dry_run:
        _show_plan(runs, store, estimate, workers)
        return
    if store is not None:
        store.close()
    _run(runs, whole, inputs, protocol, estimate, output, device, workers, minutes, checkpoint_every)


@experiment_app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")],
    file: Annotated[Path, typer.Argument(help="FILE.json or FILE.json.gz")],
    data: Annotated[Path | None, typer.Option(help="Data folder, for statistics of the data sets.")] = None,
    sentences: Annotated[
        bool, typer.Option(help="Include the test sentences. Not every licence allows to pass them on.")
    ] = True,
) -> None:
    """Write all results as one JSON file, from which every table and figure can be made again.

    Example:

    `zgul experiment export results results.json.gz --data DIR`
    """
    from zgul.paper.export import export_results

    export_results(folder, file, data, sentences=sentences)
    print(f"Written to {file}. Next: zgul report {shlex.quote(str(file))} --output DIR")


# --- options


def _protocol(quick: bool, told: dict[str, Any]) -> Protocol:
    from dataclasses import replace

    from zgul.experiments.plan import QUICK, Protocol

    return replace(QUICK if quick else Protocol(), **{name: value for name, value in told.items() if value is not None})


def _numbers(text: str | None, kind: type[int] | type[float], option: str) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ZgulError(f"{option} takes numbers with commas, such as 0,1,2, not {text!r}") from None


def _rates(text: str | None) -> tuple[tuple[str, float], ...] | None:
    if text is None:
        return None
    from zgul.methods import method

    rates = []
    for part in text.split(","):
        name, equals, value = part.rpartition("=")
        if equals:
            method(name.strip())
        try:
            rates.append((name.strip(), float(value)))
        except ValueError:
            raise ZgulError(f"--lr takes a rate, or METHOD=RATE with commas, not {text!r}") from None
    return tuple(sorted(rates))


def _kind_of_device(device: str) -> str:
    from zgul.devices import find_device

    return find_device(device).type


def _existing_store(output: Path) -> Store | None:
    from zgul.paper.store import FILE, Store

    # one that was killed before it had made its tables makes them now
    return Store(output, create=True) if (output / FILE).is_file() else None


# --- the plan


def _show_plan(runs: list[Run], store: Store | None, estimate: Estimate, workers: int) -> None:
    from collections import defaultdict

    from rich.console import Console
    from rich.table import Table

    from zgul.experiments.estimate import total
    from zgul.experiments.jobs import planned
    from zgul.experiments.plan import PARTS
    from zgul.paper.store import DONE

    statuses = planned(store, runs)
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
        left = [run for run in found if statuses[run.hash] != DONE]
        if before and before != part + group:
            table.add_section()
        before = part + group
        seconds = sum(map(estimate.seconds, left))
        table.add_row(part, group, method, str(len(found)), str(len(found) - len(left)), _time(seconds))
    Console(highlight=False).print(table)
    left = [run for run in runs if statuses[run.hash] != DONE]
    seconds, size = total(estimate, left, workers)
    how = "by runs measured here and, for other kinds," if estimate.measured else "roughly, none being measured yet:"
    print(
        f"{len(runs)} runs, {len(runs) - len(left)} done. Still to go, {how} about {_time(seconds)} with {workers or 1}"
    )
    print(f"process(es) side by side, and at most {size / 2**30:.1f} GiB of disk while runs wait for one another.")


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


# --- the runs


def _run(
    runs: list[Run],
    whole: list[Run],
    inputs: Any,
    protocol: Protocol,
    estimate: Estimate,
    output: Path,
    device: str,
    workers: int,
    minutes: float | None,
    pace: float,
) -> None:
    import hashlib
    import json
    import os
    import shutil

    from zgul.experiments import jobs
    from zgul.paper.store import DONE, FAILED, Store

    started = time.monotonic()
    store = Store(output, create=True)
    _note(store, runs, inputs, protocol)
    statuses = jobs.planned(store, runs)
    store.close()
    left = [run for run in runs if statuses[run.hash] != DONE]
    sums = sorted({f"{name} {value}" for run in runs for name, value in run.checksums.items()})
    caches = output / "cache"
    cache = caches / hashlib.sha256(json.dumps(sums).encode()).hexdigest()[:16]
    threads = max(1, (os.cpu_count() or 1) // workers) if workers > 1 else 0
    told = jobs.Told(output, inputs, protocol, device, cache, pace, threads)
    if left and estimate.inputs.encoder == "embedded":
        from zgul import encoders

        encoders.load("embedded")  # once, so that the workers find what it caches
    until = started + 60 * minutes if minutes is not None else None
    with Show(left, len(runs), estimate, workers) as show:
        outcome = jobs.execute(
            *(left, whole, told), workers=workers, seconds=estimate.seconds, listener=show, until=until
        )
    failed = outcome.failed
    for name, error in failed.items():
        print(f"zgul: failed: {name}: {error.splitlines()[0] if error else ''}", file=sys.stderr)
    store = Store(output)
    now = jobs.planned(store, runs)
    store.close()
    done = sum(status == DONE for status in now.values())
    print(f"{done} of {len(runs)} runs done in {output} ({_time(time.monotonic() - started)} this time).")
    if outcome.stopped:
        print("Stopped by --minutes; start the same command again to go on.")
    elif not failed:
        shutil.rmtree(caches, ignore_errors=True)
        print(f"Next: zgul report {shlex.quote(str(output))} --output DIR")
    if any(status == FAILED for status in now.values()):
        print(f"{sum(status == FAILED for status in now.values())} failed; they are tried again at the next start.")
        raise typer.Exit(1)


def _checksums(runs: list[Run]) -> dict[str, str]:
    """Of the data, the encoder and the adapters that these runs read."""
    found: dict[str, str] = {}
    for run in runs:
        found |= {
            name: value for name, value in run.checksums.items() if "/" in name or name in ("encoder", "adapters")
        }
    return found


def _check_alike(store: Store, runs: list[Run], protocol: Protocol, output: Path) -> None:
    """Refuse a folder whose results are of other data or settings: a mean over both would say nothing."""
    from zgul.experiments.plan import differences
    from zgul.paper.store import DONE

    done = store.runs(status=DONE)
    if not done:
        return
    if told := differences(protocol, _checksums(runs), store.meta, {run.part for run in done}):
        raise ZgulError(
            f"{output} holds {len(done)} finished runs of another protocol ({'; '.join(told[:4])}"
            f"{'; …' if len(told) > 4 else ''}). Give the same options as for them, or another --output."
        )


def _note(store: Store, runs: list[Run], inputs: Any, protocol: Protocol) -> None:
    """What was asked for, of what, on what, in the store."""
    from dataclasses import asdict

    from zgul import __version__
    from zgul.experiments.machine import commit, machine

    command = ["zgul", *(Path(word).name if "/" in word and Path(word).exists() else word for word in sys.argv[1:])]
    before = store.meta
    store.note(
        command=shlex.join(command),
        commands=[*before.get("commands", []), shlex.join(command)],
        protocol=asdict(protocol),
        checksums=before.get("checksums", {}) | _checksums(runs),
        code=next((run.checksums["code"] for run in runs), ""),
        commit=commit() or before.get("commit", ""),
        encoder=Path(inputs.encoder).name,
        adapters=Path(inputs.adapters).name if "{lang}" not in inputs.adapters else inputs.adapters,
        machine=machine(inputs.device),
        version=__version__,
    )


class Show:
    """Progress on standard error: runs done, what runs now, time left; plain lines where that is a file."""

    def __init__(self, left: list[Run], total: int, estimate: Estimate, workers: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.console = Console(stderr=True, highlight=False)
        self.estimate, self.workers = estimate, max(1, workers)
        self.open = {run.hash: run for run in left}
        self.expected = {run.hash: estimate.seconds(run) for run in left}
        self.began = time.monotonic()
        self.worth = 0.0  # estimated seconds of what is done
        self.now: dict[str, str] = {}
        self.failed = 0
        self.progress = Progress(
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[now]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.progress.add_task("runs", total=total, completed=total - len(left), left="", now="")

    def __enter__(self) -> Show:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def __call__(self, event: str, run: Run, facts: dict[str, Any]) -> None:
        from zgul.paper.store import DONE, FAILED

        if event in (DONE, FAILED):
            self.open.pop(run.hash, None)
            self.now.pop(run.hash, None)
            self.worth += self.expected.get(run.hash, 0.0)
            self.failed += event == FAILED
            self.progress.advance(self.task)
            if not self.console.is_terminal or event == FAILED:
                self._line(event, run, facts)
        else:
            step = f" {facts['step']}/{facts['steps']}" if "steps" in facts else ""
            self.now[run.hash] = f"{run.name}: {facts.get('stage', 'training')}{step}"
        shown = "; ".join(self.now.values())
        self.progress.update(self.task, left=self._left(), now=shown)

    def _line(self, event: str, run: Run, facts: dict[str, Any]) -> None:
        done = int(self.progress.tasks[0].completed)
        how = f"{facts.get('seconds', 0):.1f} s" if event == "done" else f"FAILED: {facts.get('error', '')}"
        text = f"{done}/{int(self.progress.tasks[0].total or 0)} {run.name}: {how}; {self._left()}"
        self.console.print(text.strip("; "), soft_wrap=True, markup=False)

    def _left(self) -> str:
        """Time left: the estimate, corrected by how good it has been so far."""
        passed = time.monotonic() - self.began
        ahead = sum(self.expected[hash] for hash in self.open)
        slower = passed * self.workers / self.worth if self.worth > 0 else 1.0
        return f"{_time(ahead * slower / self.workers)} left"

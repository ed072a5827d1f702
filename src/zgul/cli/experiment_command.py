"""``zgul experiment``: the paper's evaluation, from labelled data to a store of results."""

import shlex
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer

from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.cli.printing import ProgressBars, make_table, new_console
from zgul.cluster.paper_runs import run_paper_on_cluster
from zgul.cluster.ray_cluster import ClusterSettings
from zgul.devices import find_device
from zgul.errors import ZgulError
from zgul.paper.experiments import Estimate, Experiment, run_paper
from zgul.paper.export import export_results
from zgul.paper.plan import Inputs, Protocol, Run, chosen_protocol
from zgul.paper.store import DONE, PARTS

app = new_app("Run the paper's experiments.")
ONLY = """Parts, groups, methods or targets; slashes join conditions: few-shot/germanic. Repeat the option, or separate
values with commas."""
JOBS = "Number of parallel processes; 0 starts no other process [default: 6 on a GPU, 1 on a CPU]."
SAME_CODE = "Keep finished runs even if the code has changed since."
TUNED = "Results, or an export, from which to take the tuned rates instead of tuning again."
SENTENCES = "Include the words of the test files; not every licence allows it."


@app.command("paper")
@with_options(Protocol)
@with_options(Inputs, into="inputs")
@with_options(ClusterSettings, skip=["workers"], into="cluster")
def paper(
    given: dict[str, Any],
    inputs: dict[str, Any],
    cluster: dict[str, Any],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results; existing ones stay.")],
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help=ONLY)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="All methods on one group and little data.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its time; run nothing.")] = False,
    jobs: Annotated[int | None, typer.Option(min=0, metavar="N", help=JOBS)] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this many minutes; the next start resumes.")] = None,
    same_code: Annotated[bool, typer.Option("--same-code", help=SAME_CODE)] = False,
    tuned: Annotated[Path | None, typer.Option(help=TUNED)] = None,
) -> None:
    """Run the paper's evaluation with all methods, groups and seeds.

    Its parts are tuning, zero-shot, variants, few-shot and unlabelled. To continue after an interruption, start the
    same command again; finished runs are not repeated. A run that fails is recorded and does not stop the others.
    `zgul report` turns the results into tables and figures.
    """
    if output.exists() and not output.is_dir():
        raise ZgulError(f"{output} is a file. Give a folder with --output.")
    start = Inputs.from_dict(inputs | {"device": find_device(inputs.get("device", "auto")).type})
    experiment = Experiment(start, chosen_protocol(given, quick), output, only or (), same_code, tuned)
    workers = jobs if jobs is not None else (6 if start.device == "cuda" else 1)
    if dry_run:
        _show_plan(experiment, workers)
        return
    started = time.monotonic()
    where = ClusterSettings.from_dict(cluster | {"workers": jobs or 0})
    with ProgressBars() as bars:
        if where.engine == "ray":
            outcome = run_paper_on_cluster(experiment, where, minutes=minutes, report=bars)
        else:
            outcome = run_paper(experiment, workers=workers, minutes=minutes, report=bars)
    print(f"{outcome.done} runs done in {_time(time.monotonic() - started)}. Results: {output}")
    for name, error in outcome.failed.items():
        print(f"zgul: failed: {name}: {next(iter(error.splitlines()), '')}", file=sys.stderr)
    if outcome.failed:
        print(f"{len(outcome.failed)} runs failed. They are tried again at the next start.")
        raise typer.Exit(1)
    if outcome.stopped:
        print("Stopped by --minutes. Start the same command again to continue.")
    else:
        print(f"Next: zgul report {shlex.quote(str(output))} --output DIR")


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of results.")],
    file: Annotated[Path, typer.Argument(help="FILE.json, FILE.json.gz or FILE.json.xz")],
    data: Annotated[Path | None, typer.Option(help="Data folder, for statistics of the data.")] = None,
    sentences: Annotated[bool, typer.Option(help=SENTENCES)] = True,
) -> None:
    """Write all results as one file, from which every table and figure can be made again."""
    export_results(folder, file, data, sentences=sentences)
    print(f"Written to {file}. Next: zgul report {shlex.quote(str(file))} --output DIR")


def _show_plan(experiment: Experiment, workers: int) -> None:
    runs, store = experiment.plan(), experiment.store()
    done = {run.hash for run in store.runs(status=DONE)} if store is not None else set()
    estimate = Estimate(experiment.inputs, experiment.protocol, store)
    alike: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in runs:
        alike[run.part, run.group, run.method].append(run)
    rows = []
    for names, same in sorted(alike.items(), key=lambda item: PARTS.index(item[0][0])):
        left = [run for run in same if run.hash not in done]
        rows.append((*names, len(same), len(same) - len(left), _time(estimate.total(left))))
    headings = ("part", "group", "method", "runs", "done", "time left")
    new_console().print(make_table(headings, rows, words=3, title="Plan"))
    left = [run for run in runs if run.hash not in done]
    print(f"{len(runs)} runs, {len(runs) - len(left)} done. With {workers or 1} parallel processes, the rest takes")
    print(f"about {_time(estimate.total(left, workers))}. Without similar runs measured here, this is a guess.")
    if experiment.protocol.tunes and not experiment.tuned:
        print("Learning rates are tuned first. Runs that depend on them may change.")


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"

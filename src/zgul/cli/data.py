"""``zgul data``: the catalogue of datasets, fetching them, and statistics of a data folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zgul.cli import app
from zgul.errors import ZgulError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID
    from rich.table import Table

    from zgul.corpora.catalogue import Dataset
    from zgul.corpora.fetch import Fetched
    from zgul.corpora.stats import GroupStats, SplitStats, Statistics, TargetStats

data_app = typer.Typer(
    no_args_is_help=True,
    help="Find, fetch and measure the labelled data of the paper.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)
app.add_typer(data_app, name="data")

GroupOption = Annotated[str | None, typer.Option(help="germanic, slavic, african or indo-aryan.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@data_app.command("list")
def list_datasets(
    group: GroupOption = None,
    task: Annotated[str | None, typer.Option(help="pos or ner.")] = None,
    lang: Annotated[str | None, typer.Option(help="Language, by code or name.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the paper's datasets: origin, release, licence, splits.

    Examples:

        zgul data list --group germanic

        zgul data list --lang Faroese --json
    """
    from zgul.corpora import catalogue

    code = None
    if lang is not None:
        from zgul.languages import find

        code = find(lang).code
    datasets = catalogue.select(group, task, code)
    if not datasets:
        raise ZgulError("no dataset of the catalogue fits; `zgul data list` shows all")
    if as_json:
        _print_json([_dataset_json(dataset) for dataset in datasets])
        return
    _print_datasets(datasets, group, references=not (group or task or lang))


@data_app.command("fetch")
def fetch_datasets(
    names: Annotated[
        list[str] | None, typer.Argument(help="Datasets, such as ud/fo_oft; patterns such as 'masakhaner/*'.")
    ] = None,
    group: GroupOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Data folder [default: data in zgul's cache folder]."),
    ] = None,
    release: Annotated[
        str | None, typer.Option(help="Another UD release than the paper's, such as r2.17 (ud/ only).")
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(envvar="ZGUL_MIRROR", help="Base URL that stands in for the hosts of the catalogue."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 30.0,
    max_size: Annotated[int, typer.Option(min=1, help="Largest file to accept, in MB.")] = 1000,
) -> None:
    """Fetch datasets and lay them out as DIR/TASK/LANG/SPLIT.tsv, for use with `--data DIR`.

    What breaks off is continued, also by a later run; what is there already is not fetched again.

    Examples:

        zgul data fetch ud/fo_oft

        zgul data fetch 'masakhaner/*' --output data

        zgul data fetch --group slavic --output data
    """
    from zgul.corpora import catalogue
    from zgul.corpora.download import Settings
    from zgul.corpora.fetch import fetch
    from zgul.files import cache_dir

    if not names and not group:
        raise ZgulError("say what to fetch: names such as ud/fo_oft, or --group; `zgul data list` shows all")
    datasets = [dataset for name in names or () for dataset in catalogue.find(name)]
    manual: list[Dataset] = []
    if group:
        chosen = catalogue.select(group=group)
        datasets += [dataset for dataset in chosen if dataset.fetchable]
        manual = [dataset for dataset in chosen if not dataset.fetchable]
    if release:
        datasets = [catalogue.at_release(dataset, release) for dataset in datasets]
    folder = output or cache_dir() / "data"
    settings = Settings(timeout=timeout, max_bytes=max_size * 1_000_000)
    with _FetchProgress() as progress:
        fetched = fetch(dict.fromkeys(datasets), folder, mirror, settings, progress.report)
    _print_fetched(fetched, folder)
    for dataset in manual:
        print(f"Not fetched: {dataset.name}: {dataset.note}.")


@data_app.command("stats")
def show_stats(
    data_dir: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with pos/LANG/SPLIT.tsv and the like.")],
    as_json: JsonOption = False,
) -> None:
    """Measure a data folder: sentences, words, scripts, tags, overlap with the sources.

    Examples:

        zgul data stats ../shared/data

        zgul data stats data --json
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from zgul.corpora.stats import measure

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    console = _console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("")

        def report(file: str, done: int, total: int) -> None:
            progress.update(bar, description=file, completed=done, total=total)

        statistics = measure(data_dir, report)
    if as_json:
        _print_json(dataclasses.asdict(statistics))
        return
    _print_statistics(statistics)


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = 100  # in a pipe or a file, rather than rich's 80
    return console


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


def _name(code: str) -> str:
    """The language's name, or the folder's own name where that is no language."""
    from zgul.languages import find

    try:
        return find(code).name
    except ZgulError:
        return code


def _table(title: str, headings: Sequence[str], right: Sequence[str] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return table


# zgul data list


def _dataset_json(dataset: Dataset) -> dict[str, object]:
    fields = dataclasses.asdict(dataset)
    del fields["host"]
    fields["files"] = [
        {
            "split": file.split,
            "url": f"{dataset.host}/{file.path}",
            "member": file.member,
            "sha256": file.sha256,
        }
        for file in dataset.files
    ]
    return fields


def _print_datasets(datasets: Sequence[Dataset], group: str | None, references: bool) -> None:
    from zgul.corpora.catalogue import REFERENCES

    console = _console()
    groups = dict.fromkeys(name for dataset in datasets for name in dataset.groups)
    for name in [group.lower()] if group else groups:
        console.print(_datasets_table([dataset for dataset in datasets if name in dataset.groups], name))
    notes: dict[str, list[str]] = {}
    for dataset in datasets:
        if dataset.note:
            notes.setdefault(dataset.note, []).append(dataset.name)
    for note, names in notes.items():
        console.print(f"{names[0] if len(names) == 1 else names[0].split('/')[0] + '/*'}: {note}.")
    console.print(
        "A target's own training data becomes the split `few`. SHA-256: of how many files it is known; the "
        "others are trusted as first fetched, and held to that from then on.\n"
        "Fetch with: zgul data fetch NAME --output DIR"
    )
    if references:
        console.print()
        for reference in REFERENCES:
            console.print(f"{reference.name}: {reference.what}; {reference.licence}; {reference.homepage}")


def _datasets_table(datasets: Sequence[Dataset], group: str) -> Table:
    headings = ("Name", "Language", "Role", "Release", "Splits", "SHA-256", "Licence")
    table = _table(f"{group} {datasets[0].task.upper()}", headings)
    for dataset in datasets:
        checksums = {file.path: file.sha256 for file in dataset.files}
        known = sum(digest is not None for digest in checksums.values())
        table.add_row(
            dataset.name,
            _name(dataset.language),
            dataset.role,
            dataset.release,
            " ".join(dict.fromkeys(file.split for file in dataset.files)) or "by hand",
            f"{known} of {len(checksums)}" if checksums else "",
            dataset.licence,
        )
    return table


# zgul data fetch


class _FetchProgress:
    """One bar for each file, on standard error."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = _console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> _FetchProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, file: str, done: int, total: int | None, unit: str) -> None:
        if unit == "bytes":
            amount = f"{done / 1e6:.1f}{f' of {total / 1e6:.1f}' if total else ''} MB"
        else:
            amount = f"{done:,} {unit}"
        if file not in self._bars:
            self._bars[file] = self._progress.add_task(file, total=total, amount=amount)
        self._progress.update(self._bars[file], completed=done, total=total, amount=amount)


def _print_fetched(fetched: Sequence[Fetched], folder: Path) -> None:
    for item in fetched:
        done = "fetched" if item.downloaded else "was there"
        print(f"{item.dataset}  {item.path.name}  {done}, {_TRUST[item.trust]}")
    print(f"Use it with --data {folder}")


_TRUST = {
    "catalogue": "SHA-256 as in the catalogue",
    "earlier fetch": "SHA-256 as at the first fetch",
    "first fetch": "no SHA-256 in the catalogue: trusted as first fetched, recorded in fetched.json",
}


# zgul data stats


def _print_statistics(statistics: Statistics) -> None:
    console = _console()
    for task in dict.fromkeys(row.task for row in statistics.splits):
        console.print(_splits_table([row for row in statistics.splits if row.task == task], task))
    if statistics.groups:
        console.print(_groups_table(statistics.groups))
    for group in statistics.groups:
        if group.missing:
            console.print(f"{group.group}: no training data here for {', '.join(map(_name, group.missing))}.\n")
    if statistics.targets:
        console.print(_targets_table(statistics.targets))
        console.print(
            "Overlap: per cent of the running words of a test file that also occur, spelt the same, in the "
            "training data of its group's sources. Paper: what its appendix gives."
        )


def _splits_table(rows: Sequence[SplitStats], task: str) -> Table:
    numbers = ("Sentences", "Words", "Distinct")
    tags = "UPOS tags" if task == "pos" else "Entities"
    table = _table(f"{task.upper()} files", ("Language", "", "Split", *numbers, "Script", tags), numbers)
    before = None
    for row in rows:
        new = row.language != before
        before = row.language
        table.add_row(
            _name(row.language) if new else "",
            row.language if new else "",
            row.split,
            f"{row.sentences:,}",
            f"{row.words:,}",
            f"{row.types:,}",
            row.script,
            _tags(task, row.tags),
        )
    return table


def _tags(task: str, tags: Sequence[str]) -> str:
    from zgul.corpora.stats import missing_upos

    if task == "ner":
        return " ".join(tags) or "none"
    missing = missing_upos(tags)
    return f"{len(tags)}, no {' '.join(missing)}" if 0 < len(missing) <= 3 else str(len(tags))


def _groups_table(rows: Sequence[GroupStats]) -> Table:
    numbers = ("Train", "Dev", "Paper")
    headings = ("Group", "Task", "Sources", "Train", "Paper", "Dev", "Paper", "Tags in the test files")
    table = _table("Groups: sentences of their sources together", headings, numbers)
    for row in rows:
        table.add_row(
            row.group,
            row.task.upper(),
            " ".join(row.sources),
            f"{row.train:,}",
            _paper(f"{row.paper_train:,}"),
            f"{row.dev:,}",
            _paper(f"{row.paper_dev:,}"),
            _tags(row.task, row.test_tags),
        )
    return table


def _targets_table(rows: Sequence[TargetStats]) -> Table:
    numbers = ("Sentences", "Overlap %")
    headings = ("Target", "", "Group", "Script", "Paper", "Sentences", "Paper", "Overlap %", "Paper")
    table = _table("Targets: their test files", headings, numbers)
    for column in (6, 8):
        table.columns[column].justify = "right"
    for row in rows:
        table.add_row(
            _name(row.language),
            row.language,
            row.group,
            row.script,
            _paper(row.paper_script),
            f"{row.sentences:,}",
            _paper(f"{row.paper_sentences:,}"),
            "no sources" if row.overlap is None else f"{row.overlap:.1f}",
            _paper(f"{row.paper_overlap:.1f}"),
        )
    return table


def _paper(value: str) -> str:
    return f"[dim]{value}[/dim]"

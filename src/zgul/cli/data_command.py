"""``zgul data``: list the catalogue of datasets, fetch datasets, and measure a data folder."""

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.cli.progress_bars import ProgressBars
from zgul.corpora import catalogue
from zgul.corpora.fetching import MANIFEST, fetch_datasets
from zgul.corpora.stats import Statistics, measure
from zgul.corpora.tags import TASKS, UPOS
from zgul.download import DownloadOptions
from zgul.errors import ZgulError
from zgul.languages import find

app = new_app("Find, fetch and measure the labelled data of the paper.")

GroupOption = Annotated[str | None, typer.Option(help="germanic, slavic, african or indo-aryan.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HEADINGS = {"known_checksums": "SHA-256", "types": "Distinct", "overlap": "Overlap %", "test_tags": "Test tags"}
TRUST = {
    "catalogue": "SHA-256 as in the catalogue",
    "earlier fetch": "SHA-256 as at the first fetch",
    "first fetch": f"no SHA-256 in the catalogue: trusted on first fetch, recorded in {MANIFEST}",
}


@app.command("list")
def list_datasets(
    group: GroupOption = None,
    task: Annotated[str | None, typer.Option(help="pos or ner.")] = None,
    lang: Annotated[str | None, typer.Option(help="Code or name of a language.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the paper's datasets: name, language, release, licence, splits.

    Examples:

        zgul data list --group germanic

        zgul data list --lang Faroese --json
    """
    datasets = catalogue.select(group, task, find(lang).code if lang else None)
    if not datasets:
        raise ZgulError("No dataset of the catalogue matches. `zgul data list` shows all.")
    if as_json:
        print(json.dumps([dataset.to_dict() for dataset in datasets], ensure_ascii=False, indent=1))
        return
    console = _console()
    for name in [group.lower()] if group else dict.fromkeys(name for dataset in datasets for name in dataset.groups):
        rows = [dataset for dataset in datasets if name in dataset.groups]
        fields = "name language role release splits known_checksums licence"
        console.print(_table(f"{name} {rows[0].task.upper()}", rows, fields))
    for note in dict.fromkeys(dataset.note for dataset in datasets if dataset.note):
        first, *more = (dataset.name for dataset in datasets if dataset.note == note)
        console.print(f"{first.split('/')[0]}/*: {note}." if more else f"{first}: {note}.")
    console.print(
        "A target's own training data become the split `few`. SHA-256: how many files have one in the catalogue. "
        "The others are trusted on first fetch, and must stay the same from then on.\n"
        "Fetch with: zgul data fetch NAME --output DIR"
    )
    if not (group or task or lang):
        console.print("", *catalogue.REFERENCES, sep="\n")


@app.command("fetch")
@with_options(DownloadOptions, skip=("attempts", "backoff"))
def fetch(
    given: dict[str, Any],
    names: Annotated[list[str] | None, typer.Argument(help="Such as ud/fo_oft, or patterns: 'masakhaner/*'.")] = None,
    group: GroupOption = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Data folder [default: in the cache].")] = None,
    release: Annotated[str | None, typer.Option(help="Another UD release than the paper's, such as r2.17.")] = None,
    mirror: Annotated[str | None, typer.Option(envvar="ZGUL_MIRROR", help="Address that replaces all hosts.")] = None,
) -> None:
    """Fetch datasets and lay them out as DIR/TASK/LANG/SPLIT.tsv, for use with `--data DIR`.

    An interrupted download continues, also in a later run. Files that are already there are not fetched again.

    Examples:

        zgul data fetch ud/fo_oft

        zgul data fetch 'masakhaner/*' --output data

        zgul data fetch --group slavic --output data
    """
    options = DownloadOptions.from_dict(given)
    result = fetch_datasets(names or (), group=group, release=release, data_dir=output, mirror=mirror, options=options)
    for file in result.files:
        done = "fetched" if file.downloaded else "was there"
        print(f"{file.dataset}  {file.path.name}  {done}, {TRUST[file.trust]}")
    print(f"Use the data with --data {result.folder}")
    for dataset in result.by_hand:
        print(f"Not fetched: {dataset.name}: {dataset.note}.")


@app.command("stats")
def show_stats(
    data_dir: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with pos/LANG/SPLIT.tsv and the like.")],
    as_json: JsonOption = False,
) -> None:
    """Measure a data folder: sentences, words, scripts, tags, overlap with the sources.

    Examples:

        zgul data stats ../shared/data

        zgul data stats data --json
    """
    with ProgressBars(transient=True) as bars:
        statistics = measure(data_dir, bars)
    if as_json:
        print(json.dumps(asdict(statistics), ensure_ascii=False, indent=1))
    else:
        _print_statistics(statistics)


def _print_statistics(statistics: Statistics) -> None:
    console = _console()
    for task in TASKS:
        if splits := [row for row in statistics.splits if row.task == task]:
            console.print(_table(f"{task.upper()} files", splits, "language split sentences words types script tags"))
    if statistics.groups:
        fields = "group task sources train paper_train dev paper_dev test_tags"
        console.print(_table("Groups: sentences of their sources together", statistics.groups, fields))
    for group in statistics.groups:
        if group.missing:
            missing = ", ".join(_cell("language", code) for code in group.missing)
            console.print(f"{group.group}: no training data here for {missing}.\n")
    if statistics.targets:
        fields = "language group script paper_script sentences paper_sentences overlap paper_overlap"
        console.print(_table("Targets: their test files", statistics.targets, fields))
        overlap = "per cent of the running words of a test file that also occur, spelt the same, in the training data"
        console.print(f"Overlap: {overlap} of its group's sources. Paper: the number in its appendix.")


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 100)  # rich's own width is 80 in a pipe


def _table(title: str, rows: Sequence[object], fields: str) -> Table:
    """A table of these fields of each row. Numbers are aligned to the right, the paper's values are dim."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for field in fields.split():
        numbers = all(isinstance(getattr(row, field), int | float | None) for row in rows)
        paper = field.startswith("paper_")
        heading = "Paper" if paper else HEADINGS.get(field, field.capitalize())
        style = "dim" if paper else ""
        table.add_column(heading, justify="right" if numbers else "left", overflow="fold", style=style)
    for row in rows:
        table.add_row(*(_cell(field, getattr(row, field)) for field in fields.split()))
    return table


def _cell(field: str, value: Any) -> str:
    if field == "language":
        with contextlib.suppress(ZgulError):  # a folder may have any name
            return f"{find(value).name} ({value})"
    if isinstance(value, tuple):
        missing = [tag for tag in UPOS if tag not in value]
        if not value or len(missing) + len(value) > len(UPOS):  # not parts of speech
            return " ".join(value) or "none"
        return f"{len(value)}, no {' '.join(missing)}" if 0 < len(missing) <= 3 else str(len(value))
    if value is None:
        return "no sources"
    return f"{value:.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)

"""``zgul data``: list the catalogue of datasets, fetch datasets, and measure a data folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Sequence
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
from zgul.corpora.stats import Statistics, measure, missing_upos
from zgul.corpora.tags import UPOS
from zgul.download import DownloadOptions
from zgul.errors import ZgulError
from zgul.languages import find

app = new_app("Find, fetch and measure the labelled data of the paper.")

GroupOption = Annotated[str | None, typer.Option(help="germanic, slavic, african or indo-aryan.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
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
        headings = ["Name", "Language", "Role", "Release", "Splits", "SHA-256", "Licence"]
        fields = ["name", "language", "role", "release", "splits", "known_checksums", "licence"]
        console.print(_table(f"{name} {rows[0].task.upper()}", rows, headings, fields))
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
    names: Annotated[
        list[str] | None, typer.Argument(help="Datasets such as ud/fo_oft, or patterns such as 'masakhaner/*'.")
    ] = None,
    group: GroupOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Data folder [default: data in zgul's cache folder].")
    ] = None,
    release: Annotated[
        str | None, typer.Option(help="Another UD release than the paper's, such as r2.17 (ud/ only).")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(envvar="ZGUL_MIRROR", help="Address that replaces the hosts of the catalogue.")
    ] = None,
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
        print(json.dumps(dataclasses.asdict(statistics), ensure_ascii=False, indent=1))
    else:
        _print_statistics(statistics)


def _print_statistics(statistics: Statistics) -> None:
    console = _console()
    for task, tags in (("pos", "UPOS tags"), ("ner", "Entities")):
        if splits := [row for row in statistics.splits if row.task == task]:
            headings = ["Language", "Split", "Sentences", "Words", "Distinct", "Script", tags]
            fields = ["language", "split", "sentences", "words", "types", "script", "tags"]
            console.print(_table(f"{task.upper()} files", splits, headings, fields))
    if statistics.groups:
        headings = ["Group", "Task", "Sources", "Train", "Paper", "Dev", "Paper", "Tags in the test files"]
        fields = ["group", "task", "sources", "train", "paper_train", "dev", "paper_dev", "test_tags"]
        console.print(_table("Groups: sentences of their sources together", statistics.groups, headings, fields))
    for group in statistics.groups:
        if group.missing:
            missing = ", ".join(_cell("Language", code) for code in group.missing)
            console.print(f"{group.group}: no training data here for {missing}.\n")
    if statistics.targets:
        headings = ["Language", "Group", "Script", "Paper", "Sentences", "Paper", "Overlap %", "Paper"]
        fields = ["language", "group", "script", "paper_script", "sentences", "paper_sentences", "overlap"]
        fields.append("paper_overlap")
        console.print(_table("Targets: their test files", statistics.targets, headings, fields))
        console.print(
            "Overlap: per cent of the running words of a test file that also occur, spelt the same, in the "
            "training data of its group's sources. Paper: the number in its appendix."
        )


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 100  # in a pipe or a file, instead of rich's 80
    return console


def _table(title: str, rows: Sequence[object], headings: Sequence[str], fields: Sequence[str]) -> Table:
    """A table of these fields of each row. Numbers are aligned to the right, the paper's values are dim."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading, field in zip(headings, fields, strict=True):
        numbers = all(isinstance(getattr(row, field), int | float | None) for row in rows)
        style = "dim" if heading == "Paper" else ""
        table.add_column(heading, justify="right" if numbers else "left", overflow="fold", style=style)
    for row in rows:
        table.add_row(*(_cell(heading, getattr(row, field)) for heading, field in zip(headings, fields, strict=True)))
    return table


def _cell(heading: str, value: Any) -> str:
    if heading == "Language":
        with contextlib.suppress(ZgulError):  # a folder may have any name
            return f"{find(value).name} ({value})"
    if isinstance(value, tuple):
        missing = missing_upos(value)
        if not value or len(missing) + len(value) > len(UPOS):  # not parts of speech
            return " ".join(value) or "none"
        return f"{len(value)}, no {' '.join(missing)}" if 0 < len(missing) <= 3 else str(len(value))
    if value is None:
        return "no sources"
    return f"{value:.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)

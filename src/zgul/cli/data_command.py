"""``zgul data``: list the catalogue of datasets, fetch datasets, and measure a data folder."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from zgul.cli import COMMANDS, new_app
from zgul.cli.option_signature import with_options
from zgul.cli.printing import AsJson, ProgressBars, make_table, new_console, print_json, print_result
from zgul.corpora import catalogue
from zgul.corpora.catalogue import MANIFEST, fetch_datasets
from zgul.corpora.sentence import TASKS, UPOS
from zgul.corpora.stats import Statistics, measure
from zgul.download import DownloadOptions
from zgul.errors import ZgulError
from zgul.languages import find

app = new_app("Find, fetch and measure the labelled data of the paper.")

WIDTH = 100  # in a pipe
GroupOption = Annotated[str | None, typer.Option(help="germanic, slavic, african or indo-aryan.")]
HEADINGS = {"known_checksums": "SHA-256", "types": "Distinct", "overlap": "Overlap %", "test_tags": "Test tags"}
TRUST = {
    "catalogue": "SHA-256 as in the catalogue",
    "earlier fetch": "SHA-256 as at the first fetch",
    "first fetch": f"no SHA-256 in the catalogue: trusted on first fetch, recorded in {MANIFEST}",
}


@app.command("list")
def list_datasets(
    group: GroupOption = None,
    task: Annotated[str | None, typer.Option(metavar="pos|ner", help="Task of the labels.")] = None,
    lang: Annotated[str | None, typer.Option(help="Code or name of a language.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the paper's datasets: name, language, release, licence, splits."""
    datasets = catalogue.select(group, task, find(lang).code if lang else None)
    if not datasets:
        raise ZgulError("No dataset of the catalogue matches. `zgul data list` shows all.")
    if as_json:
        print_json(datasets)
        return
    console = new_console(piped=WIDTH)
    for name in [group.lower()] if group else dict.fromkeys(name for dataset in datasets for name in dataset.groups):
        rows = [dataset for dataset in datasets if name in dataset.groups]
        fields = "name language role release splits known_checksums licence"
        console.print(_table(f"{name} {rows[0].task.upper()}", rows, fields), "")
    for note in dict.fromkeys(dataset.note for dataset in datasets if dataset.note):
        first, *more = (dataset.name for dataset in datasets if dataset.note == note)
        console.print(f"{first.split('/')[0]}/*: {note}." if more else f"{first}: {note}.")
    console.print(COMMANDS["data list"]["note"])
    if not (group or task or lang):
        console.print("", *catalogue.REFERENCES, sep="\n")


@app.command("fetch")
@with_options(DownloadOptions, skip=("attempts", "backoff"), panel="Download")
def fetch(
    given: dict[str, Any],
    names: Annotated[list[str] | None, typer.Argument(help="Names (ud/fo_oft) or patterns ('masakhaner/*').")] = None,
    group: GroupOption = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Data folder [default: in the cache].")] = None,
    release: Annotated[str | None, typer.Option(help="Another UD release than the paper's, such as r2.17.")] = None,
    mirror: Annotated[str | None, typer.Option(envvar="ZGUL_MIRROR", help="Address to use for all hosts.")] = None,
) -> None:
    """Fetch datasets and lay them out as DIR/TASK/LANG/SPLIT.tsv, for use with `--data DIR`.

    An interrupted download continues, also in a later run. Files that are already there are not fetched again.
    """
    wanted: dict[str, Any] = {"group": group, "release": release, "data_dir": output, "mirror": mirror}
    with ProgressBars(transient=True) as bars:
        result = fetch_datasets(names or (), **wanted, options=DownloadOptions.from_dict(given), report=bars)
    for file in result.files:
        done = "fetched" if file.downloaded else "was there"
        print(f"{file.dataset}  {file.path.name}  {done}, {TRUST[file.trust]}")
    print(f"Use the data with --data {result.folder}")
    for dataset in result.by_hand:
        print(f"Not fetched: {dataset.name}: {dataset.note}.")


@app.command("stats")
def show_stats(
    data_dir: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with pos/LANG/SPLIT.tsv and the like.")],
    as_json: AsJson = False,
) -> None:
    """Measure a data folder: sentences, words, scripts, tags, overlap with the sources."""
    with ProgressBars(transient=True) as bars:
        statistics = measure(data_dir, bars)
    print_result(statistics, _print_statistics, as_json)


def _print_statistics(statistics: Statistics) -> None:
    console = new_console(piped=WIDTH)
    for task in TASKS:
        if splits := [row for row in statistics.splits if row.task == task]:
            fields = "language split script tags sentences words types"
            console.print(_table(f"{task.upper()} files", splits, fields), "")
    if statistics.groups:
        fields = "group task sources test_tags train paper_train dev paper_dev"
        console.print(_table("Groups: sentences of their sources together", statistics.groups, fields), "")
    for group in statistics.groups:
        if group.missing:
            missing = ", ".join(_cell("language", code) for code in group.missing)
            console.print(f"{group.group}: no training data here for {missing}.\n")
    if statistics.targets:
        fields = "language group script paper_script sentences paper_sentences overlap paper_overlap"
        console.print(_table("Targets: their test files", statistics.targets, fields), "")
        console.print(COMMANDS["data stats"]["note"])


def _table(title: str, rows: Sequence[object], fields: str) -> Table:
    """A table of these fields of each row. Numbers come last."""
    names = fields.split()
    numbers = [name for name in names if all(isinstance(getattr(row, name), int | float | None) for row in rows)]
    headings = ["Paper" if name.startswith("paper_") else HEADINGS.get(name, name.capitalize()) for name in names]
    cells = [[_cell(name, getattr(row, name)) for name in names] for row in rows]
    return make_table(headings, cells, words=len(names) - len(numbers), title=title)


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

"""``zgul report``: tables and figures of the paper's experiments from their results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zgul.cli import new_app
from zgul.cli.progress_bars import ProgressBars
from zgul.errors import ZgulError
from zgul.paper.report import FORMATS, write_report

app = new_app()


@app.command()
def report(
    results: Annotated[
        Path, typer.Argument(help="Folder of zgul experiment paper, or a file of zgul experiment export.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the report into.")],
    formats: Annotated[
        str, typer.Option("--format", help="What to write, separated by commas: html, md, latex, figures.")
    ] = ",".join(FORMATS),
    data: Annotated[
        Path | None, typer.Option(help="Data folder, for the statistics of the data. An export has them already.")
    ] = None,
    earlier: Annotated[
        list[str] | None,
        typer.Option(help="NAME=RESULTS: results of an earlier protocol to compare with. Repeat the option."),
    ] = None,
    label: Annotated[str, typer.Option(help="What these results are called beside earlier ones.")] = "this report",
) -> None:
    """Write the paper's tables and figures from results, with the paper's numbers beside ours.

    DIR/index.html needs no other file; a page for each language lies beside it. DIR/report.md, DIR/latex and
    DIR/figures hold the same for papers. HTML and figures need matplotlib: pip install 'zgul[plots]'.

    Examples:

    `zgul report out --data DIR --output report`

    `zgul report results.json.gz --output report --format md,latex`

    `zgul report out --output report --earlier "cut protocol=old.json.gz" --label "whole protocol"`
    """
    before = {}
    for item in earlier or []:
        name, equals, place = item.partition("=")
        if not (name and equals and place):
            raise ZgulError(f"--earlier takes NAME=RESULTS, not {item!r}.")
        before[name] = Path(place)
    names = [name.strip() for name in formats.split(",") if name.strip()]
    with ProgressBars(transient=True) as bars:
        written = write_report(results, output, names, data, earlier=before, label=label, report=bars)
    print(f"{len(written)} files in {output}")
    for path in written:
        if path.stem in ("index", "report", "side-by-side", "all"):
            print(path)

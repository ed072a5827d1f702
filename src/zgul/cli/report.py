"""``zgul report``: tables and figures of the paper's experiments from their results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zgul.cli import app
from zgul.errors import ZgulError


@app.command("report")
def report(
    results: Annotated[
        Path, typer.Argument(help="Folder of zgul experiment paper, or a file of zgul experiment export.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write the report into.")] = None,
    formats: Annotated[
        str, typer.Option("--format", help="What to write, with commas: html, md, latex, figures.")
    ] = "html,md,latex,figures",
    data: Annotated[
        Path | None, typer.Option(help="Data folder, for the statistics of the data; an export has them already.")
    ] = None,
    first: Annotated[
        Path | None, typer.Option(help="Write one Markdown table of all methods, Germanic and African, one seed.")
    ] = None,
) -> None:
    """Write the paper's tables and figures from results, the paper's numbers beside ours.

    DIR/index.html needs no other file; a page for each language lies beside it. DIR/report.md, DIR/latex and
    DIR/figures hold the same for papers. Needs matplotlib for html and figures: pip install 'zgul[plots]'.

    Examples:

    `zgul report out --data DIR --output report`

    `zgul report results.json.gz --output report --format md,latex`

    `zgul report out --first first-results.md`
    """
    from zgul.cli.progress import ReportBar
    from zgul.experiments.report import write_first, write_report

    if output is None and first is None:
        raise ZgulError("say where to write: --output DIR (or --first FILE for the one table)")
    if first is not None:
        print(write_first(results, first))
    if output is not None:
        names = tuple(name.strip() for name in formats.split(",") if name.strip())
        with ReportBar() as bar:
            written = write_report(results, output, names, data, bar)
        print(f"{len(written)} files in {output}")
        for main in (path for path in written if path.stem in ("index", "report", "all")):
            print(main)

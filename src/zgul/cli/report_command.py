"""``zgul report``: write tables and figures from the results of the paper's experiments."""

from pathlib import Path
from typing import Annotated

import typer

from zgul.cli import new_app
from zgul.cli.printing import ProgressBars
from zgul.errors import ZgulError
from zgul.paper.report import FORMATS, write_report

app = new_app()
EARLIER = "Results of an earlier protocol, and its name. Repeatable."
DATA = "Data folder: for its statistics, or for the sentences that an export leaves out."
RESULTS = "Folder of zgul experiment paper, or file of zgul experiment export."


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help=RESULTS)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the report into.")],
    formats: Annotated[str, typer.Option("--format", help="What to write, separated by commas.")] = ",".join(FORMATS),
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
    earlier: Annotated[list[str] | None, typer.Option(metavar="NAME=RESULTS", help=EARLIER)] = None,
    label: Annotated[str, typer.Option(help="Name of these results beside earlier ones.")] = "this report",
) -> None:
    """Write the paper's tables and figures from results, with the paper's numbers beside ours.

    DIR/index.html needs no other file. Each language has a page in the same folder. DIR/report.md, DIR/latex and
    DIR/figures contain the same for use in papers. HTML and figures need matplotlib: pip install 'zgul[plots]'.
    """
    before = {}
    for item in earlier or []:
        name, _, place = item.partition("=")
        if not (name and place):
            raise ZgulError(f"--earlier takes NAME=RESULTS, not {item!r}.")
        before[name] = Path(place)
    names = [name.strip() for name in formats.split(",") if name.strip()]
    with ProgressBars(transient=True) as bars:
        written = write_report(results, output, names, data, earlier=before, label=label, report=bars)
    print(f"{len(written)} files in {output}")
    for path in written:
        if path.stem in ("index", "report", "side-by-side", "all"):
            print(path)

"""The report on the paper's experiments: HTML, Markdown, LaTeX tables and figures from a store or its export."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from zgul.errors import ZgulError
from zgul.files import atomic_write
from zgul.paper.export import analyse, open_store
from zgul.paper.frame import Frame
from zgul.paper.report.build import SIDE_BY_SIDE, build_report, side_by_side
from zgul.paper.report.document import Figure, Page, ReportTable
from zgul.paper.report.figures import draw_files, matplotlib
from zgul.paper.report.writers import latex_document, latex_table, write_html, write_markdown
from zgul.progress import Report as Progress
from zgul.progress import Status, silent

FORMATS = ("html", "md", "latex", "figures")


def open_results(place: Path | str, data: Path | str | None = None, report: Progress = silent) -> Frame:
    """The results of a folder or of an export with their analyses. ``report`` is called with the progress."""
    store = open_store(place)
    return Frame(store, analyse(store, data, report) if store.analyses is None else store.analyses)


def write_report(
    place: Path | str,
    output: Path | str,
    formats: Iterable[str] = FORMATS,
    data: Path | str | None = None,
    *,
    earlier: Mapping[str, Path | str] | None = None,
    label: str = "this report",
    report: Progress = silent,
) -> list[Path]:
    """Write the report of a folder of results, or of an export, into a folder. Returns the files written.

    ``earlier`` names results of earlier protocols to compare these with, which are then called ``label``.
    """
    chosen, output = tuple(formats), Path(output)
    if unknown := [name for name in chosen if name not in FORMATS]:
        raise ZgulError(f"there is no format {unknown[0]!r}; choose from {', '.join(FORMATS)}")
    if output.exists() and not output.is_dir():
        raise ZgulError(f"{output} is a file; the report needs a folder")
    if {"html", "figures"} & set(chosen):
        matplotlib()  # if it is missing, say so before any work
    frame = open_results(place, data, report)
    before = {name: open_results(export) for name, export in (earlier or {}).items()}
    written = []
    for name, content in report_files(frame, build_report(frame, before, label), chosen):
        with atomic_write(output / name, "wb") as file:
            file.write(content)
        written.append(output / name)
        report(Status("writing", len(written), len(written)))
    return written


def report_files(frame: Frame, pages: Mapping[str, Page], formats: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Every file of a report: its name in the report's folder and its bytes."""
    draw = cache(draw_files)  # each figure once, however many files show it
    blocks = {name: [block for blocks in page.sections.values() for block in blocks] for name, page in pages.items()}
    if "html" in formats:
        for name, page in pages.items():
            yield f"{name}.html", write_html(page, draw).encode()
        if compared := side_by_side(frame):
            yield SIDE_BY_SIDE, compared.encode()
    if "md" in formats:
        for name, page in pages.items():
            yield f"{name.replace('index', 'report')}.md", write_markdown(page).encode()
    if "latex" in formats:
        tables = [block for block in blocks["index"] if isinstance(block, ReportTable)]
        for table in tables:
            yield f"latex/{table.name}.tex", latex_table(table).encode()
        yield "latex/all.tex", latex_document(table.name for table in tables).encode()
    if "figures" in formats:
        for figure in (block for part in blocks.values() for block in part if isinstance(block, Figure)):
            for kind, content in draw(figure).items():
                yield f"figures/{figure.name}.{kind}", content

"""The report on the paper's experiments: HTML, Markdown, LaTeX tables and figures from a store or its export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from zgul.errors import ZgulError
from zgul.files import atomic_write
from zgul.paper.analyses import analyse
from zgul.paper.export import Export
from zgul.paper.frame import Frame
from zgul.paper.report.build import Report, build_report
from zgul.paper.report.document import Figure, Page
from zgul.paper.report.drawing import METADATA, Drawer, matplotlib
from zgul.paper.report.html import write_html
from zgul.paper.report.latex import latex_document, latex_table
from zgul.paper.report.markdown import write_markdown
from zgul.paper.report.side_by_side import NAME
from zgul.paper.store import Store
from zgul.progress import Report as Progress
from zgul.progress import Status, silent

FORMATS = ("html", "md", "latex", "figures")

__all__ = ["FORMATS", "open_results", "report_files", "write_report"]


def open_results(place: Path | str, data: Path | str | None = None, report: Progress = silent) -> Frame:
    """The results of a folder or of an export with their analyses."""
    place = Path(place)
    if place.is_dir():
        store = Store(place)
        return Frame(store, analyse(store, data, report))
    if not place.exists():
        raise ZgulError(f"{place}: no such folder or file; a report is made from the --output of zgul experiment paper")
    return Frame(Export(place))


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

    ``earlier`` names exports or folders of earlier protocols, to be compared with these results, which are then called
    ``label``. ``report`` is called with the progress.
    """
    chosen, output = tuple(formats), Path(output)
    if unknown := [name for name in chosen if name not in FORMATS]:
        raise ZgulError(f"there is no format {unknown[0]!r}; choose from {', '.join(FORMATS)}")
    if output.exists() and not output.is_dir():
        raise ZgulError(f"{output} is a file; the report needs a folder")
    if {"html", "figures"} & set(chosen):
        matplotlib()  # if it is missing, say so before any work
    before = {name: open_results(export) for name, export in (earlier or {}).items()}
    written = []
    for name, content in report_files(build_report(open_results(place, data, report), before, label), chosen):
        with atomic_write(output / name, "wb") as file:
            file.write(content)
        written.append(output / name)
        report(Status("writing", len(written), len(written)))
    return written


def report_files(report: Report, formats: Iterable[str] = FORMATS) -> Iterator[tuple[str, bytes]]:
    """Every file of a report: its name in the report's folder and its bytes."""
    drawer = Drawer()
    pages = {"index": report.main, **report.pages}
    if "html" in formats:
        for name, page in pages.items():
            yield f"{name}.html", write_html(page, drawer.draw).encode()
        if report.side_by_side:
            yield f"{NAME}.html", report.side_by_side.encode()
    if "md" in formats:
        for name, page in pages.items():
            links = tuple((title, place.replace("index", "report")) for title, place in page.links)
            yield f"{name.replace('index', 'report')}.md", write_markdown(replace(page, links=links)).encode()
    if "latex" in formats:
        for table in report.printed:
            yield f"latex/{table.name}.tex", latex_table(table).encode()
        yield "latex/all.tex", latex_document([table.name for table in report.printed]).encode()
    if "figures" in formats:
        for figure in _figures(pages.values()).values():
            for kind in METADATA:
                yield f"figures/{figure.name}.{kind}", drawer.draw(figure, kind)


def _figures(pages: Iterable[Page]) -> dict[str, Figure]:
    return {block.name: block for page in pages for block in page.blocks() if isinstance(block, Figure)}

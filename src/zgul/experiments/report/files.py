"""A built report as files: index.html and report.md, a page for each language, latex/ and figures/."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from zgul.errors import ZgulError
from zgul.experiments.report import figures, html, latex, markdown
from zgul.experiments.report.build import Report
from zgul.experiments.report.document import Document, Figure
from zgul.files import atomic_write

MAIN = {"html": "index", "md": "report"}  # file names of the main document


def write(
    report: Report,
    output: Path,
    formats: tuple[str, ...],
    tell: Callable[[dict[str, Any]], None] = lambda _status: None,
) -> list[Path]:
    """Write the formats asked for."""
    if output.exists() and not output.is_dir():
        raise ZgulError(f"{output} is a file; the report needs a folder")
    written: list[Path] = []
    total = len(names(report, formats))
    for name, content in contents(report, formats):
        with atomic_write(output / name, "wb") as file:
            file.write(content)
        written.append(output / name)
        tell({"stage": "writing", "done": len(written), "total": total})
    return written


def names(report: Report, formats: tuple[str, ...]) -> list[str]:
    """The files of a report, without making them."""
    pages = list(report.pages)
    found = [f"{name}.html" for name in (MAIN["html"], *pages) if "html" in formats]
    found += [f"{name}.md" for name in (MAIN["md"], *pages) if "md" in formats]
    if "latex" in formats:
        found += [f"latex/{name}.tex" for name in (*(table.name for table in report.printed), "all")]
    if "figures" in formats:
        found += [f"figures/{name}.{kind}" for name in _figures(report) for kind in ("svg", "png")]
    return found


def contents(report: Report, formats: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Every file: its name in the report's folder and its bytes."""
    drawer = figures.Drawer()
    if "html" in formats:
        for name, document in _documents(report, MAIN["html"]):
            yield f"{name}.html", html.write(document, drawer.svg).encode()
    if "md" in formats:
        for name, document in _documents(report, MAIN["md"]):
            yield f"{name}.md", markdown.write(document).encode()
    if "latex" in formats:
        for table in report.printed:
            yield f"latex/{table.name}.tex", latex.table(table).encode()
        yield "latex/all.tex", latex.document([table.name for table in report.printed]).encode()
    if "figures" in formats:
        for figure in _figures(report).values():
            yield f"figures/{figure.name}.svg", drawer.svg(figure)
            yield f"figures/{figure.name}.png", drawer.png(figure)


def _documents(report: Report, main: str) -> Iterator[tuple[str, Document]]:
    yield main, report.main
    for name, page in report.pages.items():
        yield name, replace(page, links=tuple((title, main) for title, _ in page.links))


def _figures(report: Report) -> dict[str, Figure]:
    return {figure.name: figure for _, document in _documents(report, "") for figure in document.figures()}

"""The report on the paper's experiments: HTML, Markdown, LaTeX tables and figures from a store or its export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zgul.errors import ZgulError

FORMATS = ("html", "md", "latex", "figures")

__all__ = ["FORMATS", "open_results", "write_first", "write_report"]


def open_results(
    place: Path | str, data: Path | str | None = None, report: Callable[[dict[str, Any]], None] = lambda _status: None
) -> tuple[Any, dict[str, Any]]:
    """The results of a folder or of an export, with their analyses."""
    from zgul.experiments.report.analyses import compute
    from zgul.experiments.store import Export, Store

    place = Path(place)
    if place.is_dir():
        store = Store(place)
        return store, compute(store, Path(data) if data is not None else None, report)
    if not place.exists():
        raise ZgulError(f"{place}: no such folder or file; a report is made from the --output of zgul experiment paper")
    export = Export(place)
    return export, export.analyses


def write_report(
    place: Path | str,
    output: Path | str,
    formats: tuple[str, ...] = FORMATS,
    data: Path | str | None = None,
    report: Callable[[dict[str, Any]], None] = lambda _status: None,
) -> list[Path]:
    """Write the report of a folder of results, or of an export, into a folder; gives the files written."""
    if unknown := [name for name in formats if name not in FORMATS]:
        raise ZgulError(f"there is no format {unknown[0]!r}; choose from {', '.join(FORMATS)}")
    from zgul.experiments.report import files
    from zgul.experiments.report.build import build
    from zgul.experiments.report.figures import matplotlib

    if {"html", "figures"} & set(formats):
        matplotlib()  # say that it is missing before any work
    return files.write(build(*open_results(place, data, report)), Path(output), formats, report)


def write_first(place: Path | str, file: Path | str) -> Path:
    """Write the table of first results as Markdown."""
    from zgul.experiments.report.first import first_results
    from zgul.files import atomic_write

    text = first_results(open_results(place)[0])
    with atomic_write(file) as stream:
        stream.write(text)
    return Path(file)

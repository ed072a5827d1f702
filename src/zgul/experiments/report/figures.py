"""The paper's figures. Lines differ in marker and dash, heat maps carry their numbers and darken evenly, so that all
of them can be read in grey and by colour-blind people.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zgul.errors import ZgulError
from zgul.experiments.report.document import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

Colour = tuple[float, float, float, float]

MAP = "cividis_r"  # perceptually uniform, light to dark, made for colour-blind readers
# Okabe and Ito's colours, from dark to light
LINES = (
    {"color": "#000000", "marker": "o", "linestyle": "-"},
    {"color": "#0072B2", "marker": "s", "linestyle": "--"},
    {"color": "#D55E00", "marker": "^", "linestyle": "-."},
    {"color": "#009E73", "marker": "D", "linestyle": ":"},
    {"color": "#CC79A7", "marker": "v", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
)
METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {"Software": None}}  # no dates, no versions
SETTINGS = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "zgul",  # the same figure gives the same file
    "svg.fonttype": "path",
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class Line:
    """Points of one method: x, mean and deviation."""

    title: str
    points: tuple[tuple[float, float, float | None], ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes with lines."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Grid:
    """One heat map: targets by sources."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


def matplotlib() -> Any:
    """The library, set to write files without a screen."""
    try:
        import matplotlib
    except ImportError as error:
        raise ZgulError(
            "figures need one more package: pip install 'zgul[plots]' (or leave them out: --format md,latex)"
        ) from error
    matplotlib.use("Agg")
    return matplotlib


class Drawer:
    """Draws each figure once, however many files show it."""

    def __init__(self) -> None:
        self._drawn: dict[str, dict[str, bytes]] = {}

    def svg(self, figure: Figure) -> bytes:
        return self._files(figure)["svg"]

    def png(self, figure: Figure) -> bytes:
        return self._files(figure)["png"]

    def _files(self, figure: Figure) -> dict[str, bytes]:
        if figure.name not in self._drawn:
            with matplotlib().rc_context(SETTINGS):
                drawing = figure.draw()
                self._drawn[figure.name] = {kind: _save(drawing, kind) for kind in METADATA}
        return self._drawn[figure.name]


def _save(drawing: Drawing, kind: str) -> bytes:
    buffer = io.BytesIO()
    drawing.savefig(buffer, format=kind, dpi=160, metadata=METADATA[kind])
    return buffer.getvalue()


def curves(panels: Sequence[Panel], xlabel: str, ylabel: str = "F1", columns: int = 2) -> Drawing:
    """Lines with error bands, one panel beside the other, one legend for all."""
    matplotlib()
    from matplotlib.figure import Figure as Drawing

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = (3.4, 2.7) if columns <= 2 else (2.4, 2.1)
    drawing = Drawing(figsize=(max(4.6, width * columns), height * rows + 0.5))
    grid = drawing.subplots(rows, columns, squeeze=False)
    titles = list(dict.fromkeys(line.title for panel in panels for line in panel.lines))
    style = {title: LINES[index % len(LINES)] for index, title in enumerate(titles)}
    shown: dict[str, Any] = {}
    for index, axes in enumerate(grid.flat):
        if index >= len(panels):
            axes.set_visible(False)
            continue
        shown |= _lines(axes, panels[index], style)
        if index % columns == 0:
            axes.set_ylabel(ylabel)
        if index + columns >= len(panels):
            axes.set_xlabel(xlabel)
    drawing.legend(
        [shown[title] for title in titles],
        [label(title) for title in titles],
        loc="outside upper center",
        ncols=min(len(titles), 4),
        frameon=False,
        handlelength=3.2,
    )
    return drawing


def _lines(axes: Axes, panel: Panel, style: dict[str, dict[str, Any]]) -> dict[str, Any]:
    handles = {}
    for line in panel.lines:
        x, mean = [point[0] for point in line.points], [point[1] for point in line.points]
        (handles[line.title],) = axes.plot(x, mean, markersize=4.5, linewidth=1.5, **style[line.title])
        if any(point[2] for point in line.points):
            low = [point[1] - (point[2] or 0.0) for point in line.points]
            high = [point[1] + (point[2] or 0.0) for point in line.points]
            axes.fill_between(x, low, high, color=style[line.title]["color"], alpha=0.15, linewidth=0)
    axes.set_title(panel.title)
    axes.set_xticks(sorted({point[0] for line in panel.lines for point in line.points}))
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    return handles


def heat_maps(grids: Sequence[Grid], bar: str, limits: tuple[float, float]) -> Drawing:
    """Heat maps with one scale, a number in each cell."""
    matplotlib()
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure as Drawing

    scale = Normalize(*limits)
    widths = [len(grid.columns) for grid in grids]
    tallest = max(len(grid.rows) for grid in grids)
    drawing = Drawing(figsize=(0.62 * sum(widths) + 0.75 * len(grids) + 0.6, 0.42 * tallest + 1.0))
    row = drawing.subplots(1, len(grids), squeeze=False, width_ratios=widths)[0]
    for axes, grid in zip(row, grids, strict=True):
        image = axes.imshow(grid.values, cmap=MAP, norm=scale, aspect="auto")
        axes.set_title(grid.title)
        axes.set_xticks(range(len(grid.columns)), grid.columns)
        axes.set_yticks(range(len(grid.rows)), grid.rows)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for y, line in enumerate(grid.values):
            for x, value in enumerate(line):
                shade = readable_on(image.cmap(scale(value)))
                axes.text(x, y, f"{value:.2f}", ha="center", va="center", color=shade, fontsize=8)
    drawing.colorbar(image, ax=list(row), label=bar, fraction=0.03, pad=0.01)
    return drawing


def readable_on(colour: Colour) -> str:
    """Black or white, whichever stands out more."""
    return "black" if luminance(colour) > 0.179 else "white"


def luminance(colour: Colour) -> float:
    """Relative luminance as WCAG defines it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def label(title: str) -> str:
    """MADX^multi as matplotlib raises it."""
    return title.replace("^multi", "$^{multi}$")

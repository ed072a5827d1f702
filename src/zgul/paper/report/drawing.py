"""How figures are drawn. Lines differ in marker and dash, and heat maps darken evenly and carry their numbers, so that
all figures can be read in grey and by colour-blind people.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zgul.errors import ZgulError
from zgul.evaluation import MeanStd
from zgul.paper.report.document import Figure
from zgul.paper.rows import ZGUL

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

MAP = "cividis_r"  # perceptually uniform from light to dark, made for colour-blind readers
LINES: tuple[dict[str, Any], ...] = (  # Okabe and Ito's colours, from dark to light
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


Lines = dict[str, list[tuple[float, MeanStd]]]  # method -> its points
Dots = dict[str, tuple[MeanStd | None, float | None]]  # method -> our average and the paper's


@dataclass(frozen=True)
class HeatMap:
    """Targets by sources."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


def matplotlib() -> Any:
    """The library, set to write files without a screen."""
    try:
        import matplotlib
        import matplotlib.figure
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

    def draw(self, figure: Figure, kind: str = "svg") -> bytes:
        """The figure as a file of this kind, svg or png."""
        if figure.name not in self._drawn:
            with matplotlib().rc_context(SETTINGS):
                drawing, files = figure.draw(), {}
                for name, metadata in METADATA.items():
                    buffer = io.BytesIO()
                    drawing.savefig(buffer, format=name, dpi=160, metadata=metadata)
                    files[name] = buffer.getvalue()
            self._drawn[figure.name] = files
        return self._drawn[figure.name][kind]


def draw_curves(panels: dict[str, Lines], xlabel: str, columns: int = 2) -> Drawing:
    """Lines with error bands, one panel beside the other, one legend for all."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = (3.4, 2.7) if columns <= 2 else (2.4, 2.1)
    drawing: Drawing = matplotlib().figure.Figure(figsize=(max(4.6, width * columns), height * rows + 0.5))
    titles = list(dict.fromkeys(title for lines in panels.values() for title in lines))
    shown: dict[str, Any] = {}
    grid = list(drawing.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for index, (axes, (name, lines)) in enumerate(zip(grid, panels.items(), strict=False)):
        for title, points in lines.items():
            style = LINES[titles.index(title) % len(LINES)]
            x, mean = [point[0] for point in points], [point[1].mean for point in points]
            std = [point[1].std or 0.0 for point in points]
            (shown[title],) = axes.plot(x, mean, markersize=4.5, linewidth=1.5, **style)
            low, high = ([m + sign * s for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
            axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
            axes.set_xticks(x)
        axes.set_title(name)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.set_ylabel("F1" if index % columns == 0 else "")
        axes.set_xlabel(xlabel if index + columns >= len(panels) else "")
    place = {"loc": "outside upper center", "ncols": min(len(titles), 4), "frameon": False, "handlelength": 3.2}
    drawing.legend([shown[title] for title in titles], [label(title) for title in titles], **place)
    return drawing


def draw_dots(panels: dict[str, Dots]) -> Drawing:
    """Ours (filled, with deviation) against the paper's (hollow), a line for each method, a panel for each group."""
    methods = list(dict.fromkeys(method for dots in panels.values() for method in dots))
    size = (2.5 * len(panels) + 1.3, 0.24 * len(methods) + 1.1)
    drawing: Drawing = matplotlib().figure.Figure(figsize=size)
    grid = drawing.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (name, dots) in zip(grid, panels.items(), strict=True):
        for place, method in enumerate(methods):
            own, paper = dots.get(method, (None, None))
            if own and paper is not None:
                axes.plot([own.mean, paper], [place, place], color="#999999", linewidth=1, zorder=1)
            if own:
                bar = {"xerr": own.std or 0.0, "fmt": "o", "color": "#0072B2", "markersize": 5, "elinewidth": 1.2}
                axes.errorbar(own.mean, place, zorder=3, label="this report", **bar)
            if paper is not None:
                ring = {"facecolors": "white", "edgecolors": "black", "linewidths": 1.1}
                axes.scatter(paper, place, s=26, marker="D", zorder=2, label="paper (mBERT)", **ring)
        axes.set_title(name)
        axes.set_xlabel("average F1")
        axes.grid(color="#e4e4e4", linewidth=0.6)
    grid[0].set_yticks(range(len(methods)), [label(method) for method in methods])
    for method, tick in zip(methods, grid[0].get_yticklabels(), strict=True):
        tick.set_fontweight("bold" if method == ZGUL else "normal")
    grid[0].invert_yaxis()
    handles = dict(zip(*reversed(grid[0].get_legend_handles_labels()), strict=True))
    shown = {name: handles[name] for name in ("this report", "paper (mBERT)") if name in handles}
    drawing.legend(shown.values(), shown, loc="outside upper center", ncols=2, frameon=False)
    return drawing


def draw_heat_maps(maps: Sequence[HeatMap], bar: str, highest: float) -> Drawing:
    """Heat maps with one scale from 0, a number in each cell."""
    widths = [len(item.columns) for item in maps]
    size = (0.62 * sum(widths) + 0.75 * len(maps) + 0.6, 0.42 * max(len(item.rows) for item in maps) + 1.0)
    drawing: Drawing = matplotlib().figure.Figure(figsize=size)
    grid = drawing.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
    for axes, item in zip(grid, maps, strict=True):
        image = axes.imshow(item.values, cmap=MAP, vmin=0.0, vmax=highest, aspect="auto")
        axes.set_title(item.title)
        axes.set_xticks(range(len(item.columns)), item.columns)
        axes.set_yticks(range(len(item.rows)), item.rows)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for y, line in enumerate(item.values):
            for x, value in enumerate(line):
                shade = readable_on(image.cmap(image.norm(value)))
                axes.text(x, y, f"{value:.2f}", ha="center", va="center", color=shade, fontsize=8)
    drawing.colorbar(image, ax=list(grid), label=bar, fraction=0.03, pad=0.01)
    return drawing


def readable_on(colour: Sequence[float]) -> str:
    """Black or white, whichever stands out more."""
    return "black" if luminance(colour) > 0.179 else "white"


def luminance(colour: Sequence[float]) -> float:
    """Relative luminance as WCAG defines it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def label(title: str) -> str:
    """MADX^multi as matplotlib raises it."""
    return title.replace("^multi", "$^{multi}$")

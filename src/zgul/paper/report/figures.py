"""The figures of the report: their data, and how they are drawn. ``figures.mplstyle`` has colours and markers."""

import io
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from zgul.errors import ZgulError
from zgul.evaluation import MeanStd
from zgul.languages import GROUPS, find, similarity
from zgul.languages.relatedness import KINDS
from zgul.paper import numbers
from zgul.paper.frame import Frame, average
from zgul.paper.report.document import Figure, group_title, listed, text
from zgul.paper.report.tables import WEIGHTS, few_shot_languages, few_shot_scores, weights
from zgul.paper.rows import COMPARED, ZERO_SHOT, ZGUL

SHARES = (0.0, 0.25, 0.5, 1.0)
GREW_FROM = {"ZGUL++": "ZGUL", "SFT++": "SFT-M", "MADX^multi-Tgt": "MADX^multi-Rel"}  # the same row without any text
METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {"Software": None}}  # no dates, no versions
DARK = 0.53  # of the scale of a heat map: numbers are black up to here and white above, with a contrast of 4.5 or more
RAISED = ("^multi", "$^{multi}$")  # how matplotlib raises it in MADX^multi
STYLE = Path(__file__).with_suffix(".mplstyle")
Lines = Mapping[str, Mapping[Any, MeanStd | None]]  # title -> its points
HeatMap = Mapping[str, Mapping[str, float]]  # target -> source -> value


def matplotlib() -> Any:
    """The library, set to write files without a screen."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        needed = "figures need another package: pip install 'zgul[plots]'"
        raise ZgulError(f"{needed} (or leave them out: --format md,latex)") from error
    matplotlib.use("Agg")
    return matplotlib


def draw_files(figure: Figure) -> dict[str, bytes]:
    """The figure as SVG and as PNG."""
    files = {}
    with matplotlib().rc_context(fname=STYLE):
        drawing = figure.draw()
        for kind, metadata in METADATA.items():
            buffer = io.BytesIO()
            drawing.savefig(buffer, format=kind, metadata=metadata)
            files[kind] = buffer.getvalue()
    return files


def _new_drawing(width: float, height: float, rows: int, columns: int, **more: Any) -> tuple[Any, list[Any]]:
    """A drawing of this size and its panels."""
    drawing = matplotlib().figure.Figure(figsize=(width, height))
    return drawing, list(drawing.subplots(rows, columns, squeeze=False, **more).flat)


def overview(frame: Frame) -> Figure | None:
    """Ours against the paper's for every method and group."""
    groups = frame.groups()
    panels = {g: {row: average(frame.entries(row, g), frame.languages(g)) for row in ZERO_SHOT} for g in groups}
    return Figure("overview", text("overview"), partial(draw_dots, panels)) if panels else None


def draw_dots(panels: Lines) -> Any:
    """Ours (filled, with deviation) against the paper's (hollow), a line for each method, a panel for each group."""
    drawing, grid = _new_drawing(2.5 * len(panels) + 1.3, 4.5, 1, len(panels), sharey=True)
    for axes, (group, dots) in zip(grid, panels.items(), strict=True):
        known = {ZERO_SHOT.index(row): value for row, value in dots.items() if value}
        paper = [numbers.ZERO_SHOT[group].get(ZERO_SHOT[y], numbers.AVERAGE) or np.nan for y in known]
        own, std = [value.mean for value in known.values()], [value.std or 0.0 for value in known.values()]
        axes.hlines([*known], own, paper, color="#999999", linewidth=1)
        axes.scatter(paper, [*known], s=26, marker="D", facecolors="white", edgecolors="black", label="paper (mBERT)")
        axes.errorbar(own, [*known], xerr=std, fmt="o", color="#0072B2", label="this report")
        axes.set(title=group_title(group), xlabel="average F1")
    grid[0].set_yticks(range(len(ZERO_SHOT)), [row.replace(*RAISED) for row in ZERO_SHOT])
    grid[0].get_yticklabels()[ZERO_SHOT.index(ZGUL)].set_fontweight("bold")
    grid[0].invert_yaxis()
    drawing.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return drawing


def similarity_maps() -> list[Figure]:
    """Relatedness as the paper defines it, and its two halves."""
    figures = []
    for kind in KINDS:
        maps = {n: {t: {s: similarity(t, s, kind) for s in g.sources} for t in g.targets} for n, g in GROUPS.items()}
        name, draw = f"similarity-{kind}", partial(draw_heat_maps, maps, f"{kind} similarity")
        figures.append(Figure(name, text(name), draw))
    return figures


def weight_maps(frame: Frame) -> list[Figure]:
    """Mean weights of the sources over seeds, one figure for each kind of weights."""
    figures = []
    for kind, title in WEIGHTS.items():
        maps: dict[str, HeatMap] = {}
        for group in frame.groups():
            if seeds := weights(frame, kind, group):
                targets = [code for code in seeds[0] if all(code in seed for seed in seeds)]
                sources = GROUPS[group].sources
                maps[group] = {t: {s: mean(seed[t].get(s, 0.0) for seed in seeds) for s in sources} for t in targets}
        draw = partial(draw_heat_maps, maps, "weight")
        figures += [Figure(f"weights-{kind}", text("weight-map", title=title), draw)] if maps else []
    return figures


def draw_heat_maps(maps: Mapping[str, HeatMap], label: str) -> Any:
    """A heat map for each group with one scale from 0, a number in each cell."""
    values = {group: np.array([[*row.values()] for row in targets.values()]) for group, targets in maps.items()}
    heights, widths = zip(*(array.shape for array in values.values()), strict=True)
    size = (0.62 * sum(widths) + 0.75 * len(maps) + 0.6, 0.42 * max(heights) + 1.0)
    drawing, grid = _new_drawing(*size, 1, len(maps), width_ratios=widths)
    highest = max(array.max() for array in values.values())
    for axes, (group, array) in zip(grid, values.items(), strict=True):
        image = axes.imshow(array, vmin=0.0, vmax=highest)
        axes.set_title(group_title(group))
        axes.set_xticks(range(len(array[0])), map(str.capitalize, GROUPS[group].sources))
        axes.set_yticks(range(len(array)), map(str.capitalize, maps[group]))
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        for (y, x), value in np.ndenumerate(array):
            ink = "black" if value <= DARK * highest else "white"
            axes.text(x, y, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=8)
    drawing.colorbar(image, ax=grid, label=label, fraction=0.03, pad=0.01)
    return drawing


def few_shot_groups(frame: Frame) -> Figure | None:
    """Few-shot curves of the groups: the paper's four panels."""
    groups = frame.groups("few-shot")
    panels = {group_title(g): few_shot_scores(frame, g, COMPARED, few_shot_languages(frame, g)) for g in groups}
    draw = partial(draw_curves, panels, "labelled sentences", columns=2)
    return Figure("few-shot-groups", text("few-shot-groups"), draw) if panels else None


def few_shot_by_language(frame: Frame, language: str = "") -> Figure | None:
    """Few-shot curves of each language, or of one."""
    codes = [(group, code) for group in frame.groups("few-shot") for code in frame.languages(group, "few-shot")]
    chosen = [(group, code) for group, code in codes if language in ("", code)]
    panels = {find(code).name: few_shot_scores(frame, group, COMPARED, [code]) for group, code in chosen}
    caption = text("few-shot-languages", whose=find(language).name if language else "each language")
    draw = partial(draw_curves, panels, "labelled sentences", columns=4)
    return Figure(f"few-shot-{language or 'languages'}", caption, draw) if panels else None


def unlabelled_curve(frame: Frame) -> Figure | None:
    """F1 by share of the text, over the languages that every point has."""
    rows = [row for row in GREW_FROM if frame.entries(row, part="unlabelled", share=1.0)]
    points = {(row, share): frame.entries(row, part="unlabelled", share=share) for row in rows for share in SHARES}
    for row in rows:
        seeds = {entry.run.seed for entry in points[row, 1.0]}
        points[row, 0.0] = [entry for entry in frame.entries(GREW_FROM[row]) if entry.run.seed in seeds]
    scored = [{entry.score.language for entry in entries} for entries in points.values() if entries]
    languages = sorted(set.intersection(*scored)) if scored else []
    if not languages:
        return None
    lines = {row: {100 * share: average(points[row, share], languages) for share in SHARES} for row in rows}
    names, starts = listed(map(str.capitalize, languages)), listed(f"{GREW_FROM[row]} for {row}" for row in rows)
    draw = partial(draw_curves, {"": lines}, "% of the text", columns=1)
    return Figure("unlabelled", text("unlabelled-curve", languages=names, starts=starts), draw)


def draw_curves(panels: Mapping[str, Lines], xlabel: str, columns: int) -> Any:
    """Lines with error bands, one panel beside the other, one legend for all."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = (3.4, 2.7) if columns <= 2 else (2.4, 2.1)
    drawing, grid = _new_drawing(max(4.6, width * columns), height * rows + 0.5, rows, columns)
    for axes, (name, lines) in zip(grid, panels.items(), strict=False):
        for title, points in lines.items():
            known = {x: value for x, value in points.items() if value}
            (line,) = axes.plot([*known], [value.mean for value in known.values()], label=title.replace(*RAISED))
            low, high = ([value.mean + sign * (value.std or 0.0) for value in known.values()] for sign in (-1, 1))
            axes.fill_between([*known], low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        ticks = sorted({x for points in lines.values() for x, value in points.items() if value})
        axes.set(title=name, xticks=ticks)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    drawing.supxlabel(xlabel, fontsize="medium")
    drawing.supylabel("F1", fontsize="medium")
    drawing.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return drawing

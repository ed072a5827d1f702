"""What the paper's figures show, taken from results."""

from __future__ import annotations

from functools import partial

from zgul.experiments.report import tables
from zgul.experiments.report.document import Figure
from zgul.experiments.report.figures import Grid, Line, Panel, curves, heat_maps
from zgul.experiments.report.frame import COMPARED, Entry, Frame, average
from zgul.languages import GROUPS, find, similarity
from zgul.languages.relatedness import Kind

SHARES = (0.0, 0.25, 0.5, 1.0)
GREW_FROM = {"MADX^multi-Tgt": "MADX^multi-Rel", "SFT++": "SFT-M", "ZGUL++": "ZGUL"}  # without any text
SIMILARITIES: dict[Kind, str] = {
    "average": "Relatedness of targets (rows) and sources: average of genetic and syntactic similarity",
    "genetic": "Genetic similarity of targets (rows) and sources",
    "syntactic": "Syntactic similarity of targets (rows) and sources",
}


def similarity_maps(groups: list[str]) -> list[Figure]:
    """Relatedness as the paper defines it, and its two halves."""
    figures = []
    for kind, caption in SIMILARITIES.items():
        grids = []
        for name in groups:
            group = GROUPS[name]
            values = tuple(tuple(similarity(t, s, kind) for s in group.sources) for t in group.targets)
            grids.append(_grid(name, group.targets, values))
        figures.append(
            Figure(f"similarity-{kind}", caption, partial(heat_maps, grids, f"{kind} similarity", limits=(0.0, 1.0)))
        )
    return figures


def weight_maps(frame: Frame) -> list[Figure]:
    """Mean weights of the sources, one figure for each kind of weights."""
    figures = []
    for kind, title in tables.WEIGHTS.items():
        grids = []
        for name in frame.groups("zero-shot"):
            found = tables.weights(frame, kind, name)
            targets = tuple(code for code in GROUPS[name].targets if found and all(code in table for table in found))
            if targets:
                values = tuple(
                    tuple(sum(t[code].get(s, 0.0) for t in found) / len(found) for s in GROUPS[name].sources)
                    for code in targets
                )
                grids.append(_grid(name, targets, values))
        if grids:
            caption = (
                f"{title}: weight of each source's adapter (columns) for each target, mean over words, layers and seeds"
            )
            figures.append(
                Figure(f"weights-{kind}", caption, partial(heat_maps, grids, "weight", limits=(0.0, _highest(grids))))
            )
    return figures


def _highest(grids: list[Grid]) -> float:
    return max(value for grid in grids for row in grid.values for value in row)


def _grid(group: str, targets: tuple[str, ...], values: tuple[tuple[float, ...], ...]) -> Grid:
    rows, columns = (tuple(map(tables.language_title, codes)) for codes in (targets, GROUPS[group].sources))
    return Grid(tables.group_title(group), rows, columns, values)


def few_shot_groups(frame: Frame) -> Figure | None:
    """The paper's four panels."""
    panels = []
    for group in frame.groups("few-shot"):
        languages = tables.few_shot_languages(frame, group)
        if languages:
            panels.append(_few_shot_panel(frame, group, languages, tables.group_title(group)))
    if not panels:
        return None
    caption = (
        "Few-shot F1 by number of labelled target sentences, averaged over a group's languages that have every size; "
        "bands: one standard deviation over seeds and draws"
    )
    return Figure("few-shot-groups", caption, partial(curves, panels, "labelled sentences"))


def few_shot_languages(frame: Frame, language: str | None = None) -> Figure | None:
    """A panel for each language, or for one."""
    panels = [
        _few_shot_panel(frame, group, [code], find(code).name)
        for group in frame.groups("few-shot")
        for code in frame.languages("few-shot", group)
        if language in (None, code)
    ]
    if not panels:
        return None
    whose = find(language).name if language else "each language"
    caption = f"Few-shot F1 of {whose}; bands: one standard deviation over seeds and draws"
    name = f"few-shot-{language or 'languages'}"
    return Figure(name, caption, partial(curves, panels, "labelled sentences", columns=4))


def _few_shot_panel(frame: Frame, group: str, languages: list[str], title: str) -> Panel:
    lines = []
    for row in COMPARED:  # the paper's three
        points = []
        for size in tables.few_shot_sizes(frame, group):
            value = average(tables.few_shot_entries(frame, group, row, size), languages)
            if value is not None:
                points.append((float(size), value.mean, value.std))
        if points:
            lines.append(Line(row, tuple(points)))
    return Panel(title, tuple(lines))


def unlabelled_curve(frame: Frame) -> Figure | None:
    """F1 by share of the text, over the languages that every point has."""
    rows = [row for row in GREW_FROM if tables.unlabelled_entries(frame, row)]
    points = {(row, share): _with_share(frame, row, share) for row in rows for share in SHARES}
    shares = [share for share in SHARES if any(points[row, share] for row in rows)]
    if len(shares) < 2:
        return None
    there = [{entry.score.language for entry in points[row, share]} for row in rows for share in shares]
    languages = sorted(set.intersection(*there)) if there else []
    if not languages:
        return None
    lines = []
    for row in reversed(rows):  # ZGUL++ first, as in the other figures
        values = ((share, average(points[row, share], languages)) for share in shares)
        lines.append(Line(row, tuple((100 * share, value.mean, value.std) for share, value in values if value)))
    names = ", ".join(map(tables.language_title, languages))
    caption = (
        f"Average F1 over {names} by share of the unlabelled text that was used; 0 is zero-shot "
        f"({', '.join(f'{old} for {new}' for new, old in GREW_FROM.items() if new in rows)}); "
        "bands: one standard deviation over seeds"
    )
    return Figure("unlabelled", caption, partial(curves, [Panel("", tuple(lines))], "% of the text", columns=1))


def _with_share(frame: Frame, row: str, share: float) -> list[Entry]:
    if share:
        return tables.unlabelled_entries(frame, row, share)
    seeds = {entry.run.seed for entry in tables.unlabelled_entries(frame, row)}
    return [
        entry
        for group in frame.groups("unlabelled")
        for entry in frame.entries("zero-shot", group, GREW_FROM[row])
        if entry.run.seed in seeds
    ]

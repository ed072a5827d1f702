"""What the figures show, taken from the results."""

from __future__ import annotations

from functools import partial

from zgul.languages import GROUPS, find, similarity
from zgul.languages.relatedness import Kind
from zgul.paper import numbers
from zgul.paper.frame import Entry, Frame, average
from zgul.paper.report.analysis_tables import WEIGHTS, weights
from zgul.paper.report.document import Figure
from zgul.paper.report.drawing import HeatMap, Lines, draw_curves, draw_dots, draw_heat_maps
from zgul.paper.report.score_tables import (
    few_shot_entries,
    few_shot_languages,
    few_shot_sizes,
    unlabelled_entries,
)
from zgul.paper.report.texts import group_title, listed, text
from zgul.paper.rows import COMPARED, ZERO_SHOT

SHARES = (0.0, 0.25, 0.5, 1.0)
GREW_FROM = {"ZGUL++": "ZGUL", "SFT++": "SFT-M", "MADX^multi-Tgt": "MADX^multi-Rel"}  # the same without any text


def overview(frame: Frame) -> Figure | None:
    """Ours against the paper's for every method and group."""
    panels = {}
    for group in frame.groups():
        own = {row: average(frame.entries(group, row), frame.languages(group)) for row in ZERO_SHOT}
        published = numbers.ZERO_SHOT[group]
        dots = {row: (own[row], published.get(row, numbers.AVERAGE)) for row in ZERO_SHOT if own[row]}
        panels[group_title(group)] = dots
    return Figure("overview", text("overview"), partial(draw_dots, panels)) if panels else None


def similarity_maps() -> list[Figure]:
    """Relatedness as the paper defines it, and its two halves."""
    figures = []
    kinds: tuple[Kind, ...] = ("average", "genetic", "syntactic")
    for kind in kinds:
        maps = [
            _heat_map(name, group.targets, [[similarity(t, s, kind) for s in group.sources] for t in group.targets])
            for name, group in GROUPS.items()
        ]
        draw = partial(draw_heat_maps, maps, f"{kind} similarity", 1.0)
        figures.append(Figure(f"similarity-{kind}", text(f"similarity-{kind}"), draw))
    return figures


def weight_maps(frame: Frame) -> list[Figure]:
    """Mean weights of the sources, one figure for each kind of weights."""
    figures = []
    for kind, title in WEIGHTS.items():
        maps = []
        for name in frame.groups():
            by_seed = weights(frame, kind, name)
            targets = tuple(code for code in GROUPS[name].targets if by_seed and all(code in seed for seed in by_seed))
            values = [
                [sum(seed[t].get(s, 0.0) for seed in by_seed) / len(by_seed) for s in GROUPS[name].sources]
                for t in targets
            ]
            maps += [_heat_map(name, targets, values)] if targets else []
        if maps:
            highest = max(value for item in maps for row in item.values for value in row)
            draw = partial(draw_heat_maps, maps, "weight", highest)
            figures.append(Figure(f"weights-{kind}", text("weight-map", title=title), draw))
    return figures


def _heat_map(group: str, targets: tuple[str, ...], values: list[list[float]]) -> HeatMap:
    rows, columns = (tuple(code.capitalize() for code in codes) for codes in (targets, GROUPS[group].sources))
    return HeatMap(group_title(group), rows, columns, tuple(map(tuple, values)))


def few_shot_groups(frame: Frame) -> Figure | None:
    """The paper's four panels."""
    languages = {group: few_shot_languages(frame, group) for group in frame.groups("few-shot")}
    panels = {group_title(group): _few_shot(frame, group, codes) for group, codes in languages.items() if codes}
    draw = partial(draw_curves, panels, "labelled sentences")
    return Figure("few-shot-groups", text("few-shot-groups"), draw) if panels else None


def few_shot_by_language(frame: Frame, language: str | None = None) -> Figure | None:
    """A panel for each language, or for one."""
    panels = {
        find(code).name: _few_shot(frame, group, [code])
        for group in frame.groups("few-shot")
        for code in frame.languages(group, "few-shot")
        if language in (None, code)
    }
    caption = text("few-shot-languages", whose=find(language).name if language else "each language")
    draw = partial(draw_curves, panels, "labelled sentences", columns=4)
    return Figure(f"few-shot-{language or 'languages'}", caption, draw) if panels else None


def _few_shot(frame: Frame, group: str, languages: list[str]) -> Lines:
    lines = {}
    for row in COMPARED:
        values = {s: average(few_shot_entries(frame, group, row, s), languages) for s in few_shot_sizes(frame, group)}
        if points := [(float(size), value) for size, value in values.items() if value]:
            lines[row] = points
    return lines


def unlabelled_curve(frame: Frame) -> Figure | None:
    """F1 by share of the text, over the languages that every point has."""
    rows = [row for row in GREW_FROM if unlabelled_entries(frame, row)]
    entries = {(row, share): _with_share(frame, row, share) for row in rows for share in SHARES}
    shares = [share for share in SHARES if any(entries[row, share] for row in rows)]
    there = [{entry.score.language for entry in entries[row, share]} for row in rows for share in shares]
    languages = sorted(set.intersection(*there)) if there else []
    if not languages or len(shares) < 2:
        return None
    lines = {}
    for row in rows:
        values = ((100 * share, average(entries[row, share], languages)) for share in shares)
        lines[row] = [(share, value) for share, value in values if value]
    names, starts = listed(map(str.capitalize, languages)), listed(f"{GREW_FROM[row]} for {row}" for row in rows)
    draw = partial(draw_curves, {"": lines}, "% of the text", columns=1)
    return Figure("unlabelled", text("unlabelled-curve", languages=names, starts=starts), draw)


def _with_share(frame: Frame, row: str, share: float) -> list[Entry]:
    if share:
        return unlabelled_entries(frame, row, share)
    seeds = {entry.run.seed for entry in unlabelled_entries(frame, row)}
    groups = frame.groups("unlabelled")
    return [e for group in groups for e in frame.entries(group, GREW_FROM[row]) if e.run.seed in seeds]

"""The paper's four language groups, and the assignment of any language to one of them.

The paper assigns a language by its genetic nearest neighbour, with syntax as the tie-break. docs/languages.md explains
where this needs one more rule, and why.
"""

from dataclasses import dataclass
from typing import Literal

from zgul.languages.language import Language, find
from zgul.languages.relatedness import shared_ancestors, similarity

PIVOT = "en"  # a source of every group, so that it cannot decide for any of them


@dataclass(frozen=True)
class Group:
    """Source languages that are trained on together, and the paper's targets for them."""

    name: str
    task: Literal["pos", "ner"]
    sources: tuple[str, ...]  # codes, English first
    targets: tuple[str, ...]
    area: str | None = None  # the continent, for a group that is defined by place and not by family


@dataclass(frozen=True)
class Assignment:
    """The group of a language, and the evidence for it."""

    group: Group | None
    neighbour: str | None  # code of the source that decided
    reason: str
    alone: bool = True  # False if other groups are as near by family, and syntax broke the tie


_GROUPS = (
    Group("germanic", "pos", ("en", "is", "de"), ("fo", "got", "gsw")),
    Group("slavic", "pos", ("en", "ru", "cs"), ("qpm", "hsb", "orv", "cu")),
    Group("african", "ner", ("en", "am", "sw", "wo"), ("ha", "ig", "rw", "lg", "luo", "pcm"), area="Africa"),
    Group("indo-aryan", "ner", ("en", "hi", "bn", "ur"), ("as", "bho")),
)
GROUPS = {group.name: group for group in _GROUPS}
SOURCES: tuple[str, ...] = tuple(dict.fromkeys(code for group in GROUPS.values() for code in group.sources))
TARGETS: tuple[str, ...] = tuple(code for group in GROUPS.values() for code in group.targets)


def assign_group(target: str | Language) -> Group | None:
    """Return the group that serves a language, or None for a language related to no group."""
    return explain_group(target).group


def explain_group(target: str | Language) -> Assignment:
    """Assign a language to a group and give the reason: family, then area, then syntax (see docs/languages.md)."""
    target = find(target)
    for group in GROUPS.values():
        if target.code in group.sources and target.code != PIVOT:
            return Assignment(group, target.code, "it is one of the group's sources")
    pairs = [(group.name, source) for group in GROUPS.values() for source in group.sources if source != PIVOT]
    shared = {pair: shared_ancestors(target, pair[1]) for pair in pairs}
    depth = max(shared.values())
    nearest = [pair for pair, count in shared.items() if count == depth > 0]
    family = target.family[depth - 1] if depth else ""
    english_is_nearer = shared_ancestors(target, PIVOT) > depth
    if english_is_nearer:
        problem = "its family leads to English, which is in every group"
    elif not nearest:
        problem = "it shares no family with any source language"
    elif len({name for name, _ in nearest}) > 1:
        problem = f"it shares only {family} with several groups"
    else:
        problem = ""
    for group in GROUPS.values():
        if problem and group.area and group.area == target.area:
            source = max(group.sources[1:], key=lambda code: similarity(target, code))
            return Assignment(group, source, f"{problem}, but it is spoken in {group.area}")
    if not nearest:
        return Assignment(None, None, problem)
    name, source = max(nearest, key=lambda pair: similarity(target, pair[1], "syntactic"))
    reason = f"shares {family} with {find(source)}"
    if english_is_nearer:
        reason = f"after English, which is in every group, it {reason}"
    elif problem:
        reason = f"shares only {family} with several groups; its syntax is closest to {find(source)}"
    return Assignment(GROUPS[name], source, reason, alone=english_is_nearer or not problem)

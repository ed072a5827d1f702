"""Languages for the page: search by any name, and what zgul has for one."""

import difflib
from functools import cache, lru_cache
from typing import Any

from zgul.languages import Language, find
from zgul.languages.language import load_table, plain_name
from zgul.tagging.serving import ExpectedAccuracy, describe, paper_languages

CLOSE = 0.7  # likeness of names that may be misspelt
RIGHT_TO_LEFT = ("Adlm", "Arab", "Aran", "Hebr", "Mand", "Nkoo", "Phnx", "Rohg", "Samr", "Sogd", "Syrc", "Thaa", "Yezi")


def summary(language: Language) -> dict[str, Any]:
    """Who a language is, as plain data."""
    known = ("code", "iso3", "name", "autonym", "family", "scripts")
    direction = "rtl" if language.scripts and language.scripts[0] in RIGHT_TO_LEFT else "ltr"
    return {name: getattr(language, name) for name in known} | {"direction": direction}


@cache
def _names() -> list[tuple[str, int]]:
    """Every code and name in its plain form, with the row of its language."""
    table = load_table()
    return [
        (plain_name(name), row)
        for row, others in enumerate(table.aliases)
        for name in (table.iso1[row], table.iso3[row], table.name[row], table.autonym[row], *others.split("\t"))
        if name
    ]


@lru_cache(maxsize=1024)
def search(query: str, limit: int) -> list[Language]:
    """Languages whose code or name is, begins with, or contains the query, in this order; else those spelt alike."""
    if not query.strip():
        return list(dict.fromkeys(row.language for row in paper_languages()))[:limit]
    wanted, ranks = plain_name(query), dict[int, tuple[int, int]]()
    for name, row in _names():
        rank = _rank(wanted, name)
        if rank is not None:
            ranks[row] = min(ranks.get(row, (9, 0)), (rank, len(name)))
    if not ranks:
        rows = dict(reversed(_names()))
        close = difflib.get_close_matches(wanted, rows, n=limit, cutoff=CLOSE)
        ranks = {rows[name]: (0, place) for place, name in reversed(list(enumerate(close)))}
    has_code = load_table().iso1
    order = sorted(ranks, key=lambda row: (ranks[row][0], not has_code[row], ranks[row][1], row))
    return [find(load_table().iso3[row]) for row in order[:limit]]


def _rank(wanted: str, name: str) -> int | None:
    if not wanted or wanted not in name:
        return None
    if wanted == name:
        return 0
    return 1 if name.startswith(wanted) else 2 if f" {wanted}" in name else 3


@lru_cache(maxsize=256)
def details(code: str) -> dict[str, Any]:
    """What is known about a language and what zgul has for it, as plain data."""
    profile = describe(code)
    language, group = profile.language, profile.assignment.group
    names = load_table().aliases[language.row].split("\t")
    known = ("task", "name", "base", "learnt_from", "reason", "warning")
    return {
        "language": summary(language) | {"names": list(filter(None, names)), "territory": language.territory_name},
        "group": group.name if group else None,
        "reason": profile.assignment.reason,
        "most_related": profile.most_related,
        "relatives": [{"code": one, "name": find(one).name, **values} for one, values in profile.similarity.items()],
        "taggers": [
            {name: getattr(served, name) for name in known}
            | {"expected": _promise(served.expected), "zero_shot": _promise(served.zero_shot)}
            for served in profile.taggers
        ],
        "default_task": group.task if group else "pos",
    }


def _promise(accuracy: ExpectedAccuracy | None) -> dict[str, Any] | None:
    return {"f1": accuracy.f1, "note": accuracy.note} if accuracy else None

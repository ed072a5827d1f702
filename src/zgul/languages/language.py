"""Find a language by any of its codes, tags and names.

Everywhere in zgul the code of a language is its ISO 639-1 code if it has one, else its ISO 639-3 code. The paper's Bh
is ``bho``.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache

from zgul.errors import ZgulError
from zgul.languages import table

SUGGESTIONS = 4
# Letters that Unicode does not decompose into a base letter and a mark.
_PLAIN_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ð": "d", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i"})
_SCRIPT = re.compile(r"[a-z]{4}")
_SUBTAG = re.compile(r"[a-z0-9]{1,8}")


@dataclass(frozen=True)
class Language:
    """A language of the world; ``find`` returns them."""

    code: str  # ISO 639-1 if it exists, else ISO 639-3
    iso3: str
    name: str  # in English
    autonym: str | None  # in the language itself
    family: tuple[str, ...]  # root first; empty for isolates and unclassified languages
    scripts: tuple[str, ...]  # ISO 15924, the usual one first
    territory: str | None  # ISO 3166, where most speakers live
    area: str | None  # continent of that territory
    row: int  # in the table

    @property
    def script_names(self) -> tuple[str, ...]:
        """The scripts in words: Latn is Latin."""
        return tuple(table.load().words.get(script, script) for script in self.scripts)

    @property
    def territory_name(self) -> str | None:
        return table.load().words.get(self.territory, self.territory) if self.territory else None

    def __str__(self) -> str:
        return f"{self.name} ({self.code})"


def find(query: str | Language) -> Language:
    """Return the language that a code, tag or name means. A ZgulError makes suggestions if there is none.

    Understood are ISO 639-1 and 639-3 (``fo``, ``fao``), tags (``sr-Latn``, ``de_CH``), English and own names
    (``Faroese``, ``føroyskt``), in any case, with or without accents. Codes come before names: ``aka`` is Akan, not
    the language called Aka.
    """
    if isinstance(query, Language):
        return query
    text = unicodedata.normalize("NFC", query).strip()
    if not text:
        raise ZgulError('No language given. Name one by code or name, for instance "fo" or "Faroese".')
    rows = _codes().get(text.lower()) or _names().get(_plain(text)) or ()
    if len(rows) == 1:
        return _language(rows[0])
    if rows:
        choices = ", ".join(f"{table.load().iso3[row]} ({table.load().name[row]})" for row in rows[:8])
        raise ZgulError(f'"{query}" is the name of several languages; use a code: {choices}.')
    tagged = _find_tag(text)
    if tagged is None:
        similar = ", ".join(map(str, _similar(_plain(query))))
        hint = f"Did you mean {similar}?" if similar else "Give its ISO 639 code or its English name."
        raise ZgulError(f'No language is called "{query}". {hint}')
    return tagged


def _find_tag(text: str) -> Language | None:
    """Find ``sr-Latn``, ``de_CH`` or ``zh-yue``: the language, written in the script that the tag names."""
    first, *rest = re.split(r"[-_]", text.lower())
    rows = _codes().get(first, ())
    if len(rows) != 1 or not rest or not all(_SUBTAG.fullmatch(part) for part in rest):
        return None
    if len(rest[0]) == 3 and rest[0] in _codes():  # an extended language: zh-yue is yue
        rows = _codes()[rest[0]]
    language = _language(rows[0])
    script = next((part.title() for part in rest if _SCRIPT.fullmatch(part)), None)
    return replace(language, scripts=(script,)) if script else language


def _similar(query: str) -> list[Language]:
    """Languages with a similar name: with the query as a word, else as a prefix or part, else with similar letters."""
    names = _names()
    matches: list[str] = []
    for part in (f" {query} ", f" {query}", query) if len(query) > 2 else ():
        matches = matches or sorted((name for name in names if part in f" {name} "), key=len)
    matches = matches or difflib.get_close_matches(query, names, n=2 * SUGGESTIONS, cutoff=0.7)
    return list(dict.fromkeys(_language(row) for name in matches for row in names[name]))[:SUGGESTIONS]


@lru_cache(maxsize=1024)
def _language(row: int) -> Language:
    languages = table.load()
    return Language(
        code=languages.iso1[row] or languages.iso3[row],
        iso3=languages.iso3[row],
        name=languages.name[row],
        autonym=languages.autonym[row] or None,
        family=tuple(languages.nodes[node] for node in languages.lineage(row)),
        scripts=tuple(languages.scripts[row].split()),
        territory=languages.territory[row] or None,
        area=languages.area[row] or None,
        row=row,
    )


@lru_cache(maxsize=1)
def _codes() -> dict[str, tuple[int, ...]]:
    """Every code and the row it means. Current codes come before withdrawn ones."""
    languages = table.load()
    codes: dict[str, tuple[int, ...]] = {}
    for row, aliases in enumerate(languages.aliases):
        for alias in aliases.split("\t"):
            if re.fullmatch(r"[a-z]{2,3}", alias):
                codes[alias] = (row,)
    for column in (languages.iso3, languages.iso1):
        codes.update((code, (row,)) for row, code in enumerate(column) if code)
    return codes


@lru_cache(maxsize=1)
def _names() -> dict[str, tuple[int, ...]]:
    """Every plain name and the rows it may mean: main names come before own names, and these before other names.

    Where a language and a variety of it share a name, it means the language.
    """
    languages = table.load()
    ranks: dict[str, dict[int, int]] = {}  # by name and row
    for row, aliases in enumerate(languages.aliases):
        for rank, name in enumerate((languages.name[row], languages.autonym[row], *aliases.split("\t"))):
            if name:
                ranks.setdefault(_plain(name), {}).setdefault(row, min(rank, 2))
    names: dict[str, tuple[int, ...]] = {}
    for name, by_row in ranks.items():
        best = min(by_row.values())
        rows = [row for row, rank in by_row.items() if rank == best]
        names[name] = tuple(row for row in rows if int(languages.parent[row]) not in rows)
    return names


def _plain(name: str) -> str:
    """Lower case without accents and punctuation: what a user with an English keyboard types."""
    name = name.casefold().translate(_PLAIN_LETTERS)
    letters = (c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return " ".join(re.sub(r"[^\w\s]", " ", "".join(letters)).split())

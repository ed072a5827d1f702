"""The table of the world's languages, and how to find a language in it by any of its codes, tags and names.

``scripts/build_uriel.py`` builds the table, uriel.npz: URIEL (Littell et al., 2017) gives features and families; IANA
and CLDR give codes and names. Licences and attribution are in ATTRIBUTION.md beside this file.

Everywhere in zgul the code of a language is its ISO 639-1 code if it has one, else its ISO 639-3 code. The paper's Bh
is ``bho``.
"""

import difflib
import re
import unicodedata
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from zgul.errors import ZgulError

TABLE_FILE = Path(__file__).with_name("uriel.npz")
NAMES_FILE = Path(__file__).with_name("names.npz")
SUGGESTIONS = 4
# Letters that Unicode does not decompose into a base letter and a mark.
_PLAIN_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ð": "d", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i"})


@dataclass(frozen=True)
class LanguageTable:
    """Columns over all languages. A language is a row number."""

    iso3: list[str]
    iso1: list[str]  # "" where there is none
    name: list[str]
    autonym: list[str]  # "" where unknown
    aliases: list[str]  # separated by tabs: other names, withdrawn codes
    scripts: list[str]  # ISO 15924 codes separated by spaces, the usual one first
    territory: list[str]  # ISO 3166 code of where most speakers live
    area: list[str]  # continent of that territory
    nodes: list[str]  # names of the family tree's nodes
    feature_names: list[str]
    words: dict[str, str]  # English names of script and territory codes
    node_parent: npt.NDArray[np.int16]  # [nodes]; -1 for a root
    family: npt.NDArray[np.int16]  # [languages]: the node above a language; -1 for none
    parent: npt.NDArray[np.int16]  # [languages]: its macrolanguage, or the language it is a variety of; -1 for none
    has_features: npt.NDArray[np.bool_]  # [languages]
    features: npt.NDArray[np.uint8]  # [languages, 289] of 0 and 1; rows of languages without features are 0

    def lineage(self, row: int) -> tuple[int, ...]:
        """The family nodes above a language, root first."""
        nodes = [int(self.family[row])]
        while nodes[0] >= 0:
            nodes.insert(0, int(self.node_parent[nodes[0]]))
        return tuple(nodes[1:])


@cache
def load_table() -> LanguageTable:
    """Read the table, once per process. Features are stored as bits, only for languages that have some."""
    with np.load(TABLE_FILE) as archive:
        columns: dict[str, Any] = dict(archive)
    for field in fields(LanguageTable):
        if field.type in (list[str], dict[str, str]):
            columns[field.name] = bytes(columns[field.name]).decode("utf-8").split("\n")
    columns["words"] = dict(line.split("\t") for line in columns["words"])
    known = np.unpackbits(columns["has_features"], count=len(columns["iso3"])).astype(bool)
    features = np.zeros((len(known), len(columns["feature_names"])), dtype=np.uint8)
    features[known] = np.unpackbits(columns["features"], axis=1, count=int(known.sum())).T
    return LanguageTable(**columns | {"has_features": known, "features": features})


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
        return tuple(load_table().words.get(script, script) for script in self.scripts)

    @property
    def territory_name(self) -> str | None:
        return load_table().words.get(self.territory, self.territory) if self.territory else None

    def __str__(self) -> str:
        return f"{self.name} ({self.code})"


def find(query: str | Language) -> Language:
    """Return the language that a code, tag or name means. If there is none, a ZgulError makes suggestions.

    ``query`` is an ISO 639-1 or 639-3 code (``fo``, ``fao``), a tag (``sr-Latn``, ``de_CH``), or an English or own
    name (``Faroese``, ``føroyskt``) or one in another language (``färöisch``), in any case, with or without accents.
    Codes come before names.
    """
    if isinstance(query, Language):
        return query
    text = unicodedata.normalize("NFC", query).strip()
    if not text:
        raise ZgulError('No language given. Name one by code or name, for example "fo" or "Faroese".')
    if text.lower() in _codes():
        return _language(_codes()[text.lower()])
    rows = _names().get(plain_name(text)) or _foreign_names().get(plain_name(text), ())
    if len(rows) == 1:
        return _language(rows[0])
    if rows:
        choices = ", ".join(f"{load_table().iso3[row]} ({load_table().name[row]})" for row in rows[:8])
        raise ZgulError(f'"{query}" is the name of several languages; use a code: {choices}.')
    if tagged := _find_tag(text):
        return tagged
    similar = ", ".join(map(str, _similar(plain_name(query))))
    hint = f"Did you mean {similar}?" if similar else "Give its ISO 639 code or its English name."
    raise ZgulError(f'No language is called "{query}". {hint}')


def _find_tag(text: str) -> Language | None:
    """Find ``sr-Latn``, ``de_CH`` or ``zh-yue``: the language, written in the script that the tag names."""
    first, *rest = re.split(r"[-_]", text.lower())
    if first not in _codes() or not rest or not all(re.fullmatch(r"[a-z0-9]{1,8}", part) for part in rest):
        return None
    extended = len(rest[0]) == 3 and rest[0] in _codes()  # zh-yue is yue
    language = _language(_codes()[rest[0] if extended else first])
    script = next((part.title() for part in rest if re.fullmatch(r"[a-z]{4}", part)), None)
    return replace(language, scripts=(script,)) if script else language


def _similar(query: str) -> list[Language]:
    """Languages with a similar name: with the query as a word, else as a prefix or part, else with similar letters."""
    names = _foreign_names() | _names()
    matches: list[str] = []
    for part in (f" {query} ", f" {query}", query) if len(query) > 2 else ():
        matches = matches or sorted((name for name in names if part in f" {name} "), key=len)
    matches = matches or difflib.get_close_matches(query, names, n=2 * SUGGESTIONS, cutoff=0.7)
    return list(dict.fromkeys(_language(row) for name in matches for row in names[name]))[:SUGGESTIONS]


@cache
def _language(row: int) -> Language:
    table = load_table()
    iso3, family = table.iso3[row], tuple(table.nodes[node] for node in table.lineage(row))
    scripts = tuple(table.scripts[row].split())
    autonym, territory, area = (column[row] or None for column in (table.autonym, table.territory, table.area))
    return Language(table.iso1[row] or iso3, iso3, table.name[row], autonym, family, scripts, territory, area, row)


@cache
def _codes() -> dict[str, int]:
    """Every code and the row it means. Current codes come before withdrawn ones."""
    table = load_table()
    aliases = ((alias, row) for row, aliases in enumerate(table.aliases) for alias in aliases.split("\t"))
    codes = {alias: row for alias, row in aliases if re.fullmatch(r"[a-z]{2,3}", alias)}
    for column in (table.iso3, table.iso1):
        codes.update((code, row) for row, code in enumerate(column) if code)
    return codes


@cache
def _names() -> dict[str, tuple[int, ...]]:
    """Every plain name and the rows it may mean: main names come before own names, and these before other names."""
    table = load_table()
    ranks: dict[str, dict[int, int]] = {}  # by name and row
    for row, aliases in enumerate(table.aliases):
        for rank, name in enumerate((table.name[row], table.autonym[row], *aliases.split("\t"))):
            if name:
                ranks.setdefault(plain_name(name), {}).setdefault(row, min(rank, 2))
    names: dict[str, tuple[int, ...]] = {}
    for name, by_row in ranks.items():
        rows = [row for row, rank in by_row.items() if rank == min(by_row.values())]
        names[name] = tuple(row for row in rows if int(table.parent[row]) not in rows)  # without varieties of another
    return names


@cache
def _foreign_names() -> dict[str, tuple[int, ...]]:
    """Plain names in other languages, of ``scripts/build_names.py``. They are read when other names do not help."""
    row_of = {code: row for row, code in enumerate(load_table().iso3)}
    names: dict[str, tuple[int, ...]] = {}
    if NAMES_FILE.is_file():
        with np.load(NAMES_FILE) as archive:
            lines = bytes(archive["names"]).decode("utf-8").split("\n")
        for code, *others in (line.split("\t") for line in lines):
            names |= {name: (*names.get(name, ()), row_of[code]) for name in others}
    return names


def plain_name(name: str) -> str:
    """Lower case without accents and punctuation: what a user with an English keyboard types."""
    name = name.casefold().translate(_PLAIN_LETTERS)
    letters = (c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return " ".join(re.sub(r"[^\w\s]", " ", "".join(letters)).split())

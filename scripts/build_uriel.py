"""Build src/zgul/languages/uriel.npz: the world's languages in one small table.

    python scripts/build_uriel.py                  # downloads the four wheels from PyPI
    python scripts/build_uriel.py --wheels DIR     # takes them from a folder

Four wheels are read, none is needed at run time:

- lang2vec 1.1.2 (CC BY-SA 4.0): the URIEL features (the ``knn`` predictions) and family membership
- urielplus 1.3.2 (CC BY-SA 4.0): Glottolog's lineage, where URIEL leaves the family of a language empty
- language_data 1.4.0 (MIT): IANA's registry of codes and English names; CLDR's scripts and regions
- babel 2.18.0 (BSD): CLDR's English names, own names, likely script and territory

src/zgul/languages/language.py, which reads the table, describes its contents.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from zgul.files import atomic_write

TARGET = Path(__file__).resolve().parents[1] / "src/zgul/languages/uriel.npz"
WHEELS = {"lang2vec": "1.1.2", "urielplus": "1.3.2", "language_data": "1.4.0", "babel": "2.18.0"}
FEATURE_SETS = ("S_", "P_", "INV_")  # syntax, phonology, inventory: the order of the paper and of the table
AREAS = {"002": "Africa", "019": "Americas", "142": "Asia", "150": "Europe", "009": "Oceania"}
NOT_LANGUAGES = {"mis", "mul", "und", "zxx"}

# Languages of treebanks that have no ISO 639-3 code (qaa to qtz are for private use): name, scripts, territory.
PRIVATE = {"qpm": ("Pomak", ("Cyrl", "Latn"), "GR")}
# Names that linguists and the paper use for a language, where CLDR prefers another name.
NAMES = {
    "ben": "Bengali",
    "chu": "Old Church Slavonic",
    "lug": "Luganda",
    "orv": "Old East Slavic",
}
# Names and codes that people write and that no registry lists: bh is the paper's code of Bhojpuri.
MORE_ALIASES = {
    "bho": ("bh",),
    "gsw": ("Alemannic German",),
    "pcm": ("Naija", "Pidgin"),
}


@dataclass
class Row:
    """One language on its way into the table."""

    iso3: str
    iso1: str = ""
    name: str = ""
    autonym: str = ""
    aliases: list[str] = field(default_factory=list)
    scripts: tuple[str, ...] = ()
    territory: str = ""
    area: str = ""
    lineage: tuple[str, ...] = ()  # root first
    parent: str = ""  # ISO 639-3 of the macrolanguage, or of the language it is a variety of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--wheels", type=Path, help="folder that holds the wheels (default: download)")
    parser.add_argument("--output", type=Path, default=TARGET)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        unpacked = unpack(arguments.wheels, Path(folder))
        rows, features, feature_names, nodes = collect(unpacked)
        words = read_code_names(rows)
    save(arguments.output, rows, features, feature_names, nodes, words)
    print(f"{arguments.output}: {len(rows)} languages, {arguments.output.stat().st_size:,} bytes")


def unpack(wheels: Path | None, folder: Path) -> Path:
    """Download what is missing and unpack all wheels into one folder, without installing them."""
    if wheels is None:
        wheels = folder / "wheels"
        pins = [f"{name}=={version}" for name, version in WHEELS.items()]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), *pins],
            check=True,
        )
    for name, version in WHEELS.items():
        found = sorted(wheels.glob(f"{name}-{version}-*.whl"))
        if not found:
            sys.exit(f"{wheels} holds no wheel of {name} {version}")
        zipfile.ZipFile(found[0]).extractall(folder)
    sys.path.insert(0, str(folder))
    return folder


def collect(folder: Path) -> tuple[list[Row], dict[str, Any], list[str], dict[str, str]]:
    """All rows in the order of their codes, their features, and the family tree (node -> parent)."""
    features, feature_names = read_features(folder)
    lineages, nodes = read_families(folder)
    two_letters, bibliographic = read_letter_codes(folder)
    registry, withdrawn, replaced = read_registry(folder)
    glottolog = read_glottolog(folder)

    known = {two_letters.get(code, code) for code in registry} | set(features) | set(PRIVATE)
    rows = {code: Row(code) for code in sorted(known - set(bibliographic) - NOT_LANGUAGES)}
    for short, code in two_letters.items():
        if code in rows and short in registry:
            rows[code].iso1 = short
    for row in rows.values():
        entry = registry.get(row.iso1 or row.iso3, {})
        row.aliases = list(entry.get("Description", [])) or glottolog.names(row.iso3)
        row.aliases = row.aliases or [f"{withdrawn.get(row.iso3, row.iso3)} (withdrawn code)"]
        if row.iso3 in PRIVATE:
            row.aliases = [PRIVATE[row.iso3][0]]
        full_lineage = glottolog.lineage(row.iso3, row.aliases)
        row.lineage = lineages.get(row.iso3) or tuple(node for node in full_lineage if node in nodes)
        macro = entry.get("Macrolanguage", [""])[0]
        row.parent = two_letters.get(macro, macro) or glottolog.language_above(full_lineage)
    add_cldr(folder, rows)
    for old, new in [*bibliographic.items(), *replaced.items()]:
        if (code := two_letters.get(new, new)) in rows and old not in rows:
            rows[code].aliases.append(old)
    for code, (_, scripts, _) in PRIVATE.items():
        rows[code].scripts = scripts
    for code, names in MORE_ALIASES.items():
        rows[code].aliases += names
    for row in rows.values():
        finish(row, rows)
    kept = [rows[code] for code in sorted(rows) if rows[code].name and is_placed(rows[code], rows, features)]
    return kept, features, feature_names, nodes


def is_placed(row: Row, rows: dict[str, Row], features: dict[str, Any]) -> bool:
    """Whether a language has features, or a relative that has some. Nothing useful is known about the others."""
    if row.iso3 in features or row.parent in features:
        return True
    return any(row.lineage[:1] == rows[code].lineage[:1] != () for code in features if code in rows)


def finish(row: Row, rows: dict[str, Row]) -> None:
    """Let a variety inherit unknown values from its parent, and make the first name the main name."""
    parent = rows.get(row.parent)
    row.parent = parent.iso3 if parent else ""
    if parent:
        row.lineage = row.lineage or parent.lineage
        row.territory, row.area = (row.territory, row.area) if row.area else (parent.territory, parent.area)
        row.scripts = row.scripts or parent.scripts
    names = [row.name] if row.name else []
    names += [name for name in row.aliases if name not in names]
    row.name = row.name or (names[0] if names else "")
    plain = [re.sub(r"\s*\(.*?\)", "", name) for name in names]  # "Luo (Kenya and Tanzania)" is also "Luo"
    row.aliases = [name for name in dict.fromkeys(names[1:] + plain) if name and name != row.name]


def read_features(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """URIEL's features as bits: the ``knn`` predictions are all 0 or 1, so nothing is lost."""
    archive = np.load(folder / "lang2vec/data/feature_predictions.npz")
    names = [str(name) for name in archive["feats"]]
    order = [i for prefix in FEATURE_SETS for i, name in enumerate(names) if name.startswith(prefix)]
    data = archive["data"][:, order, 0]
    if not np.isin(data, (0, 1)).all() or len(order) != 289:
        sys.exit("the features are not the 289 binary ones this table is made for")
    return dict(zip(map(str, archive["langs"]), data > 0, strict=True)), [names[i] for i in order]


def read_families(folder: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Each language's lineage, root first, and the tree that the lineages make up (node -> parent)."""
    archive = np.load(folder / "lang2vec/data/family_features.npz")
    names = [str(name).removeprefix("F_") for name in archive["feats"]]
    lineages: dict[str, tuple[str, ...]] = {}
    parents: dict[str, str] = {}
    for code, member in zip(archive["langs"], archive["data"][:, :, 0] > 0, strict=True):
        lineage = tuple(names[i] for i in np.flatnonzero(member))  # URIEL lists ancestors first
        for parent, node in zip(("", *lineage), lineage, strict=False):
            if parents.setdefault(node, parent) != parent:
                sys.exit(f"family node {node} has two parents: {parent} and {parents[node]}")
        lineages[str(code)] = lineage
    return lineages, parents


def read_letter_codes(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """ISO 639-1 and the bibliographic codes of ISO 639-2 (``ger``), each to ISO 639-3."""
    codes = json.loads((folder / "lang2vec/data/letter_codes.json").read_text(encoding="utf-8"))
    short = {code: iso3 for code, iso3 in codes.items() if len(code) == 2}
    return short, {code: iso3 for code, iso3 in codes.items() if len(code) == 3}


def read_registry(folder: Path) -> tuple[dict[str, dict[str, list[str]]], dict[str, str], dict[str, str]]:
    """IANA's languages in use by subtag; names of the withdrawn codes; and what replaced them, if one code did."""
    text = (folder / "language_data/data/language-subtag-registry.txt").read_text(encoding="utf-8")
    languages: dict[str, dict[str, list[str]]] = {}
    withdrawn: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for record in re.sub(r"\n  +", " ", text).split("%%\n"):  # long lines continue after two spaces
        entry = defaultdict(list)
        for line in record.splitlines():
            key, _, value = line.partition(": ")
            entry[key].append(value)
        if entry["Type"] != ["language"]:
            continue
        code = entry["Subtag"][0]
        if entry["Deprecated"]:
            withdrawn[code] = entry["Description"][0]
            if entry["Preferred-Value"]:
                replaced[code] = entry["Preferred-Value"][0]
        elif entry["Scope"] in ([], ["macrolanguage"]):
            languages[code] = dict(entry)
    return languages, withdrawn, replaced


@dataclass
class Glottolog:
    """Glottolog's names and lineages (root first), as URIEL+ carries them."""

    by_iso3: dict[str, tuple[str, tuple[str, ...]]]
    by_name: dict[str, tuple[str, ...]]  # only names that one language has

    def __post_init__(self) -> None:
        self._iso3_of = {entry: iso3 for iso3, entry in self.by_iso3.items()}

    def names(self, iso3: str) -> list[str]:
        return [self.by_iso3[iso3][0]] if iso3 in self.by_iso3 else []

    def lineage(self, iso3: str, names: list[str]) -> tuple[str, ...]:
        if iso3 in self.by_iso3:
            return self.by_iso3[iso3][1]
        return next((self.by_name[name] for name in names if name in self.by_name), ())

    def language_above(self, lineage: tuple[str, ...]) -> str:
        """The language that a variety belongs to: the lineage of Pomak contains Bulgarian."""
        above = [self._iso3_of.get((node, lineage[:i]), "") for i, node in enumerate(lineage)]
        return next((iso3 for iso3 in reversed(above) if iso3), "")


def read_glottolog(folder: Path) -> Glottolog:
    base = folder / "urielplus/database/urielplus_csvs"
    codes = {row["iso_code"]: row["glottocode"] for row in read_csv(base / "uriel_glottocode_map.csv")}
    codes |= {row["Language Iso"]: row["Language Glot"] for row in read_csv(base / "dialects.csv")}
    entries = {
        row["language_id"]: (row["language_name"], tuple(row["lineage"].split(", ")))
        for row in read_csv(base / "lang_fam_geo.csv")
    }
    count = Counter(name for name, _ in entries.values())
    return Glottolog(
        by_iso3={iso3: entries[code] for iso3, code in codes.items() if iso3 and code in entries},
        by_name={name: lineage for name, lineage in entries.values() if count[name] == 1},
    )


def read_csv(path: Path) -> Iterable[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def add_cldr(folder: Path, rows: dict[str, Row]) -> None:
    """English and own names, scripts, main territory and continent from CLDR."""
    from babel import Locale, UnknownLocaleError
    from babel.core import get_global

    supplemental = ElementTree.parse(folder / "language_data/data/supplementalData.xml").getroot()
    area_of = read_areas(supplemental)
    scripts: dict[str, list[str]] = defaultdict(list)
    for element in supplemental.iterfind("languageData/language"):
        scripts[element.attrib["type"]] += element.attrib.get("scripts", "").split()
    likely = get_global("likely_subtags")
    english = Locale("en").languages
    own_names, english_names = read_more_names(folder)
    for row in rows.values():
        code = row.iso1 or row.iso3
        row.name = NAMES.get(row.iso3) or english.get(code, "")
        row.aliases += [english[code]] if code in english else []
        _, script, territory = likely.get(code, "__").split("_")[:3]
        row.scripts = tuple(dict.fromkeys([script] * bool(script) + scripts[code]))
        territory = PRIVATE[row.iso3][2] if row.iso3 in PRIVATE else territory
        row.territory, row.area = territory, area_of.get(territory, "")
        try:
            own = Locale(code).languages.get(code, "")
        except UnknownLocaleError:
            own = ""
        names = [own] * bool(own) + own_names[code]
        row.autonym = names[0] if names else ""
        row.aliases += names[1:] + english_names[code]


def read_code_names(rows: list[Row]) -> dict[str, str]:
    """English names of the scripts and territories that occur: ``Latn`` is Latin, ``FO`` Faroe Islands."""
    from babel import Locale

    english = Locale("en")
    codes = {code for row in rows for code in (*row.scripts, row.territory) if code}
    names = {**english.scripts, **english.territories}
    return {code: names[code] for code in sorted(codes) if code in names}


def read_areas(supplemental: ElementTree.Element) -> dict[str, str]:
    """Territory -> continent, by following CLDR's containment (the UN's M49 regions) upwards."""
    inside: dict[str, str] = {}
    for group in supplemental.iterfind("territoryContainment/group"):
        if not {"status", "grouping"} & set(group.attrib):
            inside |= dict.fromkeys(group.attrib["contains"].split(), group.attrib["type"])
    areas = {}
    for territory in inside:
        region = territory
        while region in inside and region not in AREAS:
            region = inside[region]
        areas[territory] = AREAS.get(region, "")
    return areas


def read_more_names(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """language_data's additions to CLDR, own and English names: ``named in, language, name`` a line."""
    own: dict[str, list[str]] = defaultdict(list)
    english: dict[str, list[str]] = defaultdict(list)
    text = (folder / "language_data/data/extra_language_names.csv").read_text(encoding="utf-8")
    for named_in, code, name in csv.reader(io.StringIO(text)):
        if named_in == code:
            own[code].append(name)
        elif named_in == "en":
            english[code].append(name)
    return own, english


def save(
    path: Path,
    rows: list[Row],
    features: dict[str, Any],
    feature_names: list[str],
    nodes: dict[str, str],
    words: dict[str, str],
) -> None:
    """Write the table: bits for features, a tree for families, one text column per kind of string."""
    node_ids = {node: i for i, node in enumerate(nodes)}
    index = {row.iso3: i for i, row in enumerate(rows)}
    has_features = np.array([features.get(row.iso3) is not None for row in rows])
    bits = np.array([features[row.iso3] for row in rows if features.get(row.iso3) is not None])
    columns = {
        "iso3": [row.iso3 for row in rows],
        "iso1": [row.iso1 for row in rows],
        "name": [row.name for row in rows],
        "autonym": [row.autonym for row in rows],
        "aliases": ["\t".join(row.aliases) for row in rows],
        "scripts": [" ".join(row.scripts) for row in rows],
        "territory": [row.territory for row in rows],
        "area": [row.area for row in rows],
        "nodes": list(nodes),
        "feature_names": feature_names,
        "words": [f"{code}\t{name}" for code, name in words.items()],
    }
    arrays: dict[str, Any] = {
        "features": np.packbits(bits.T, axis=1),  # a row per feature: neighbours in code order compress better
        "has_features": np.packbits(has_features),
        "node_parent": np.array([node_ids.get(parent, -1) for parent in nodes.values()], dtype=np.int16),
        "family": np.array([node_ids[row.lineage[-1]] if row.lineage else -1 for row in rows], dtype=np.int16),
        "parent": np.array([index.get(row.parent, -1) for row in rows], dtype=np.int16),
    }
    for name, text in columns.items():
        arrays[name] = np.frombuffer("\n".join(text).encode(), dtype=np.uint8)
    with atomic_write(path, "wb") as file:
        np.savez_compressed(file, **arrays)


if __name__ == "__main__":
    main()

"""The table of the world's languages, uriel.npz, which scripts/build_uriel.py builds.

URIEL (Littell et al., 2017) gives features and families; IANA and CLDR give codes and names. Licences and
attribution are in ATTRIBUTION.md beside this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PATH = Path(__file__).with_name("uriel.npz")
_TEXTS = ("iso3", "iso1", "name", "autonym", "aliases", "scripts", "territory", "area", "nodes", "feature_names")
_ARRAYS = ("node_parent", "family", "parent")


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
    packed_features: npt.NDArray[np.uint8]  # [features, bits of the languages that have features]
    packed_has_features: npt.NDArray[np.uint8]

    @cached_property
    def has_features(self) -> npt.NDArray[np.bool_]:
        return np.unpackbits(self.packed_has_features, count=len(self.iso3)).astype(bool)

    @cached_property
    def features(self) -> npt.NDArray[np.uint8]:
        """[languages, 289] of 0 and 1. Rows of languages without features are 0."""
        known = np.unpackbits(self.packed_features, axis=1, count=int(self.has_features.sum())).T
        features = np.zeros((len(self.iso3), known.shape[1]), dtype=np.uint8)
        features[self.has_features] = known
        return features

    def lineage(self, row: int) -> tuple[int, ...]:
        """The family nodes above a language, root first."""
        nodes: list[int] = []
        node = int(self.family[row])
        while node >= 0:
            nodes.append(node)
            node = int(self.node_parent[node])
        return tuple(reversed(nodes))


@lru_cache(maxsize=1)
def load() -> LanguageTable:
    """Read the table, once per process."""
    with np.load(PATH) as archive:
        texts = {name: bytes(archive[name]).decode("utf-8").split("\n") for name in (*_TEXTS, "words")}
        columns: dict[str, Any] = {name: texts[name] for name in _TEXTS}
        columns |= {name: archive[name] for name in _ARRAYS}
        return LanguageTable(
            **columns,
            words=dict(line.split("\t") for line in texts["words"]),
            packed_features=archive["features"],
            packed_has_features=archive["has_features"],
        )

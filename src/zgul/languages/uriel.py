"""URIEL's typological features, the language vectors ``lf`` of the paper's Lang2Vec module.

``syntax`` are the 103 ``syntax_knn`` features that the paper uses; ``all`` adds the 28 of ``phonology_knn``
and the 158 of ``inventory_knn``. All are 0 or 1.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from zgul.errors import ZgulError, ZgulWarning
from zgul.languages import table
from zgul.languages.language import Language, find

FeatureSet = Literal["syntax", "all"]
SIZES: dict[str, int] = {"syntax": 103, "all": 289}


def features(language: str | Language, kind: FeatureSet = "syntax") -> npt.NDArray[np.float32]:
    """The language's vector [103] or [289]; a language without one is given its closest relative's."""
    size = _size(kind)
    row = find(language).row
    if not table.load().has_features[row]:
        row = _stand_in(row)
    return table.load().features[row, :size].astype(np.float32)


def feature_names(kind: FeatureSet = "syntax") -> list[str]:
    """URIEL's names of the columns, in the order of ``features``."""
    return table.load().feature_names[: _size(kind)]


def closest_relative(language: str | Language) -> Language:
    """The closest language by family tree that has features; a ZgulError for a language with no relatives.

    First what it is a variety of (Pomak: Bulgarian), else whoever shares most of its lineage; of several,
    the one that hangs least deep below the common ancestor, then a larger one (with an ISO 639-1 code).
    """
    found = find(language)
    languages = table.load()
    parent = int(languages.parent[found.row])
    if parent >= 0 and languages.has_features[parent]:
        return find(languages.iso3[parent])
    lineage = languages.lineage(found.row)
    best: tuple[int, int, int, str] | None = None
    for row in np.flatnonzero(languages.has_features):
        other = languages.lineage(int(row))
        shared = len(set(lineage) & set(other))
        if not shared or row == found.row:
            continue
        key = (-shared, len(other), int(not languages.iso1[row]), languages.iso3[row])
        best = key if best is None else min(best, key)
    if best is None:
        raise ZgulError(f"{found} stands alone in its family tree: there is no relative that has features.")
    return find(best[-1])


def _size(kind: str) -> int:
    if kind not in SIZES:
        raise ZgulError(f'There is no feature set "{kind}"; choose "syntax" or "all".')
    return SIZES[kind]


@cache  # also so that the user is told once per language
def _stand_in(row: int) -> int:
    language = find(table.load().iso3[row])
    relative = closest_relative(language)
    warnings.warn(
        f"URIEL has no features of {language}; those of its closest relative {relative} are used",
        ZgulWarning,
        stacklevel=3,
    )
    return relative.row

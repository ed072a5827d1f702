"""URIEL's typological features, the language vectors ``lf`` of the paper's Lang2Vec module.

``syntax`` are the 103 ``syntax_knn`` features that the paper uses. ``all`` adds the 28 of ``phonology_knn`` and the
158 of ``inventory_knn``. All are 0 or 1.
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
    """Return the vector of a language, [103] or [289]. A language without features gets its closest relative's."""
    size = _size(kind)
    return table.load().features[feature_source(find(language).iso3).row, :size].astype(np.float32)


def feature_names(kind: FeatureSet = "syntax") -> list[str]:
    """URIEL's names of the columns, in the order of ``features``."""
    return table.load().feature_names[: _size(kind)]


@cache  # so that the warning comes once per language
def feature_source(language: str) -> Language:
    """Return the language whose features are used: the language itself or, with a warning, its closest relative."""
    own = find(language)
    if table.load().has_features[own.row]:
        return own
    relative = closest_relative(own)
    problem = f"URIEL has no features of {own}; those of its closest relative {relative} are used"
    warnings.warn(problem, ZgulWarning, stacklevel=3)
    return relative


def closest_relative(language: str | Language) -> Language:
    """Return the closest language by family tree that has features; a ZgulError for a language without relatives.

    It is the language of which the given one is a variety (Pomak: Bulgarian). Otherwise it is the language that shares
    most of its lineage; of several, the one that lies least deep below the common ancestor, then one with an ISO 639-1
    code.
    """
    own = find(language)
    languages = table.load()
    parent = int(languages.parent[own.row])
    if parent >= 0 and languages.has_features[parent]:
        return find(languages.iso3[parent])
    lineage = set(languages.lineage(own.row))
    ranks: list[tuple[int, int, bool, str]] = []
    for row in np.flatnonzero(languages.has_features):
        other = languages.lineage(int(row))
        shared = len(lineage.intersection(other))
        if shared and row != own.row:
            ranks.append((-shared, len(other), not languages.iso1[row], languages.iso3[row]))
    if not ranks:
        raise ZgulError(f"{own} stands alone in its family tree: there is no relative that has features.")
    return find(min(ranks)[-1])


def _size(kind: str) -> int:
    if kind not in SIZES:
        raise ZgulError(f'There is no feature set "{kind}"; choose "syntax" or "all".')
    return SIZES[kind]

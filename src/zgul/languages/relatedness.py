"""URIEL's typological features, and the relatedness of languages as in the paper's appendix.

The features are the language vectors ``lf`` of the paper's Lang2Vec module: ``syntax`` are the 103 ``syntax_knn``
features that the paper uses, ``all`` adds the 28 of ``phonology_knn`` and the 158 of ``inventory_knn``. All are 0 or 1.
"""

import warnings
from collections.abc import Iterable
from functools import cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from zgul.errors import ZgulError, ZgulWarning
from zgul.languages.language import Language, find, load_table

Kind = Literal["average", "genetic", "syntactic"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FeatureSet = Literal["syntax", "all"]
SIZES: dict[str, int] = {"syntax": 103, "all": 289}


def features(language: str | Language, kind: FeatureSet = "syntax") -> npt.NDArray[np.float32]:
    """Return the vector of a language, [103] or [289]. A language without features gets its closest relative's."""
    if kind not in SIZES:
        raise ZgulError(f'There is no feature set "{kind}"; choose "syntax" or "all".')
    own = find(language)
    relative = feature_source(own)
    if relative != own:
        problem = f"URIEL has no features of {own}; those of its closest relative {relative} are used"
        warnings.warn(problem, ZgulWarning, stacklevel=2)
    return load_table().features[relative.row, : SIZES[kind]].astype(np.float32)


def feature_names(kind: FeatureSet = "syntax") -> list[str]:
    """URIEL's names of the columns, in the order of ``features``."""
    return load_table().feature_names[: SIZES[kind]]


def feature_source(language: str | Language) -> Language:
    """Return the language whose features are used: the language itself or, if it has none, its closest relative."""
    own = find(language)
    return own if load_table().has_features[own.row] else closest_relative(own.iso3)


@cache
def closest_relative(language: str) -> Language:
    """Return the closest language by family tree that has features. No such relative is a ZgulError."""
    own = find(language)
    table = load_table()
    parent = int(table.parent[own.row])
    if parent >= 0 and table.has_features[parent]:  # the language of which this one is a variety (Pomak: Bulgarian)
        return find(table.iso3[parent])
    lineage = set(table.lineage(own.row))
    others = {int(row): table.lineage(int(row)) for row in np.flatnonzero(table.has_features) if row != own.row}
    shared = {row: len(lineage.intersection(nodes)) for row, nodes in others.items()}
    # most shared ancestors, then least deep below the common one, then one with an ISO 639-1 code
    ranks = [(-n, len(others[row]), not table.iso1[row], table.iso3[row]) for row, n in shared.items() if n]
    if not ranks:
        raise ZgulError(f"{own} has no features, and no relative with features. Use the name of a similar language.")
    return find(min(ranks)[-1])


def similarity(a: str | Language, b: str | Language, kind: Kind = "average") -> float:
    """Cosine of the family vectors (a 1 for each node above the language), of the syntax vectors, or the average."""
    if kind not in KINDS:
        raise ZgulError(f'There is no similarity "{kind}"; choose one of {", ".join(KINDS)}.')
    if kind == "average":
        return (similarity(a, b, "genetic") + similarity(a, b, "syntactic")) / 2
    a, b = find(a), find(b)
    if kind == "syntactic":
        x, y = (load_table().features[feature_source(one).row, : SIZES["syntax"]].astype(np.float32) for one in (a, b))
        return min(1.0, float(x @ y) / float(np.sqrt((x @ x) * (y @ y))))
    if a.iso3 == b.iso3:
        return 1.0  # also for isolates, which have no family vector
    return shared_ancestors(a, b) / max(1.0, float(np.sqrt(len(a.family) * len(b.family))))


def shared_ancestors(a: str | Language, b: str | Language) -> int:
    """Count the nodes of the family tree above both languages."""
    table = load_table()
    return len(set(table.lineage(find(a).row)) & set(table.lineage(find(b).row)))


def most_related(target: str | Language, sources: Iterable[str | Language]) -> str:
    """Return the code of the source with the highest average similarity (the paper's Rel); of equals, the first."""
    candidates = [find(source) for source in sources]
    if not candidates:
        raise ZgulError("No source languages given. Name at least one.")
    return max(candidates, key=lambda source: similarity(target, source)).code

"""Relatedness of languages, as in the paper's appendix: genetic, syntactic, and the average of both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from zgul.errors import ZgulError
from zgul.languages import table
from zgul.languages.language import Language, find
from zgul.languages.uriel import features

Kind = Literal["average", "genetic", "syntactic"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def similarity(a: str | Language, b: str | Language, kind: Kind = "average") -> float:
    """Cosine of the family vectors, of the syntax vectors, or the average of both: 0 unlike, 1 alike.

    A family vector has a 1 for each node of the family tree above the language. So the genetic similarity is the
    number of shared ancestors over the geometric mean of how many each language has.
    """
    a, b = find(a), find(b)
    if kind == "genetic":
        return _genetic(a, b)
    if kind == "syntactic":
        return _cosine(features(a), features(b))
    if kind == "average":
        return (_genetic(a, b) + _cosine(features(a), features(b))) / 2
    raise ZgulError(f'There is no similarity "{kind}"; choose one of {", ".join(KINDS)}.')


def shared_ancestors(a: str | Language, b: str | Language) -> int:
    """Count the nodes of the family tree above both languages."""
    languages = table.load()
    return len(set(languages.lineage(find(a).row)) & set(languages.lineage(find(b).row)))


def most_related(target: str | Language, sources: Iterable[str | Language]) -> str:
    """Return the code of the source with the highest average similarity (the paper's Rel); of equals the first."""
    candidates = [find(source) for source in sources]
    if not candidates:
        raise ZgulError("No source languages given: there is nothing to be related to.")
    return max(candidates, key=lambda source: similarity(target, source)).code


def _genetic(a: Language, b: Language) -> float:
    if a.iso3 == b.iso3:
        return 1.0  # also for isolates, which have no family vector
    if not a.family or not b.family:
        return 0.0
    return shared_ancestors(a, b) / float(np.sqrt(len(a.family) * len(b.family)))


def _cosine(x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> float:
    return min(1.0, float(x @ y) / float(np.sqrt((x @ x) * (y @ y))))

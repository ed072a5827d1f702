"""Which language a text is in, among the sources and targets of zgul's taggers: naive Bayes over character n-grams.

A word is lower-cased, put between blanks and cut into all its n-grams of up to ``LONGEST`` characters. The table
``langid.npz`` (made by ``scripts/build_langid.py``) holds, for the n-grams that tell the languages apart, the log of
how much more often than the average each language uses them. N-grams of one word are not independent, so the sum
is scaled by ``scale · n^-damping`` before the softmax, with both numbers fitted so that the probability means what
it says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import regex

from zgul.errors import ZgulError

LONGEST = 5
STEP = 1 / 12  # of the table's 8-bit numbers
MAX_WORDS = 2000  # enough to be sure
TABLE = Path(__file__).with_name("langid.npz")

_WORD = regex.compile(r"[\p{L}\p{M}’'ʼ-]+")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Guess:
    """A language and the probability that the text is in it, given that it is in one of those known."""

    code: str
    probability: float


@dataclass(frozen=True)
class Model:
    """The table and how its sums become probabilities."""

    languages: list[str]
    rows: dict[str, int]  # n-gram -> row
    table: npt.NDArray[np.int8]  # [n-grams, languages], in STEPs
    scale: float
    damping: float

    def sums(self, text: str) -> tuple[Floats, int]:
        """Log-likelihood ratios [languages] and the number of known n-grams."""
        counts = Counter(ngrams(words(text)))
        known = [(self.rows[gram], count) for gram, count in counts.items() if gram in self.rows]
        if not known:
            return np.zeros(len(self.languages)), 0
        index, times = np.array(known).T
        total: Floats = times @ self.table[index].astype(np.float64) * STEP
        return total, int(times.sum())

    def guesses(self, text: str) -> list[Guess]:
        """All languages, the likeliest first; none if nothing in the text is known."""
        total, count = self.sums(text)
        if not count:
            return []
        probabilities = softmax(total[None] * self.scale * count**-self.damping)[0]
        order = np.argsort(-probabilities, kind="stable")
        return [Guess(self.languages[i], float(probabilities[i])) for i in order]


def guess(text: str) -> list[Guess]:
    """The languages that a text may be in, the likeliest first."""
    found = load().guesses(text)
    if not found:
        raise ZgulError(
            "The language cannot be guessed: the text has no letters of any language that zgul knows by sight "
            f"({' '.join(load().languages)}). Name it with --lang."
        )
    return found


def words(text: str) -> list[str]:
    return [match.group() for match, _ in zip(_WORD.finditer(text.lower()), range(MAX_WORDS), strict=False)]


def ngrams(found: Iterable[str]) -> Iterable[str]:
    """All n-grams of the words."""
    for word in found:
        padded = f" {word} "
        for length in range(1, LONGEST + 1):
            for start in range(len(padded) - length + 1):
                gram = padded[start : start + length]
                if gram != " ":
                    yield gram


def softmax(scores: Floats) -> Floats:
    """Over the last axis."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Floats = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return result


@lru_cache(maxsize=1)
def load() -> Model:
    """The table that comes with the package."""
    with np.load(TABLE) as file:
        grams = bytes(file["grams"]).decode("utf-8").split("\n")
        languages = bytes(file["languages"]).decode("utf-8").split()
        scale, damping = map(float, file["calibration"])
        return Model(languages, {gram: row for row, gram in enumerate(grams)}, file["table"], scale, damping)


def save(model: Model, path: Path = TABLE) -> None:
    """Write the table."""
    from zgul.files import atomic_write

    with atomic_write(path, "wb") as file:
        np.savez_compressed(
            file,
            grams=np.frombuffer("\n".join(model.rows).encode("utf-8"), np.uint8),
            languages=np.frombuffer(" ".join(model.languages).encode("utf-8"), np.uint8),
            table=model.table,
            calibration=np.array([model.scale, model.damping]),
        )

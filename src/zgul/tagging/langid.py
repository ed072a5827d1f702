"""Guess which language a text is in, among the sources and targets of zgul's taggers: naive Bayes over n-grams.

A word is lower-cased, put between blanks and cut into all its n-grams of up to ``LONGEST`` characters. The table
``langid.npz`` (made by ``scripts/build_langid.py``) has a row for each n-gram that tells languages apart: the log of
how much more often than the average each language uses it. N-grams of one word are not independent, so the sum of the
rows is scaled by ``scale · n^-damping`` before the softmax. Both numbers were fitted so that the probability is
calibrated.
"""

import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import regex

from zgul.errors import ZgulError, ZgulWarning
from zgul.languages import find, similarity

LONGEST = 5
STEP = 1 / 12  # of the table's 8-bit numbers
MAX_WORDS = 2000  # enough to be sure
SURE_ENOUGH = 0.8  # the probability from which on a guess needs no warning
NO_SCRIPT = {"MODIFIER", "MASCULINE", "FEMININE", "MICRO"}  # first words of letters that all scripts share
SCRIPT_SHARE = 0.1  # of a language's n-grams; fewer are loans
TABLE = Path(__file__).with_name("langid.npz")

_WORD = regex.compile(r"[\p{L}\p{M}’'ʼ-]+")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Guess:
    """A language, and the probability that the text is in it if it is in one of the known languages."""

    code: str
    probability: float


@dataclass(frozen=True)
class NgramTable:
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
    guesses = load().guesses(text)
    if not guesses:
        known = " ".join(load().languages)
        problem = f"the text has no letters of any language that zgul can recognise ({known})"
        raise ZgulError(f"The language cannot be guessed: {problem}. Name it with --lang.")
    return guesses


def warn_of(looks_like: str, language: str) -> None:
    """Warn if a text looks like another language than its own.

    Text in a language that cannot be recognised looks like one of its relatives. Then only a stranger is a reason.
    """
    known = load().languages
    related = max(similarity(language, code, "genetic") for code in known)
    strange = language in known or similarity(language, looks_like, "genetic") < related / 2
    if looks_like != language and strange:
        problem = f"The text looks like {find(looks_like)}, not like {find(language)}"
        warnings.warn(f"{problem}. If it is, stop: the result would be of no use.", ZgulWarning, stacklevel=5)


def words(text: str) -> list[str]:
    """The words of a text in lower case, at most ``MAX_WORDS``."""
    return [match.group() for match, _ in zip(_WORD.finditer(text.lower()), range(MAX_WORDS), strict=False)]


def ngrams(words: Iterable[str]) -> Iterable[str]:
    """All n-grams of the words."""
    for padded in (f" {word} " for word in words):
        for length in range(1, LONGEST + 1):
            grams = (padded[start : start + length] for start in range(len(padded) - length + 1))
            yield from (gram for gram in grams if gram != " ")


def scripts_in(text: str) -> set[str]:
    """The scripts of the letters of a text, by the first word of their Unicode names: LATIN, CYRILLIC."""
    return {unicodedata.name(letter, "").split(" ")[0] for letter in text if letter.isalpha()} - NO_SCRIPT


def scripts_of(language: str) -> set[str]:
    """The scripts that a language is written in, as its n-grams show. None if the table lacks the language."""
    known = load()
    if language not in known.languages:
        return set()
    column = known.table[:, known.languages.index(language)]
    counts = Counter(script for gram, row in known.rows.items() if column[row] > 0 for script in scripts_in(gram))
    return {script for script, count in counts.items() if count > SCRIPT_SHARE * counts.total()}


def softmax(scores: Floats) -> Floats:
    """The softmax over the last axis."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


@lru_cache(maxsize=1)
def load() -> NgramTable:
    """The table that comes with the package."""
    with np.load(TABLE) as file:
        grams = bytes(file["grams"]).decode("utf-8").split("\n")
        languages = bytes(file["languages"]).decode("utf-8").split()
        scale, damping = map(float, file["calibration"])
        return NgramTable(languages, {gram: row for row, gram in enumerate(grams)}, file["table"], scale, damping)

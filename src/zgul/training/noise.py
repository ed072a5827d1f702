"""Character noise: spelling edits of training words, so that a tagger does not lean on exact spellings.

A share of the sentences gets a share of its words edited: a letter is inserted, deleted, swapped with its
neighbour or replaced. New letters come from the words of the sources, as often as they occur there and in the
script of the letter they stand beside. Not in the paper; off in paper-faithful runs.

What is never touched: words without letters (numbers, punctuation) and the digits and signs inside a word.
A letter keeps the combining marks that follow it (a mark is only ever replaced by a mark), and a word keeps
its casing: ``Hus`` may become ``Uhs``, not ``uHs``.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate

import numpy as np

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError

INSERT, DELETE, SWAP, REPLACE = range(4)
JOINERS = "\u200c\u200d"  # zero-width, inside Indic and Arabic words: they belong to the letter before


class _Pool:
    """Letters of one script (or its marks), to be drawn by frequency."""

    def __init__(self, counts: Mapping[str, float]) -> None:
        self.letters = sorted(counts)
        self.steps = list(accumulate(counts[letter] for letter in self.letters))

    def draw(self, chance: float, other_than: str = "") -> str:
        index = bisect(self.steps, chance * self.steps[-1])
        if self.letters[index] == other_than and len(self.letters) > 1:
            index -= 1  # the neighbour in the alphabet; index -1 is the last letter
        return self.letters[index]


class CharacterNoise:
    """Edits words at random; the same generator state gives the same edits.

    For fresh noise in each epoch, reproducible from one seed:
    ``noise.apply(words, languages, np.random.default_rng([seed, epoch]))``.
    """

    def __init__(
        self,
        alphabets: Mapping[str, str | Mapping[str, int]],
        *,
        joint: bool = True,
        sentence_share: float = 0.5,
        word_share: float = 0.3,
        edits: int = 1,
    ) -> None:
        """``alphabets``: letters by language, as a string or with counts (``letter_counts`` makes them).

        joint: draw from all languages' letters together; else from those of the sentence's own language.
        sentence_share: share of sentences that get noise; word_share: share of their words that is edited.
        edits: an edited word gets 1 to this many edits.
        """
        for name, share in (("sentence_share", sentence_share), ("word_share", word_share)):
            if not 0 <= share <= 1:
                raise ZgulError(f"character noise: {name} is {share}; it must lie between 0 and 1")
        if edits < 1:
            raise ZgulError(f"character noise: edits is {edits}; an edited word needs at least 1")
        self.joint = joint
        self.sentence_share = sentence_share
        self.word_share = word_share
        self.edits = edits
        counts = {language: Counter(letters) for language, letters in alphabets.items()}
        self._pools = {} if joint else {language: _pools(letters) for language, letters in counts.items()}
        self._all = _pools(sum(counts.values(), Counter[str]()))  # also for languages without an alphabet
        if not self._all:
            raise ZgulError("character noise: the alphabets hold no letters; build them from the training words")

    def word(self, word: str, rng: np.random.Generator, language: str | None = None) -> str:
        """Edit one word (unless it has no letters)."""
        return self._edit(word, rng.random(1 + 3 * self.edits).tolist(), self._of(language))

    def apply(
        self,
        sentences: Sequence[Sequence[str]],
        languages: Sequence[str | None] | None,
        rng: np.random.Generator,
    ) -> list[Sequence[str]]:
        """A noisy copy of many sentences; those left alone are returned as they are, not copied."""
        if languages is not None and len(languages) != len(sentences):
            raise ValueError(f"{len(sentences)} sentences but {len(languages)} languages")
        noisy = list(sentences)
        chosen = np.flatnonzero(rng.random(len(sentences)) < self.sentence_share)
        lengths = np.fromiter((len(sentences[index]) for index in chosen.tolist()), np.int64, len(chosen))
        edited = np.flatnonzero(rng.random(lengths.sum()) < self.word_share)
        chances = rng.random((len(edited), 1 + 3 * self.edits)).tolist()
        # from positions in the chosen sentences' words, one after the other, to sentence and word
        ends = np.cumsum(lengths)
        rows = np.searchsorted(ends, edited, side="right")
        places = edited - (ends - lengths)[rows]
        last = -1
        words: list[str] = []
        for row, place, chance in zip(chosen[rows].tolist(), places.tolist(), chances, strict=True):
            if row != last:
                last, words = row, list(sentences[row])
                noisy[row] = words
                pools = self._of(languages[row] if languages is not None else None)
            words[place] = self._edit(words[place], chance, pools)
        return noisy

    def _of(self, language: str | None) -> dict[str, _Pool]:
        return self._pools.get(language, self._all) if language is not None else self._all

    def _edit(self, word: str, chances: list[float], pools: dict[str, _Pool]) -> str:
        """``chances``: for the number of edits, then per edit for its kind, its place and its letter."""
        units = _units(word)
        for edit in range(1 + int(chances[0] * self.edits)):
            kind, place, letter = chances[1 + 3 * edit : 4 + 3 * edit]
            _edit_once(units, int(kind * 4), place, letter, pools)
        edited = "".join(units)
        return edited if word == word.lower() else _recase(word, edited)


def letter_counts(sentences: Iterable[Sentence]) -> dict[str, Counter[str]]:
    """How often each letter and mark (lower case) occurs in the words of each language."""
    words: dict[str, Counter[str]] = {}
    for sentence in sentences:
        words.setdefault(sentence.language or "", Counter()).update(sentence.words)
    counts: dict[str, Counter[str]] = {}
    for language, frequency in words.items():
        letters = counts[language] = Counter()
        for word, times in frequency.items():
            for letter in word.lower():
                if _group(letter):
                    letters[letter] += times
    return counts


def _pools(counts: Counter[str]) -> dict[str, _Pool]:
    groups: dict[str, dict[str, float]] = {}
    for letter, times in counts.items():
        if _group(letter) and times > 0:
            groups.setdefault(_group(letter), {})[letter] = times
    return {group: _Pool(letters) for group, letters in groups.items()}


@cache
def _group(character: str) -> str:
    """What may stand for what: script, with "+" for marks; empty if the character is never edited."""
    category = unicodedata.category(character)[0]
    if category not in "LM":
        return ""
    script = unicodedata.name(character, "UNKNOWN").split()[0]
    return script + "+" if category == "M" else script


@cache
def _is_letter(unit: str) -> bool:
    return unicodedata.category(unit[0])[0] == "L"


def _units(word: str) -> list[str]:
    """The word cut into characters, each with the marks and joiners that follow it."""
    if word.isascii():
        return list(word)
    units: list[str] = []
    for character in word:
        if units and (character in JOINERS or _group(character).endswith("+")):
            units[-1] += character
        else:
            units.append(character)
    return units


def _edit_once(units: list[str], kind: int, place: float, chance: float, pools: dict[str, _Pool]) -> None:
    """One edit in place; ``place`` and ``chance`` in [0, 1) choose where and which letter."""
    letters = [index for index, unit in enumerate(units) if _is_letter(unit)]
    if not letters:
        return
    if len(letters) == 1 and kind in (DELETE, SWAP):
        kind = REPLACE  # a word never becomes empty
    if kind == INSERT:
        _insert(units, letters, place, chance, pools)
        return
    at = letters[int(place * len(letters))]
    if kind == DELETE:
        del units[at]
    elif kind == SWAP and at + 1 < len(units) and _is_letter(units[at + 1]):
        units[at], units[at + 1] = units[at + 1], units[at]
    elif kind == SWAP and at > 0 and _is_letter(units[at - 1]):
        units[at], units[at - 1] = units[at - 1], units[at]
    else:  # also for a letter between signs, which has no neighbour to swap with
        units[at] = _replace(units[at], place * len(letters) % 1, chance, pools)


def _insert(units: list[str], letters: list[int], place: float, chance: float, pools: dict[str, _Pool]) -> None:
    gap = int(place * (len(letters) + 1))  # before a letter, or after the last one
    neighbour = letters[min(gap, len(letters) - 1)]
    pool = pools.get(_group(units[neighbour][0]))
    if pool:
        units.insert(neighbour if gap < len(letters) else neighbour + 1, pool.draw(chance))


def _replace(unit: str, place: float, chance: float, pools: dict[str, _Pool]) -> str:
    """Replace the letter or one of its marks by another of the same group; a script unknown here stays."""
    index = int(place * len(unit))
    old = unit[index]
    pool = pools.get(_group(old))
    if not pool:
        return unit
    new = pool.draw(chance, other_than=old.lower())
    return unit[:index] + (new.upper() if old.isupper() else new) + unit[index + 1 :]


def _recase(word: str, edited: str) -> str:
    """Give the edited word the casing of the original: capitals, or a capital first."""
    if len(word) > 1 and word.isupper():
        return edited.upper()
    if word[:1].isupper() and edited[:1] and word[1:] == word[1:].lower():
        return edited[0].upper() + edited[1:].lower()
    return edited

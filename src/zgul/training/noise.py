"""Character noise: spelling edits of training words, so that a tagger does not depend on exact spellings.

In some of the sentences, some of the words are edited: a letter is inserted, deleted, swapped with its neighbour or
replaced. New letters are drawn from the training words, by frequency, in the script of their neighbour. Digits, signs
and words without letters never change. A letter keeps the combining marks that follow it (a mark is only replaced by a
mark), and a word keeps its casing: ``Hus`` may become ``Uhs``, not ``uHs``. The paper has no such noise.
"""

import unicodedata
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate

import numpy as np
import regex

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.training.config import NoiseConfig

INSERT, DELETE, SWAP, REPLACE = range(4)
# a character with the marks that follow it, and the zero-width joiners of Indic and Arabic words
_UNIT = regex.compile(r"(?s).[\p{M}\u200c\u200d]*")


class CharacterNoise:
    """Edits words at random. The same state of the generator gives the same edits."""

    def __init__(self, counts: Mapping[str, int], config: NoiseConfig) -> None:
        """``counts``: how often each letter occurs (see `letter_counts`)."""
        self.config = config
        scripts: dict[str, list[str]] = defaultdict(list)
        for letter in filter(_script, sorted(counts)):
            scripts[_script(letter)].append(letter)
        if not scripts:
            raise ZgulError("Character noise needs letters, and the training words have none.")
        self._sums = {script: list(accumulate(map(counts.__getitem__, own))) for script, own in scripts.items()}
        self._letters = dict(scripts)

    def apply(self, sentences: Sequence[Sequence[str]], rng: np.random.Generator) -> list[Sequence[str]]:
        """Noisy copies of sentences. Sentences without noise are not copied."""
        noisy = list(sentences)
        chosen = np.flatnonzero(rng.random(len(sentences)) < self.config.sentences)
        lengths = np.fromiter((len(sentences[index]) for index in chosen.tolist()), np.int64, len(chosen))
        edited = np.flatnonzero(rng.random(lengths.sum()) < self.config.words)
        chances = rng.random((len(edited), 1 + 3 * self.config.edits)).tolist()
        # turn positions in the words of all chosen sentences into sentence and word
        ends = np.cumsum(lengths)
        rows = np.searchsorted(ends, edited, side="right")
        places = edited - (ends - lengths)[rows]
        last, words = -1, []
        for row, place, chance in zip(chosen[rows].tolist(), places.tolist(), chances, strict=True):
            if row != last:
                last = row
                noisy[row] = words = list(sentences[row])
            words[place] = self._edit(words[place], chance)
        return noisy

    def _edit(self, word: str, chances: list[float]) -> str:
        """``chances``: for the number of edits, then for the kind, place and letter of each."""
        units = _UNIT.findall(word)
        for edit in range(1 + int(chances[0] * self.config.edits)):
            kind, place, letter = chances[1 + 3 * edit : 4 + 3 * edit]
            self._edit_once(units, int(kind * 4), place, letter)
        edited = "".join(units)
        if word == word.lower():
            return edited
        if len(word) > 1 and word.isupper():  # the casing stays: capitals, or a capital first
            return edited.upper()
        if word[:1].isupper() and edited[:1] and word[1:] == word[1:].lower():
            return edited[0].upper() + edited[1:].lower()
        return edited

    def _edit_once(self, units: list[str], kind: int, place: float, chance: float) -> None:
        """One edit in place. ``place`` and ``chance`` in [0, 1) choose where and which letter."""
        letters = [index for index, unit in enumerate(units) if unit[0].isalpha()]
        if not letters:
            return
        if len(letters) == 1 and kind in (DELETE, SWAP):
            kind = REPLACE  # a word never becomes empty
        if kind == INSERT:
            gap = int(place * (len(letters) + 1))  # before a letter, or after the last one
            at = letters[min(gap, len(letters) - 1)]
            units[at + (gap == len(letters)) : at + (gap == len(letters))] = self._draw(units[at][0], chance)
            return
        at = letters[int(place * len(letters))]
        beside = [index for index in (at + 1, at - 1) if 0 <= index < len(units) and units[index][0].isalpha()]
        if kind == DELETE:
            del units[at]
        elif kind == SWAP and beside:
            units[at], units[beside[0]] = units[beside[0]], units[at]
        else:  # also for a letter between signs, which has no neighbour to swap with
            index = int(place * len(letters) % 1 * len(units[at]))  # the letter, or one of its marks
            old = units[at][index]
            for new in self._draw(old, chance, other_than=old.lower()):
                units[at] = units[at][:index] + (new.upper() if old.isupper() else new) + units[at][index + 1 :]

    def _draw(self, like: str, chance: float, other_than: str = "") -> list[str]:
        """One letter (or mark) of the script of ``like``; none if the training words lack the script."""
        letters = self._letters.get(_script(like), [])
        if not letters:
            return []
        sums = self._sums[_script(like)]
        index = bisect(sums, chance * sums[-1])
        if letters[index] == other_than and len(letters) > 1:
            index -= 1  # the neighbour in the alphabet; index -1 is the last letter
        return [letters[index]]


def letter_counts(sentences: Iterable[Sentence]) -> Counter[str]:
    """How often each letter and mark (lower case) occurs in the words."""
    words = Counter(word for sentence in sentences for word in sentence.words)
    counts: Counter[str] = Counter()
    for word, times in words.items():
        for letter in filter(_script, word.lower()):
            counts[letter] += times
    return counts


@cache
def _script(character: str) -> str:
    """The script of a letter, with "+" for a mark; empty for other characters, which are never edited."""
    category = unicodedata.category(character)[0]
    script = unicodedata.name(character, "UNKNOWN").split()[0]
    return {"L": script, "M": f"{script}+"}.get(category, "")

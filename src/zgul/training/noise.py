"""Spelling noise in training words, so that a tagger does not depend on exact spellings or on a script.

**Edits.** In some of the sentences, some of the words are edited: a letter is inserted, deleted, swapped with its
neighbour or replaced. New letters are drawn from the training words, by frequency, in the script of their neighbour.
Digits, signs and words without letters never change. A letter keeps the combining marks that follow it (a mark is only
replaced by a mark), and a word keeps its casing: ``Hus`` may become ``Uhs``, not ``uHs``.

**Ciphers.** In some of the sentences, a fifth of the letters is replaced, each always by the same letter of its script,
vowels by vowels. This imitates how the spelling of related languages differs: regularly.

**Romanised.** Some of the sentences in other scripts are written in Latin letters (by the package anyascii), because a
related language may have another script than its source: Pomak is written in Latin letters, Bulgarian in Cyrillic.

A sentence may get all three, in this order: romanised, in a cipher, edited. The paper has no such noise.
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

Words = Sequence[Sequence[str]]  # of sentences

INSERT, DELETE, SWAP, REPLACE = range(4)
CIPHERED = 0.2  # share of the different letters of a sentence that a cipher replaces
LATIN = ("", "LATIN", "COMBINING", "MODIFIER", "FEMININE", "MASCULINE")  # how names of its characters begin: ʼ, ª, º
VOWELS = frozenset("aeiouyæøœəɛɔαεηιουωаеиоуыэюяєѣѧѫ")  # also with marks above or below
# a character with the marks that follow it, and the zero-width joiners of Indic and Arabic words
_UNIT = regex.compile(r"(?s).[\p{M}\u200c\u200d]*")


class CharacterNoise:
    """Edits words at random. The same state of the generator gives the same edits."""

    def __init__(self, counts: Mapping[str, int], config: NoiseConfig) -> None:
        """``counts``: how often each letter occurs (see `letter_counts`)."""
        self.config = config
        kinds: dict[str, list[str]] = defaultdict(list)
        for letter in filter(_script, sorted(counts)):
            for kind in (_script(letter), _kind(letter)):
                kinds[kind].append(letter)
        if not kinds:
            raise ZgulError("Character noise needs letters, and the training words have none.")
        self._sums = {kind: list(accumulate(map(counts.__getitem__, own))) for kind, own in kinds.items()}
        self._letters = dict(kinds)

    def apply(self, sentences: Words, rng: np.random.Generator) -> list[Sequence[str]]:
        """Noisy copies of sentences. Sentences without noise are not copied."""
        noisy = list(sentences)
        if self.config.romanised:
            for row in np.flatnonzero(rng.random(len(sentences)) < self.config.romanised).tolist():
                noisy[row] = romanised(sentences[row])
        if self.config.ciphers:
            for row in np.flatnonzero(rng.random(len(sentences)) < self.config.ciphers).tolist():
                noisy[row] = self._in_cipher(noisy[row], rng)
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
                noisy[row] = words = list(noisy[row])
            words[place] = self._edit(words[place], chance)
        return noisy

    def _in_cipher(self, words: Sequence[str], rng: np.random.Generator) -> list[str]:
        """The words of a sentence with some letters replaced, each always by the same one."""
        letters = sorted(filter(str.isalpha, set("".join(words).lower())))
        table: dict[int, str] = {}
        for letter, (chosen, chance) in zip(letters, rng.random((len(letters), 2)).tolist(), strict=True):
            for new in self._draw(_kind(letter), chance, other_than=letter) if chosen < CIPHERED else ():
                table[ord(letter)] = new
                if letter != (large := letter.upper()) and new != new.upper() and len(large) == len(new.upper()) == 1:
                    table[ord(large)] = new.upper()
        return [word.translate(table) for word in words]

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
            units[at + (gap == len(letters)) : at + (gap == len(letters))] = self._draw(_script(units[at][0]), chance)
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
            for new in self._draw(_script(old), chance, other_than=old.lower()):
                units[at] = units[at][:index] + (new.upper() if old.isupper() else new) + units[at][index + 1 :]

    def _draw(self, kind: str, chance: float, other_than: str = "") -> list[str]:
        """One letter (or mark) of a script, or of its vowels or consonants; none if the training words lack them."""
        letters = self._letters.get(kind, [])
        if not letters:
            return []
        sums = self._sums[kind]
        index = bisect(sums, chance * sums[-1])
        if letters[index] == other_than and len(letters) > 1:
            index -= 1  # the neighbour in the alphabet; index -1 is the last letter
        return [letters[index]]


def noisy_words(sentences: Sequence[Sentence], config: NoiseConfig, rng: np.random.Generator) -> Words | None:
    """The words of sentences with noise, or None without any. Letters are drawn from the words themselves."""
    if not config:
        return None
    return CharacterNoise(letter_counts(sentences), config).apply([sentence.words for sentence in sentences], rng)


def romanised(words: Sequence[str]) -> Sequence[str]:
    """The words of a sentence in Latin letters. Words that are in Latin letters stay as they are."""
    try:
        from anyascii import anyascii
    except ImportError as error:
        raise ZgulError("Romanised sentences need another package: pip install 'zgul[romanise]'") from error
    latin = (anyascii(word) if _foreign(word) else word for word in words)
    return [new if new and not regex.search(r"\s", new) else word for new, word in zip(latin, words, strict=True)]


def _foreign(word: str) -> bool:
    """Whether a word has letters of another script than Latin."""
    return any(_script(character).removesuffix("+") not in LATIN for character in word)


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


@cache
def _kind(letter: str) -> str:
    """The script of a letter, and whether it is a vowel. Scripts that do not write vowels have one kind."""
    return f"{_script(letter)} {'vowel' if unicodedata.normalize('NFD', letter)[0] in VOWELS else 'consonant'}"

"""Imitate a related language that the encoder has never read, by changing sentences of a source.

``noised`` edits about every second word. ``shifted`` replaces a fifth of the letters, each always by the same letter.
``romanised`` writes other scripts in Latin letters. None needs target data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from zgul.corpora.sentence import Sentence
from zgul.training.config import NoiseConfig
from zgul.training.noise import CharacterNoise, letter_counts
from zgul.training.noise import romanised as in_latin


def shifted(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The same sentences in a made-up sister language: some letters are always replaced by others."""
    return shift(sentences, shift_table(sentences))


def shift_table(sentences: Sequence[Sentence], share: float = 0.2, seed: int = 1) -> dict[int, str]:
    """Which letters of these sentences are replaced, and by which: a table for ``str.translate``."""
    rng = np.random.default_rng(seed)
    counts = letter_counts(sentences)
    letters = [letter for letter, _ in counts.most_common(40) if letter.isalpha()]
    chosen = rng.choice(len(letters), max(1, round(share * len(letters))), replace=False)
    table = {}
    for index in chosen:
        other = letters[int(rng.integers(len(letters)))]
        table[ord(letters[index])] = other
        table[ord(letters[index].upper()[0])] = other.upper()
    return table


def shift(sentences: Sequence[Sentence], table: dict[int, str]) -> list[Sentence]:
    """The same sentences with the letters of a table replaced."""
    return [replace(sentence, words=[word.translate(table) for word in sentence.words]) for sentence in sentences]


def noised(sentences: Sequence[Sentence], seed: int = 1) -> list[Sentence]:
    """The same sentences with one edit in about every second word."""
    noise = CharacterNoise(letter_counts(sentences), NoiseConfig(sentences=1.0, words=0.5))
    words = noise.apply([s.words for s in sentences], np.random.default_rng(seed))
    return [replace(sentence, words=list(own)) for sentence, own in zip(sentences, words, strict=True)]


def romanised(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The same sentences in Latin letters."""
    return [replace(sentence, words=list(in_latin(sentence.words))) for sentence in sentences]


FORMS: dict[str, Callable[[Sequence[Sentence]], list[Sentence]]] = {"": list, "noised": noised, "shifted": shifted}
ALL_FORMS = FORMS | {"romanised": romanised}

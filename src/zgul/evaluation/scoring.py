"""Chunk F1 as seqeval computes it by default, which is the paper's measure for NER and for UPOS alike.

The same numbers as ``seqeval`` 1.x without its Python loop and warnings: training scores the dev sets often.
seqeval takes a tag's first letter as its prefix and the rest, up to a first "-", as its type. For UPOS this
means: a run of one tag is one chunk, CCONJ and SCONJ are one class (CONJ, as in the paper's class table), and
an X beside a sentence border may be lost. All of it is kept, because the paper's numbers have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from zgul.errors import ZgulError

UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM",
    "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X",
)  # fmt: skip

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class _F1(TypedDict):
    f1: float
    precision: float
    recall: float


class ClassScores(_F1):
    """One row of the class table; percentages, and the number of gold chunks."""

    support: int


@dataclass(frozen=True)
class Scores:
    """What a system scores on one test set: all but the counts are percentages."""

    f1: float  # micro, over chunks
    precision: float
    recall: float
    accuracy: float  # over words
    per_class: dict[str, ClassScores]
    sentences: int
    words: int


@dataclass(frozen=True)
class _Chunks:
    """Chunks by the position that ends them: no two chunks end at one position."""

    ends: Bools  # [positions]: does a chunk end here
    begins: Ints  # [positions]: where that chunk began
    types: Ints  # [positions]: number of its type


def scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Score predicted against gold tags, sentence by sentence; equal to seqeval's own numbers."""
    words = _check(gold, predicted)
    vocabulary = dict.fromkeys(chain(chain.from_iterable(gold), chain.from_iterable(predicted), ("O",)))
    types = _types(vocabulary)
    reference, guess = _chunks(gold, types), _chunks(predicted, types)
    right = _right(reference, guess)

    number = 1 + max(types.values())
    counts = np.stack(  # [3, types]: right, predicted, gold
        [
            np.bincount(chunks.types[ends], minlength=number)
            for chunks, ends in ((reference, right), (guess, guess.ends), (reference, reference.ends))
        ]
    )
    per_class = {
        name: ClassScores(support=int(counts[2, index]), **_f1(*counts[:, index]))
        for index, name in sorted(_names(vocabulary, types).items(), key=lambda item: item[1])
        if counts[1:, index].any()
    }
    equal = sum(map(str.__eq__, chain.from_iterable(gold), chain.from_iterable(predicted)))
    return Scores(
        **_f1(*counts.sum(axis=1)),
        accuracy=100.0 * equal / words,
        per_class=per_class,
        sentences=len(gold),
        words=words,
    )


def chunk_counts(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Ints:
    """Right, predicted and gold chunks of each sentence, [sentences, 3]; their sums give the micro-F1."""
    _check(gold, predicted)
    types = _types(dict.fromkeys(chain(chain.from_iterable(gold), chain.from_iterable(predicted), ("O",))))
    reference, guess = _chunks(gold, types), _chunks(predicted, types)
    borders = np.cumsum([0] + [len(tags) + 1 for tags in gold])[:-1]  # each sentence is followed by one "O"
    found = (_right(reference, guess), guess.ends, reference.ends)
    return np.stack([np.add.reduceat(ends[:-1], borders, dtype=np.int64) for ends in found], axis=1)


def _check(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> int:
    """The number of words, if the two sides can be compared at all."""
    if len(gold) != len(predicted):
        raise ZgulError(
            f"cannot score: {len(gold)} gold sentences but {len(predicted)} predicted ones; "
            "both must come from the same file"
        )
    for number, (left, right) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(left) != len(right):
            raise ZgulError(
                f"cannot score: sentence {number} has {len(left)} gold tags but {len(right)} predicted ones; "
                "every word needs one tag"
            )
        if "" in left or "" in right:
            raise ZgulError(f"cannot score: a tag of sentence {number} is empty; untagged words are O or _")
    words = sum(map(len, gold))
    if not words:
        raise ZgulError("cannot score: there are no words; is the file empty?")
    return words


def _types(vocabulary: dict[str, None]) -> dict[str, int]:
    """The number of each tag's type; 0 is the type of no tag (seqeval's state before the first word)."""
    numbers: dict[str, int] = {}
    return {tag: numbers.setdefault(_type(tag), len(numbers) + 1) for tag in vocabulary}


def _type(tag: str) -> str:
    return tag[1:].split("-", maxsplit=1)[-1] or "_"


def _names(vocabulary: dict[str, None], types: dict[str, int]) -> dict[int, str]:
    """Readable class names: seqeval calls NOUN "OUN"; here it is NOUN, and CONJ where tags fell together."""
    tags = set(vocabulary) - {"O"}
    known = set(UPOS) if tags <= set(UPOS) else tags  # CONJ stays CONJ where a test set has no SCONJ
    sharing: dict[str, list[str]] = {}
    for tag in known:
        sharing.setdefault(_type(tag), []).append(tag)
    names: dict[int, str] = {}
    for tag in tags:
        kind = _type(tag)
        plain = len(sharing[kind]) == 1 and tag[1:2] != "-"
        names[types[tag]] = tag if plain else kind
    if len(set(names.values())) < len(names):  # "X" beside "B-X": only seqeval's names are unambiguous
        return {types[tag]: _type(tag) for tag in tags}
    return names


def _chunks(sentences: Sequence[Sequence[str]], types: dict[str, int]) -> _Chunks:
    """seqeval's ``get_entities`` over all sentences at once, each followed by "O", one more at the end."""
    flat = list(chain.from_iterable(chain(tags, ("O",)) for tags in sentences))
    flat.append("O")
    code = {tag: ord(tag[0]) for tag in types}
    letter = np.fromiter(map(code.__getitem__, flat), np.int64, len(flat))
    kind = np.fromiter(map(types.__getitem__, flat), np.int64, len(flat))
    before = np.concatenate(([ord("O")], letter[:-1]))
    kind_before = np.concatenate(([0], kind[:-1]))
    new_kind = kind != kind_before

    starts = _among(letter, "BS")
    starts |= _among(before, "ESO") & _among(letter, "EI")
    starts |= ~_among(letter, "O.") & new_kind
    stops = _among(before, "ES")
    stops |= _among(before, "BI") & _among(letter, "BSO")
    stops |= ~_among(before, "O.") & new_kind

    # A chunk that stops at position i ended at i - 1 and began at the last start up to there. Without any
    # such start (an "X" after an "O" has none) the last one of an earlier chunk counts, as in seqeval.
    begins = np.maximum.accumulate(np.where(starts, np.arange(len(flat)), 0))
    return _Chunks(ends=np.concatenate((stops[1:], [False])), begins=begins, types=kind)


def _among(letters: Ints, wanted: str) -> Bools:
    return np.asarray(np.isin(letters, [ord(letter) for letter in wanted]))


def _right(gold: _Chunks, predicted: _Chunks) -> Bools:
    same: Bools = (gold.begins == predicted.begins) & (gold.types == predicted.types)
    return gold.ends & predicted.ends & same


def _f1(right: int, predicted: int, gold: int) -> _F1:
    """Percentages; what is undefined is 0, as in seqeval."""
    precision = right / predicted if predicted else 0.0
    recall = right / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"f1": 100.0 * float(f1), "precision": 100.0 * float(precision), "recall": 100.0 * float(recall)}

"""Evaluation: chunk F1 as seqeval computes it by default, spread over seeds, and tests between two systems.

Chunk F1 is the paper's measure for NER and for UPOS alike. The numbers equal those of ``seqeval`` 1.x, but take a
fraction of its time. seqeval takes the first letter of a tag as its prefix and the rest, after a "-", as its type.
So for UPOS a run of one tag is one chunk, CCONJ and SCONJ are one class (CONJ, as in the paper's class table), and an X
at a sentence border may be lost. The paper's numbers include this.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from zgul.corpora.sentence import UPOS
from zgul.errors import ZgulError

EXACT_BELOW = 25  # discordant words; for more, McNemar's chi-square approximation is good
Tags = Sequence[Sequence[str]]  # of each sentence
Chunk = tuple[str, int, int]  # type, first position, position after the last


@dataclass(frozen=True)
class Scores:
    """The scores of a system on one test set. All but the counts are percentages."""

    f1: float  # micro, over chunks
    precision: float
    recall: float
    accuracy: float  # over words
    per_class: dict[str, dict[str, float]]  # f1, precision, recall, and support: the number of gold chunks
    sentences: int
    words: int


def scores(gold: Tags, predicted: Tags) -> Scores:
    """Score predicted against gold tags, sentence by sentence. The numbers equal seqeval's."""
    words = check_aligned(gold, predicted)
    reference, guess = _chunks(gold), _chunks(predicted)
    right = _count_types(ours & theirs for ours, theirs in zip(guess, reference, strict=True))
    guessed, true = _count_types(guess), _count_types(reference)
    names = _class_names(set(chain(*gold, *predicted)))
    per_class = {
        name: _class_scores(right[kind], guessed[kind], true[kind])
        for kind, name in sorted(names.items(), key=lambda item: item[1])
        if guessed[kind] or true[kind]
    }
    micro = _class_scores(right.total(), guessed.total(), true.total())
    equal = sum(map(str.__eq__, chain.from_iterable(gold), chain.from_iterable(predicted)))
    accuracy = 100.0 * equal / words
    return Scores(micro["f1"], micro["precision"], micro["recall"], accuracy, per_class, len(gold), words)


def chunk_counts(gold: Tags, predicted: Tags) -> npt.NDArray[np.int64]:
    """Count the right, predicted and gold chunks of each sentence, [sentences, 3]. Their sums give the micro-F1."""
    check_aligned(gold, predicted)
    pairs = zip(_chunks(gold), _chunks(predicted), strict=True)
    return np.array([(len(true & guessed), len(guessed), len(true)) for true, guessed in pairs])


def check_aligned(gold: Tags, predicted: Tags) -> int:
    """Check that the two sides can be compared, and return the number of words."""
    if len(gold) != len(predicted):
        raise ZgulError(f"cannot score: {len(gold)} gold sentences but {len(predicted)} predicted; use the same file")
    for number, (left, right) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(left) != len(right):
            problem = f"sentence {number} has {len(left)} gold tags but {len(right)} predicted ones"
            raise ZgulError(f"cannot score: {problem}; every word needs one tag")
        if "" in left or "" in right:
            raise ZgulError(f"cannot score: a tag of sentence {number} is empty; untagged words are O or _")
    if words := sum(map(len, gold)):
        return words
    raise ZgulError("cannot score: there are no words; is the file empty?")


@cache
def _type(tag: str) -> str:
    return tag[1:].split("-", maxsplit=1)[-1] or "_"


def _class_names(tags: set[str]) -> dict[str, str]:
    """Readable names of the types: NOUN where seqeval says OUN, and CONJ where several tags are one class."""
    tags = tags - {"O"}
    known = set(UPOS) if tags <= set(UPOS) else tags  # so that CONJ is CONJ even in a test set without SCONJ
    sharing = Counter(map(_type, known))
    names = {_type(tag): tag if sharing[_type(tag)] == 1 and tag[1:2] != "-" else _type(tag) for tag in tags}
    unambiguous = all(name == kind or name not in names for kind, name in names.items())  # unlike "X" beside "B-X"
    unambiguous = unambiguous and len(set(names.values())) == len(names)
    return names if unambiguous else {kind: kind for kind in names}


def _chunks(sentences: Tags) -> list[set[Chunk]]:
    """seqeval's ``get_entities``: the chunks of each sentence, each sentence followed by an "O".

    Where a chunk has no start of its own (an "X" after an "O"), the start of an earlier chunk counts, even of another
    sentence.
    """
    result = []
    before = "O"
    begin = position = 0
    for tags in sentences:
        chunks: set[Chunk] = set()
        for tag in (*tags, "O"):
            if tag != before or tag[0] in "BES":  # else the chunk continues
                stopped, starts = _border(before, tag)
                if stopped:
                    chunks.add((stopped, begin, position))
                if starts:
                    begin = position
                before = tag
            position += 1
        result.append(chunks)
    return result


@cache
def _border(before: str, tag: str) -> tuple[str, bool]:
    """The type of the chunk that stops between two tags ("" if none does), and whether a chunk starts."""
    old, new = before[0], tag[0]
    other_type = _type(before) != _type(tag)
    stops = old in "ES" or (old in "BI" and new in "BSO") or (old not in "O." and other_type)
    starts = new in "BS" or (old in "ESO" and new in "EI") or (new not in "O." and other_type)
    return _type(before) if stops else "", starts


def _count_types(sentences: Iterable[set[Chunk]]) -> Counter[str]:
    return Counter(kind for chunks in sentences for kind, _, _ in chunks)


def _class_scores(right: int, predicted: int, gold: int) -> dict[str, float]:
    """Percentages. Undefined ones are 0, as in seqeval."""
    precision = 100.0 * right / predicted if predicted else 0.0
    recall = 100.0 * right / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"f1": f1, "precision": precision, "recall": recall, "support": gold}


# --- comparing systems


@dataclass(frozen=True)
class MeanStd:
    """Mean and sample standard deviation. A single run has no deviation."""

    mean: float
    std: float | None
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


@dataclass(frozen=True)
class McNemar:
    """McNemar's test on the words that exactly one of two systems tags correctly."""

    only_first: int  # words that only the first system has right
    only_second: int
    statistic: float  # exact test: the smaller count; otherwise chi-square with continuity correction
    p: float
    exact: bool


@dataclass(frozen=True)
class Difference:
    """F1 of the first system minus F1 of the second, in points, with a bootstrap confidence interval."""

    f1: float
    low: float
    high: float


def mean_std(values: Sequence[float]) -> MeanStd:
    """Mean and standard deviation of one score over seeds."""
    if not values:
        raise ZgulError("no runs to average: train at least one seed")
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return MeanStd(float(np.mean(values)), std, len(values))


def mcnemar(gold: Tags, first: Tags, second: Tags) -> McNemar:
    check_aligned(gold, first)
    check_aligned(gold, second)
    flat = map(chain.from_iterable, (gold, first, second))
    right = [(truth == a, truth == b) for truth, a, b in zip(*flat, strict=True)]
    return mcnemar_counts(right.count((True, False)), right.count((False, True)))


def mcnemar_counts(only_first: int, only_second: int) -> McNemar:
    """McNemar's test from the two discordant counts: exact binomial for few words, else chi-square."""
    total, smaller = only_first + only_second, min(only_first, only_second)
    if total < EXACT_BELOW:
        tail = sum(math.comb(total, count) for count in range(smaller + 1)) / 2**total
        return McNemar(only_first, only_second, float(smaller), min(1.0, 2 * tail), exact=True)
    statistic = max(0, abs(only_first - only_second) - 1) ** 2 / total
    p = math.erfc(math.sqrt(statistic / 2))  # upper tail of chi-square with one degree of freedom
    return McNemar(only_first, only_second, statistic, p, exact=False)


def bootstrap_f1(gold: Tags, first: Tags, second: Tags, samples: int = 1000, confidence: float = 0.95) -> Difference:
    """Paired bootstrap over sentences of the difference in F1, with its percentile interval."""
    if samples < 1 or not 0 < confidence < 1:
        raise ZgulError("the bootstrap needs samples >= 1 and a confidence between 0 and 1, such as 0.95")
    counts = np.concatenate([chunk_counts(gold, first), chunk_counts(gold, second)], axis=1)  # [sentences, 6]
    rng, size = np.random.default_rng(0), len(counts)
    drawn = np.empty((samples, 6))
    for row in drawn:
        row[:] = np.bincount(rng.integers(size, size=size), minlength=size) @ counts
    low, high = np.quantile(_f1_difference(drawn), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Difference(float(_f1_difference(counts.sum(axis=0))), float(low), float(high))


def _f1_difference(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The last axis of ``counts`` holds right, predicted and gold chunks of the first, then of the second system."""
    right, total = counts[..., [0, 3]], counts[..., [1, 4]] + counts[..., [2, 5]]
    f1 = 200.0 * right / np.maximum(total, 1)
    return np.asarray(f1[..., 0] - f1[..., 1])

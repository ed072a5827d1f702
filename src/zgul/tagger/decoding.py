"""From label probabilities to tags.

The paper takes each word's most probable label (``words``), so it may say ``O I-PER`` or ``B-PER I-LOC``, which is no
valid entity. ``sequence`` finds the tags y_1 … y_n with the largest Σ_t log p(y_t | sentence) among those in which an
``I-X`` follows a ``B-X`` or ``I-X`` (Viterbi). Nothing is learned for it.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from zgul.errors import ZgulError

DECODINGS = ("words", "sequence")
# label probabilities of many sentences [words, C], and how many words each has, to labels [words]
Decoder = Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.int64]]
TINY = np.finfo(np.float32).tiny
TOGETHER = 64  # sentences that are decoded at once


def decoder(name: str, labels: Sequence[str]) -> Decoder:
    """A function that turns the label probabilities of sentences into labels."""
    if name not in DECODINGS:
        raise ZgulError(f"decode is one of {', '.join(DECODINGS)}, not {name!r}")
    if name == "words":
        return lambda probabilities, sizes: probabilities.argmax(axis=1)
    sequences = Sequences(labels)

    def decode(probabilities: NDArray[np.float32], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        tags: NDArray[np.int64] = probabilities.argmax(axis=1)
        broken = sequences.broken(tags, sizes)
        broken = broken[np.argsort(sizes[broken], kind="stable")]  # by length, so that there is little padding
        for part in np.split(broken, range(TOGETHER, len(broken), TOGETHER)) if len(broken) else ():
            starts, counts = (np.cumsum(sizes) - sizes)[part], sizes[part]
            place = np.arange(counts.max())  # [T]
            inside = place < counts[:, None]  # [S, T]
            words = np.where(inside, starts[:, None] + place, 0)
            tags[words[inside]] = sequences.best(np.log(probabilities[words] + TINY), counts)[inside]
        return tags

    return decode


class Sequences:
    """The label sequences that IOB2 allows: all of them where no label begins with ``I-``."""

    def __init__(self, labels: Sequence[str]) -> None:
        inside = np.array([label.startswith("I-") for label in labels])
        entity = np.array([label[2:] if label[:2] in ("B-", "I-") else "" for label in labels])
        self.first = ~inside  # [C]: may begin a sentence
        self.follows = ~inside | (entity[:, None] == entity)  # [C, C]: the column may follow the row

    def broken(self, tags: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sentences, of ``sizes`` words each, whose tags [words] are no allowed sequence."""
        ends = np.cumsum(sizes)
        fine = np.ones(len(tags), dtype=bool)
        fine[1:] = self.follows[tags[:-1], tags[1:]]
        starts = (ends - sizes)[sizes > 0]
        fine[starts] = self.first[tags[starts]]
        return np.unique(np.searchsorted(ends, np.flatnonzero(~fine), side="right"))

    def best(self, scores: NDArray[np.floating], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The allowed sequences with the largest sums: scores [S, T, C] of sentences of ``sizes`` words to [S, T]."""
        forbidden = np.where(self.follows, 0.0, -np.inf)  # [C, C]
        best = np.where(self.first, scores[:, 0], -np.inf)  # [S, C]: of the sequences that end in each label
        came = np.zeros(scores.shape, np.int64)
        length = scores.shape[1]
        for word in range(1, length):
            paths = best[:, :, None] + forbidden  # [S, C, C]
            came[:, word] = paths.argmax(axis=1)
            going = (word < sizes)[:, None]
            best = np.where(going, paths.max(axis=1) + scores[:, word], best)
        tags = np.zeros(scores.shape[:2], np.int64)
        tag, every = best.argmax(axis=1), np.arange(len(scores))  # [S]
        for word in range(length - 1, -1, -1):
            tags[:, word] = tag
            tag = np.where(word < sizes, came[every, word, tag], tag)
        return tags


def valid_iob2(tags: list[str]) -> list[str]:
    """Turn an ``I-`` that continues nothing into ``B-``: the same entities, in a form that every tool accepts."""
    fixed, previous = [], "O"
    for tag in tags:
        if tag.startswith("I-") and previous[2:] != tag[2:]:
            tag = "B-" + tag[2:]
        fixed.append(tag)
        previous = tag
    return fixed

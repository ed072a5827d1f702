"""Decoding: turn label probabilities into tags.

``words`` takes each word's most probable label, as the paper does, even if that is ``O I-PER``. ``sequence`` finds the
tags y_1 … y_n with the largest Σ_t log p(y_t | sentence) in which every ``I-X`` follows a ``B-X`` or ``I-X`` (Viterbi).
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from zgul.errors import ZgulError

DECODINGS = ("words", "sequence")
# maps label probabilities of many sentences [words, C], and the number of words of each, to labels [words]
Decoder = Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.int64]]
TINY = np.finfo(np.float32).tiny


def decoder(name: str, labels: Sequence[str]) -> Decoder:
    """A function that turns the label probabilities of sentences into labels."""
    if name not in DECODINGS:
        raise ZgulError(f"decode is one of {', '.join(DECODINGS)}, not {name!r}")
    if name == "words":
        return lambda probabilities, sizes: probabilities.argmax(axis=1)
    return Sequences(labels)


class Sequences:
    """The label sequences that IOB2 allows. If no label begins with ``I-``, all sequences are allowed."""

    def __init__(self, labels: Sequence[str]) -> None:
        inside = np.array([label.startswith("I-") for label in labels], dtype=bool)
        entity = np.array([label[2:] if label[:2] in ("B-", "I-") else "" for label in labels])
        self.first = ~inside  # [C]: may begin a sentence
        self.follows = ~inside | (entity[:, None] == entity)  # [C, C]: the column may follow the row

    def __call__(self, probabilities: NDArray[np.float32], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        tags: NDArray[np.int64] = probabilities.argmax(axis=1)
        ends = np.cumsum(sizes)
        for sentence in self._broken(tags, sizes):  # few: the best labels of most sentences are allowed
            here = slice(ends[sentence] - sizes[sentence], ends[sentence])
            tags[here] = self.best(np.log(probabilities[here] + TINY))
        return tags

    def _broken(self, tags: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sentences whose tags are not an allowed sequence. ``sizes`` has the number of words of each."""
        ends = np.cumsum(sizes)
        fine = np.ones(len(tags), dtype=bool)
        fine[1:] = self.follows[tags[:-1], tags[1:]]
        starts = (ends - sizes)[sizes > 0]
        fine[starts] = self.first[tags[starts]]
        return np.unique(np.searchsorted(ends, np.flatnonzero(~fine), side="right"))

    def best(self, scores: NDArray[np.floating]) -> NDArray[np.int64]:
        """The allowed sequence with the largest sum of scores, for the scores [T, C] of a sentence."""
        forbidden = np.where(self.follows, 0.0, -np.inf)  # [C, C]
        best = np.where(self.first, scores[0], -np.inf)  # [C]: of the sequences that end in each label
        came_from = []
        for word in scores[1:]:
            paths = best[:, None] + forbidden  # [C, C]
            came_from.append(paths.argmax(axis=0))
            best = paths.max(axis=0) + word
        tags = [best.argmax()]
        for before in reversed(came_from):
            tags.append(before[tags[-1]])
        return np.array(tags[::-1])

"""From label probabilities to tags: each word's most probable label, or the most probable sequence that IOB2 allows.

The paper takes each word's own best label (``words``) and so may say ``O I-PER`` or ``B-PER I-LOC``, which no entity
looks like. ``sequence`` finds the tags y_1 … y_n with the largest Σ_t log p(y_t | sentence) among those in which an
``I-X`` follows a ``B-X`` or ``I-X`` (Viterbi). Nothing is learned and nothing is to be set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from zgul.errors import ZgulError

DECODINGS = ("words", "sequence")
# label probabilities of many sentences [words, C], and how many words each has, to labels [words]
Decoder = Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.int64]]
TINY = np.finfo(np.float32).tiny


def check_decoding(name: str) -> str:
    """The name, if there is such a decoding."""
    if name not in DECODINGS:
        raise ZgulError(f"decode is one of {', '.join(DECODINGS)}, not {name!r}")
    return name


def decoder(name: str, labels: Sequence[str]) -> Decoder:
    """What turns the label probabilities of sentences into labels."""
    if check_decoding(name) == "words":
        return lambda probabilities, sizes: probabilities.argmax(axis=1)
    sequences = Sequences(labels)

    def decode(probabilities: NDArray[np.float32], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        tags: NDArray[np.int64] = probabilities.argmax(axis=1)
        for sentence in sequences.broken(tags, sizes):
            tags[sentence] = sequences.best(np.log(probabilities[sentence] + TINY))
        return tags

    return decode


class Sequences:
    """The sequences of labels that IOB2 allows; all of them where no label begins with ``I-``."""

    def __init__(self, labels: Sequence[str]) -> None:
        inside = np.array([label.startswith("I-") for label in labels])
        entity = np.array([label[2:] if label[:2] in ("B-", "I-") else "" for label in labels])
        self.first = ~inside  # [C]: may begin a sentence
        self.follows = ~inside | (entity[:, None] == entity)  # [C, C]: the column may follow the row

    def broken(self, tags: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterator[slice]:
        """Where the sentences, of so many words each, stand whose tags [words] are no such sequence."""
        ends = np.cumsum(sizes)
        fine = np.ones(len(tags), dtype=bool)
        fine[1:] = self.follows[tags[:-1], tags[1:]]
        starts = (ends - sizes)[sizes > 0]
        fine[starts] = self.first[tags[starts]]
        for sentence in np.unique(np.searchsorted(ends, np.flatnonzero(~fine), side="right")):
            yield slice(ends[sentence] - sizes[sentence], ends[sentence])

    def best(self, scores: NDArray[np.floating]) -> NDArray[np.int64]:
        """The allowed sequence with the largest sum of scores [words, C]."""
        tags: NDArray[np.int64] = scores.argmax(axis=1)
        forbidden = np.where(self.follows, 0.0, -np.inf)  # [C, C]
        best = np.where(self.first, scores[0], -np.inf)  # [C]: of the sequences that end in each label
        came = np.zeros(scores.shape, np.int64)
        for word in range(1, len(scores)):
            paths = best[:, None] + forbidden  # [C, C]
            came[word] = paths.argmax(axis=0)
            best = paths.max(axis=0) + scores[word]
        tags[-1] = best.argmax()
        for word in range(len(scores) - 1, 0, -1):
            tags[word - 1] = came[word, tags[word]]
        return tags

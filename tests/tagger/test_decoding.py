"""Decoding: the best sequence that IOB2 allows, against all sequences written out."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_tagger import MADE, small_tagger
from zgul.corpora.sentence import to_iob2
from zgul.errors import ZgulError
from zgul.tagger import load_tagger, save_tagger
from zgul.tagger.decoding import Sequences, decoder

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
POS = ["NOUN", "VERB", "X"]


def allowed(tags: tuple[str, ...]) -> bool:
    """IOB2, said in words: what is inside an entity follows its begin or another inside of the same kind."""
    for n, tag in enumerate(tags):
        if tag.startswith("I-") and (n == 0 or tags[n - 1] not in ("B-" + tag[2:], tag)):
            return False
    return True


@given(st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([LABELS, POS]))
def test_the_best_of_all_sequences_that_are_allowed(words: int, seed: int, labels: list[str]) -> None:
    scores = np.random.default_rng(seed).normal(size=(words, len(labels)))
    sums = {
        tags: sum(scores[n, labels.index(tag)] for n, tag in enumerate(tags))
        for tags in product(labels, repeat=words)
        if allowed(tags)
    }
    found = tuple(labels[n] for n in Sequences(labels).best(scores))
    assert sums[found] == pytest.approx(max(sums.values()))


def test_words_are_decoded_each_by_itself() -> None:
    p = np.array([[0.4, 0, 0.6, 0, 0], [0.1, 0, 0.2, 0.7, 0]], np.float32)
    two = np.array([2])
    assert decoder("words", LABELS)(p, two).tolist() == [2, 3]
    assert decoder("sequence", LABELS)(p, two).tolist() == [0, 3]


def test_a_certain_begin_pulls_the_next_word_along() -> None:
    p = np.array([[0.0, 0.9, 0, 0.1, 0], [0.3, 0, 0.3, 0, 0.4]], np.float32)
    assert decoder("sequence", LABELS)(p, np.array([2])).tolist() in ([1, 2], [1, 0])
    assert decoder("words", LABELS)(p, np.array([2])).tolist() == [1, 4]


def test_no_words() -> None:
    assert decoder("sequence", LABELS)(np.zeros((0, 5), np.float32), np.zeros(3, np.int64)).tolist() == []


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 2**32 - 1))
def test_sentences_are_decoded_together_as_each_alone(sizes: list[int], seed: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.full(len(LABELS), 0.3), size=sum(sizes)).astype(np.float32)
    decode = decoder("sequence", LABELS)
    alone, start = [], 0
    for size in sizes:
        alone += decode(p[start : start + size], np.array([size])).tolist()
        start += size
    assert decode(p, np.array(sizes, np.int64)).tolist() == alone
    names = iter(LABELS[tag] for tag in alone)
    assert all(allowed(tuple(next(names) for _ in range(size))) for size in sizes)


def test_an_unknown_decoding_is_refused() -> None:
    decoder("sequence", [])  # asked before the labels are known
    with pytest.raises(ZgulError, match="one of words, sequence, not 'crf'"):
        decoder("crf", LABELS)


def test_a_tagger_decodes_as_it_is_told_and_keeps_it_when_saved(tmp_path: Path) -> None:
    tagger = small_tagger("sft-m", task="ner", labels=LABELS)
    sentences = MADE.sentences("s0", 40)
    words = tagger.predict(sentences)
    tagger = replace(tagger, decode="sequence")
    found = tagger.predict(sentences)
    assert all(allowed(tuple(prediction.tags)) for prediction in found)
    assert [p.tags for p in found] != [p.tags for p in words], "the random model says impossible things"
    for prediction in found:
        assert prediction.tags == to_iob2(prediction.tags)
        assert len(prediction.probabilities) == len(prediction.tags)
    save_tagger(tagger, tmp_path / "t", encoder=True)
    again = load_tagger(tmp_path / "t")
    assert again.decode == "sequence"
    assert [p.tags for p in again.predict(sentences)] == [p.tags for p in found]

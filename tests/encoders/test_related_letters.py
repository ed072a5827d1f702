"""Letters that the embedded encoder's vocabulary lacks, and what they are read as."""

from typing import Any

import pytest
import torch

from zgul import encoders
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import ModelLanguages, PieceEncoder
from zgul.encoders.tokenizer import PieceTokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PieceTokenizer:
    return encoders.load("embedded")[1]


def pieces(tokenizer: PieceTokenizer, word: str, **options: Any) -> list[int]:
    (cut,) = PieceEncoder(tokenizer, 512, **options).pieces([word])
    return cut.tolist()


def test_unknown_letters_of_a_word_are_read_as_similar_ones(tokenizer: PieceTokenizer) -> None:
    assert tokenizer.unknown in pieces(tokenizer, "бꙑти")
    assert pieces(tokenizer, "бꙑти", related_letters=True) == pieces(tokenizer, "быти")
    assert pieces(tokenizer, "г\u0483ь", related_letters=True) == pieces(tokenizer, "гь")
    assert pieces(tokenizer, "ѭꙑ", related_letters=True) == pieces(tokenizer, "ѫы")


def test_known_letters_stay_as_they_are_even_beside_unknown_ones(tokenizer: PieceTokenizer) -> None:
    for word in ("føroyskt", "ọmọ", "быти", "é"):
        assert pieces(tokenizer, word, related_letters=True) == pieces(tokenizer, word)
    assert pieces(tokenizer, "éꙑ", related_letters=True) == pieces(tokenizer, "éы")


def test_without_a_known_similar_letter_it_stays_unknown(tokenizer: PieceTokenizer) -> None:
    assert pieces(tokenizer, "ƕas", related_letters=True) == pieces(tokenizer, "ƕas")
    assert pieces(tokenizer, "\u0483", related_letters=True) == pieces(tokenizer, "\u0483"), "nothing would be left"


def test_less_is_unknown(tokenizer: PieceTokenizer) -> None:
    words = ["бꙑти", "быти", "ƕas"]
    plain, related = (
        PieceEncoder(tokenizer, 512, related_letters=wanted).unknown_share(words) for wanted in (False, True)
    )
    assert 0 < related < plain


def test_a_table_that_was_thrown_away_is_learnt_again(tokenizer: PieceTokenizer) -> None:
    encoder = PieceEncoder(tokenizer, 512, related_letters=True, max_types=1)
    first = [cut.tolist() for cut in encoder.pieces(["бꙑти", "быти"])]
    encoder.pieces(["hetta"])
    assert [cut.tolist() for cut in encoder.pieces(["бꙑти", "быти"])] == first
    assert encoder.replacements("ꙑбa") == {"ꙑ": "ы"}


def test_marks_are_left_out_of_sentences_that_are_full_of_them(tokenizer: PieceTokenizer) -> None:
    encoder = PieceEncoder(tokenizer, 512)
    marked = ["produljénje", "sporāzum", "за\u0301мок", "über", "být", "hello", "!"]
    bare = ["produljenje", "sporazum", "замок", "über", "být", "hello", "!"]
    few = ["produljénje", "und", "être", "für", "हिन्दी", ""]
    assert encoder.without_marks([marked, few, []]) == [bare, few, []]


def test_a_corpus_is_read_without_marks_on_request(tokenizer: PieceTokenizer) -> None:
    encoder, languages = PieceEncoder(tokenizer, 512), ModelLanguages({"hr": 0}, torch.zeros(1, 1))
    marked, bare = (Sentence(words, language="hr") for words in (["produljénje", "i"], ["produljenje", "i"]))
    one, other = (encoder.encode([sentence], languages=languages, strip_marks=True) for sentence in (marked, bare))
    assert one.pieces.tolist() == other.pieces.tolist()
    assert len(encoder.encode([marked], languages=languages).pieces) > len(one.pieces)

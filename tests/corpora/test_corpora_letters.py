"""Letters that a vocabulary lacks, and what they are read as."""

import numpy as np
import pytest
from zgul.corpora.encode import PieceEncoder
from zgul.methods.tagger import Tagger

from small_tagger import small_tagger
from zgul import encoders
from zgul.corpora.letters import similar_letters
from zgul.corpora.sentence import Sentence


@pytest.mark.parametrize(
    ("letter", "read_as"),
    [
        ("ꙑ", "ы"),  # yeru with back yer
        ("ѭ", "ѫ"),  # iotified big yus
        ("ѻ", "ѡ"),  # round omega
        ("Ѡ", "ѡ"),  # the other case
        ("ǘ", "ü"),  # one mark less
        ("ǘ", "u"),  # both
        ("\u0483", ""),  # a combining titlo
        ("ꝑ", "p"),  # p with stroke through descender
    ],
)
def test_similar_letters_by_the_unicode_standard(letter: str, read_as: str) -> None:
    assert read_as in similar_letters(letter)


def test_the_most_similar_come_first_and_no_letter_is_similar_to_itself() -> None:
    found = similar_letters("ǘ")
    assert found.index("ü") < found.index("u")
    assert all(letter not in similar_letters(letter) for letter in "aꙑǘ҃ƕ1")
    assert similar_letters("1") == ()


@pytest.fixture(scope="module")
def tokenizer():
    return encoders.load("embedded")[1]


def pieces(tokenizer, word: str, **options: bool) -> list[int]:
    return PieceEncoder(tokenizer, 512, **options).pieces(word)


def test_unknown_letters_of_a_word_are_read_as_similar_ones(tokenizer) -> None:
    assert PieceEncoder(tokenizer, 512).unknown in pieces(tokenizer, "бꙑти")
    assert pieces(tokenizer, "бꙑти", kin_letters=True) == pieces(tokenizer, "быти")
    assert pieces(tokenizer, "г\u0483ь", kin_letters=True) == pieces(tokenizer, "гь")
    assert pieces(tokenizer, "ѭꙑ", kin_letters=True) == pieces(tokenizer, "ѫы")


def test_known_letters_stay_as_they_are_even_beside_unknown_ones(tokenizer) -> None:
    for word in ("føroyskt", "ọmọ", "быти", "é"):
        assert pieces(tokenizer, word, kin_letters=True) == pieces(tokenizer, word)
    assert pieces(tokenizer, "éꙑ", kin_letters=True) == pieces(tokenizer, "éы")


def test_without_a_known_similar_letter_it_stays_unknown(tokenizer) -> None:
    assert pieces(tokenizer, "ƕas", kin_letters=True) == pieces(tokenizer, "ƕas")
    assert pieces(tokenizer, "\u0483", kin_letters=True) == pieces(tokenizer, "\u0483"), "nothing would be left"


def test_less_is_unknown(tokenizer) -> None:
    words = ["бꙑти", "быти", "ƕas"]
    plain, akin = (PieceEncoder(tokenizer, 512, kin_letters=on).unknown_share(words) for on in (False, True))
    assert 0 < akin < plain


def test_what_was_forgotten_is_learnt_again(tokenizer) -> None:
    encoder = PieceEncoder(tokenizer, 512, kin_letters=True)
    before = encoder.encode([Sentence(["бꙑти", "быти"], None, "cu")])
    encoder.forget()
    after = encoder.encode([Sentence(["бꙑти", "быти"], None, "cu")])
    np.testing.assert_array_equal(before.pieces, after.pieces)


def test_a_saved_tagger_keeps_it(tmp_path) -> None:
    tagger = small_tagger("sft-m")
    tagger.pieces.kin_letters = True
    tagger.save_pretrained(tmp_path / "t", encoder=True)
    assert Tagger.from_pretrained(tmp_path / "t").pieces.kin_letters

"""The guess of a language, on text that it was not built from."""

from pathlib import Path

import numpy as np
import pytest

from zgul.corpora.data_folder import DataFolder
from zgul.errors import ZgulError
from zgul.languages import SOURCES, TARGETS
from zgul.tagging import langid

HARD = {"bho": 0.4, "orv": 0.75, "cu": 0.8}  # titles that are as good as Hindi; one tradition in two languages


def test_the_table_is_small_and_knows_all_languages() -> None:
    assert langid.TABLE.stat().st_size <= 300_000
    assert langid.load().languages == [*SOURCES, *TARGETS]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Hetta er ein lítil roynd, og vit vóna, at tað gongur væl.", "fo"),
        ("Þetta er lítil tilraun og við vonum að það gangi vel.", "is"),
        ("Dies ist ein kleiner Versuch, und wir hoffen, dass er gelingt.", "de"),
        ("Wir wohnen in einer kleinen Stadt.", "de"),
        ("Serbja su słowjanski lud we wuchodnej Němskej.", "hsb"),
        ("This is a small test, and we hope that it works.", "en"),
    ],
)
def test_sentences_by_hand(text: str, code: str) -> None:
    best = langid.guess(text)[0]
    assert best.code == code
    assert best.probability > 0.5


def test_probabilities_sum_to_one_and_are_sorted() -> None:
    found = langid.guess("Hetta er ein lítil roynd.")
    probabilities = [guess.probability for guess in found]
    assert sum(probabilities) == pytest.approx(1)
    assert probabilities == sorted(probabilities, reverse=True)
    assert len(found) == 26


def test_a_longer_text_is_surer() -> None:
    short, long = (langid.guess(text)[0] for text in ("og vit", "og vit vóna, at tað gongur væl hjá øllum í Føroyum"))
    assert short.probability < long.probability


@pytest.mark.parametrize("text", ["", "12 34 !", "ꦗꦮ", "ᏣᎳᎩ"])
def test_nothing_known_is_an_error(text: str) -> None:
    with pytest.raises(ZgulError, match="cannot be guessed"):
        langid.guess(text)


@pytest.mark.parametrize("code", TARGETS)
def test_the_test_sentences_are_told_apart(shared_data: Path, code: str) -> None:
    task = "pos" if (shared_data / "pos" / code).is_dir() else "ner"
    sentences = DataFolder(shared_data).sentences(task, code, "test")[:300]
    right = [langid.load().guesses(" ".join(sentence.words))[:1] for sentence in sentences]
    accuracy = np.mean([bool(guess) and guess[0].code == code for guess in right])
    assert accuracy > HARD.get(code, 0.85)

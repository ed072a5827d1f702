"""The table shows every class and the totals; the JSON has the documented fields."""

import io
import json

import pytest
from rich.console import Console

from zgul.evaluation import format_scores, scores, to_json

RESULT = scores([["NOUN", "VERB", "PUNCT"]], [["NOUN", "NOUN", "PUNCT"]])


def test_table() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(format_scores(RESULT, title="Faroese"))
    text = console.export_text()
    for expected in (
        "Faroese",
        "NOUN",
        "VERB",
        "PUNCT",
        "all (micro)",
        "1 sentences, 3 words, accuracy 66.7",
    ):
        assert expected in text
    assert "40.0" in text  # F1: 1 of 2 predicted and of 3 gold chunks


def test_json() -> None:
    data = json.loads(to_json(RESULT, seconds=0.5))
    assert set(data) == {
        "f1", "accuracy", "precision", "recall", "per_class", "sentences", "words", "seconds",
    }  # fmt: skip
    assert data["f1"] == RESULT.f1 and data["seconds"] == 0.5
    with pytest.raises(ValueError, match="names already: precision"):
        to_json(RESULT, precision="float32")
    assert data["per_class"]["VERB"] == {"f1": 0, "precision": 0, "recall": 0, "support": 1}

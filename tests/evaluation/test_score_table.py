"""The table shows every class and the totals."""

import io

from rich.console import Console

from zgul.evaluation import format_scores, scores

RESULT = scores([["NOUN", "VERB", "PUNCT"]], [["NOUN", "NOUN", "PUNCT"]])


def test_table() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(format_scores(RESULT))
    text = console.export_text()
    for expected in (
        "NOUN",
        "VERB",
        "PUNCT",
        "all (micro)",
        "1 sentences, 3 words, accuracy 66.7",
    ):
        assert expected in text
    assert "40.0" in text  # F1: 1 of 2 predicted and of 3 gold chunks

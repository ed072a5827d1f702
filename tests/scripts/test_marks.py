"""The rule that adopts a way to leave out marks, on made-up figures, and the forms that it is judged on."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import marks

from zgul.corpora.sentence import Sentence


def write_rows(path: Path, **changes: Any) -> None:
    """F1 of 80 everywhere, 60 with marks; a way changes it as it is, with marks, and for entities."""
    lines = []
    for form in marks.FORMS:
        for code in ("hr", "sk"):
            f1 = {"no": 60.0 if "marked" in form else 80.0}
            f1 |= {name: f1["no"] + change["marked" in form] for name, change in changes.items()}
            lines.append({"part": "folding", "tagger": "all-pos", "language": code, "form": form, "f1": f1})
    f1 = {"no": 50.0} | {name: 50.0 + change[2] for name, change in changes.items()}
    lines.append({"part": "folding", "tagger": "all-ner", "language": "fon", "form": "as it is", "f1": f1})
    path.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(
    ("changes", "pos", "ner"),
    [
        ({"a": (0, 5, 0), "b": (0, 9, -1)}, "b", "a"),  # entities lose 1 by b
        ({"a": (0, 5, 0), "b": (0, 5.4, 0)}, "a", "a"),  # of equals the first
        ({"a": (-0.2, 9, 0), "b": (0, 0.9, 0)}, "", ""),  # loses without marks; gains too little with them
    ],
)
def test_the_best_way_that_loses_nothing_is_adopted(
    changes: dict[str, Any], pos: str, ner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "ROWS", tmp_path / "rows.jsonl")
    write_rows(marks.ROWS, **changes)
    assert marks.choose() == {"pos": pos, "ner": ner}
    assert "| a |" in marks.folding_table()


def test_the_same_vowel_of_a_word_is_always_marked() -> None:
    sentences = [Sentence(["Međutim", "je", "12"], language="hr")] * 3
    macron, acute, again = (sentence.words for sentence in marks.marked(sentences))
    assert macron == again != acute and acute[1:] == ["je", "12"]
    assert marks.bare(macron[0]) == marks.bare(acute[0]) == "Međutim"

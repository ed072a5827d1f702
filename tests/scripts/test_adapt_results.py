"""The curves of labelled sentences: how they are drawn, and what the table says."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from zgul.corpora import Sentence

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import adapt_results
import cards


def line(code: str, count: int, after: float, seed: int = 0) -> dict[str, Any]:
    low = after - 51.0 if after != 50.0 else 0.0
    score = {"before": 50.0, "after": after, "difference": {"f1": after - 50, "low": low, "high": after - 50}}
    cost = {"cpu_seconds": 90.0, "megabytes_of_memory": 1900 + seed}
    return {"language": code, "task": "pos", "count": count, "seed": seed, "test": score, "dev": score} | cost


def test_fewer_sentences_are_a_part_of_more() -> None:
    sentences = [Sentence([str(number)]) for number in range(40)]
    few, more = (adapt_results.drawn(sentences, count, 1) for count in (10, 30))
    assert few == more[:10] != adapt_results.drawn(sentences, 10, 0)
    assert [one.words for one in sentences] == [[str(number)] for number in range(40)]


def test_the_table_has_means_over_seeds_and_says_what_was_undone(tmp_path: Path) -> None:
    runs = [line("fo", 50, 56.0), line("fo", 10, 50.0), line("fo", 50, 54.0, seed=1)]
    (tmp_path / "curves.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs), "utf-8")
    ten, fifty = cards.curve_rows(tmp_path / "curves.jsonl")
    assert ten == ["Faroese (fo)", "POS", "10", *2 * ["50.0", "**50.0**", "undone"], "1.5", "1.9"]
    assert fifty[3:6] == ["50.0", "**55.0** ± 1.4", "+5.0 (+3.0 to +6.0)"]


def test_the_figure_and_the_page_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'zgul[plots]'")
    (tmp_path / "images").mkdir()
    (tmp_path / "adapt.md").write_text("a\n<!-- cards: curves -->\n<!-- end -->\nb\n", "utf-8")
    for name in ("shipped.json", "not-shipped.json", "left-out.jsonl"):
        (tmp_path / name).write_bytes((adapt_results.OUTPUT / name).read_bytes())
    (tmp_path / "curves.jsonl").write_text(json.dumps(line("fo", 50, 56.0)) + "\n", "utf-8")
    for name in ("OUTPUT", "DOCS"):
        monkeypatch.setattr(adapt_results, name, tmp_path)
    monkeypatch.setattr(adapt_results, "PICTURE", tmp_path / "images" / "curves.svg")
    adapt_results.show_curves()
    assert (tmp_path / "images" / "curves.svg").read_bytes().startswith(b"<?xml")
    assert "| Faroese (fo) | POS | 50 |" in (tmp_path / "adapt.md").read_text("utf-8")

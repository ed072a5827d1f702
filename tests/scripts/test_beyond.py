"""The rule that chooses the noise of wide taggers, the data they learn from, and the page about them."""

import json
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import beyond
import wide_data

from zgul.corpora.data_folder import DataFolder
from zgul.files import read_json, write_json
from zgul.languages import TARGETS

BEFORE = {"germanic": 70.0, "slavic": 60.0, "african": 50.0}
EDITS = {"germanic": 72.0, "slavic": 59.0, "african": 49.0}
CIPHERS = {"germanic": 71.0, "slavic": 61.0, "african": 48.0}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs of the plan with made-up F1: ciphers are better for POS on average, and nothing helps NER."""
    monkeypatch.setattr(beyond, "RESULTS", tmp_path)
    monkeypatch.setattr(beyond, "DOCS", tmp_path)
    lines = [
        {"name": f"{group}:{variant}", "f1": {"da/dev/plain": f1[group] + 1, "nl/dev/shifted/plain": f1[group] - 1}}
        for variant, f1 in {"before": BEFORE, "edits": EDITS, "ciphers": CIPHERS}.items()
        for group in f1
    ]
    run = tmp_path / "run"
    run.mkdir()
    (run / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_the_noise_of_a_task_is_chosen_by_the_mean_over_its_groups(results: Path) -> None:
    beyond.main(["choose", str(results / "run")])
    choice = read_json(results / "choice.json")
    assert choice["noise"] == {"ner": "edits", "pos": "ciphers"}
    assert choice["replaced"] == ["germanic", "slavic"]  # no noise made the African tagger better


def test_the_page_has_a_row_for_each_target_and_for_each_group(results: Path) -> None:
    beyond.main(["choose", str(results / "run")])
    f1: dict[str, Any] = {code: {"before": 50.0, "after": 52.0, "low": 1.0, "high": 3.0} for code in ("fo", "got")}
    write_json(results / "targets.json", {"commit": "abc", "date": "2026-01-01", "f1": f1})
    beyond.main(["report"])
    page = (results / "beyond.md").read_text(encoding="utf-8")
    assert "| Faroese (fo) | 50.0 | **52.0** | +2.0 (+1.0 to +3.0) | 76.9 |" in page
    assert "| **germanic** | 50.0 | **52.0** | +2.0 |" in page
    assert "| more sources, edits and ciphers | 72.0 | 70.0 | **71.0** |" in page
    assert "{" not in page


def test_languages_of_both_folders_are_joined_and_targets_are_left_out(tmp_path: Path) -> None:
    for place, language, word in (
        ("", "sw", "moja"),
        ("more", "sw", "mbili"),
        ("more", "zu", "kunye"),
        ("", "ha", "daya"),
    ):
        folder = tmp_path / "data" / place / "ner" / language
        folder.mkdir(parents=True)
        (folder / "train.tsv.xz").write_bytes(lzma.compress(f"{word}\tO\n\n".encode()))
    wide_data.join(tmp_path / "data", tmp_path / "wide")
    joined = DataFolder(tmp_path / "wide")
    assert [s.words for s in joined.sentences("ner", "sw", "train")] == [["moja"], ["mbili"]]
    assert {language for _, language, _ in joined.splits()} == {"sw", "zu"} and "ha" in TARGETS


def test_no_plan_of_wide_taggers_trains_on_a_target() -> None:
    plans = Path(beyond.__file__).with_name("plans")
    for name in ("wide-choice.json", "wide.json", "wide-all.json"):
        for run in json.loads((plans / name).read_text()):
            assert not set(run["config"]["sources"]) & set(TARGETS)
            assert not {language for language, _ in run.get("test", [])} & set(TARGETS)

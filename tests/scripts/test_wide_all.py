"""The rule that decides whether a tagger over all sources is replaced by one that learnt from more."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import wide_all


def figures(gain: float = 1.0, sources: float = 0.0, strange: float = 0.0) -> dict[str, Any]:
    """Figures with these changes of F1."""
    parts = {"left out": gain, "sources": sources, "strange": strange}
    return {part: {"la": {"before": 50.0, "after": 50.0 + value}} for part, value in parts.items()}


def test_the_rule_asks_for_a_gain_on_languages_left_out_and_for_small_losses_on_sources() -> None:
    assert wide_all.replaces(figures(gain=0.31, sources=-0.99, strange=-0.29))
    assert wide_all.replaces(figures() | {"strange": {}})
    for broken in (figures(gain=0.2), figures(sources=-1.1), figures(strange=-0.4)):
        assert not wide_all.replaces(broken)


def test_what_is_already_in_latin_letters_does_not_count_twice(tmp_path: Path) -> None:
    f1 = {f"{code}/dev/{form}plain": 40.0 for code in ("la", "grc") for form in ("", "romanised/")}
    lines = [{"name": f"all-pos:{variant}", "f1": f1} for variant in ("before", "wide")]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = wide_all.left_out(tmp_path, "all-pos")
    assert set(found) == {"la", "grc", "grc/romanised"}
    assert found["grc/romanised"] == {"before": 40.0, "after": 40.0}


def test_a_table_ends_each_tagger_with_its_mean() -> None:
    f1 = {"la": {"before": 50.0, "after": 52.0}, "grc/shifted": {"before": 30.0, "after": 30.0}}
    lines = wide_all.table({"all-pos": {"left out": f1}}, "left out").splitlines()
    assert lines[2:] == [
        "| all-pos | Latin (la) | 50.0 | **52.0** | +2.0 |",
        "| all-pos | Ancient Greek (grc) shifted | 30.0 | **30.0** | +0.0 |",
        "| all-pos | **mean** | 40.0 | **41.0** | +1.0 |",
    ]


def test_a_tagger_that_gains_nothing_stays_without_further_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wide_all, "FIGURES", tmp_path / "all.json")
    lines = [{"name": f"all-pos:{variant}", "f1": {"la/dev/plain": 50.0}} for variant in ("before", "wide")]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    wide_all.main(["all-pos", str(tmp_path), "--data", str(tmp_path)])
    assert json.loads((tmp_path / "all.json").read_text())["all-pos"]["replaced"] is False

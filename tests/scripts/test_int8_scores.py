"""The tables of int8 are what the stored comparisons say, and `auto` loses little on every target."""

import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import int8_scores  # noqa: E402


@pytest.mark.parametrize("split", ["test", "dev"])
def test_the_page_has_the_stored_results(split: str) -> None:
    cases = [case for case in int8_scores.all_cases() if case.split == split]
    assert all(case.stored() for case in cases)
    assert f"<!-- int8: {split} -->\n{int8_scores.table(cases)}<!-- end -->" in int8_scores.PAGE.read_text("utf-8")


def test_auto_loses_little_on_every_target() -> None:
    cases = [case for case in int8_scores.all_cases() if case.split == "test"]
    assert len(cases) == 20 and "int8" in {case.auto for case in cases} <= {"int8", "float32"}
    assert all(int8_scores.loss(one.stored(), one.share) <= int8_scores.LIMIT for one in cases if one.auto == "int8")


def test_the_dev_files_of_the_sources_decide() -> None:
    for case in (case for case in int8_scores.all_cases() if case.split == "dev" and case.auto == "int8"):
        assert int8_scores.loss(case.stored(), case.share) <= int8_scores.LIMIT

"""The page is written from stored results, and the one that is committed is what the committed results give."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from reliability import ROOT, chaos, fuzz, page

STORED = ROOT / "docs" / "results" / "reliability"


def test_results_are_kept_and_shown(tmp_path: Path) -> None:
    outcome = fuzz.Outcome("readers", 3, 1200, 700, 499, 9.0, 0.5, 10**8, 1, {"readers:3:7": "KeyError: 'x'"})
    page.store(tmp_path, "fuzz-readers", asdict(outcome))
    page.store(tmp_path, "chaos-tagging", asdict(chaos.Torment("tagging", 0, 4, 2, 1, different=["round 0: a"])))
    page.store(None, "nothing", {})
    text = page.write(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| 1,200 | 700 | 499 | 1 |" in text and "`readers:3:7` failed: KeyError: 'x'" in text
    assert "| 4 (1) | 2 |" in text and "`tagging`, round 0: a: differs" in text
    assert text.count("not run") >= 3 + 6
    assert page.WORKS.keys() == chaos.WORKS.keys(), "what was killed is shown"


def test_the_committed_page_is_up_to_date(tmp_path: Path) -> None:
    made = page.write(STORED, tmp_path / "page.md").read_text(encoding="utf-8")
    assert made == (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")

"""The page is written from stored results, and the one that is committed is what the committed results give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peers import ROOT, STORED, page
from zgul.files import read_json, write_json

ABOUT = {"commit": "abc", "date": "2026-11-18", "device": "a processor"}


def result(system: str, f1: tuple[float, float], **more: Any) -> dict[str, Any]:
    scores = {"as": f1[0], "bho": f1[1]}
    return {"system": system, "group": "indo-aryan", "f1": scores, "dev_f1": 70.0, "bytes": 4_000_000} | ABOUT | more


def test_the_table_says_who_wins_and_what_is_missing(tmp_path: Path) -> None:
    write_json(tmp_path / "zgul-indo-aryan.json", result("zgul", (60.0, 50.0), gpu_seconds=90.0))
    cut = result("spacy", (60.4, 40.0), cpu_seconds=120.0, sentences=1234, limit=9)
    write_json(tmp_path / "spacy-indo-aryan.json", cut)
    speed = {"words_per_second": 12345.6, "load_seconds": 0.5}
    about = ABOUT | {"language": "fo", "words": 100, "rounds": 3, "systems": {"spacy": speed}, "sft_bytes": 470_000_000}
    write_json(tmp_path / "speed.fo.json", about)
    text = page.write(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| Assamese (as) | 60.0 | – | – | **60.4**† |" in text
    assert "| **indo-aryan** (mean) | **55.0** | – | – | 50.2† |" in text
    assert "- spaCy: Assamese (as) (+0.4, within chance)" in text and "- UDPipe 1: nowhere" in text
    assert "| spaCy | 12,346 | – | 0.5 s | – / – / – / 2.0 min† | 4 |" in text
    assert "1.5 min GPU" in text and "1,234" in text and "not run" in text and "| 470 |" in text


def test_the_committed_page_is_up_to_date(tmp_path: Path) -> None:
    made = page.write(STORED, tmp_path / "page.md").read_text(encoding="utf-8")
    assert made == (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")


def test_the_stored_results_are_of_the_pinned_versions() -> None:
    pinned = (ROOT / "requirements" / "peers.txt").read_text(encoding="utf-8").splitlines()
    for name, package in (("udpipe", "ufal.udpipe"), ("spacy", "spacy")):
        for path in STORED.glob(f"{name}-*.json"):
            assert f"{package}=={read_json(path)['version']}" in pinned, path.name

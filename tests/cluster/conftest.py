"""Stand-ins for the shipped taggers, and texts for them."""

from pathlib import Path

import pytest

from standin import stand_in_taggers, text


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in_taggers(tmp_path_factory.mktemp("taggers"), ("germanic-pos",))


@pytest.fixture
def taggers(stand_ins: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZGUL_TAGGERS", str(stand_ins))
    return stand_ins


@pytest.fixture
def folder(taggers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with texts: two small ones and a book of about 2,000 words."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts" / "sub").mkdir(parents=True)
    for number, (name, sentences) in enumerate({"a.txt": 3, "sub/a.txt": 4, "book.txt": 300}.items()):
        (tmp_path / "texts" / name).write_text(text(sentences, seed=number))
    return tmp_path

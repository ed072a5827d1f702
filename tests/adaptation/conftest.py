"""Stand-ins for the shipped taggers; raw text and labelled sentences of a made-up language, called Faroese."""

from pathlib import Path

import pytest

import standin
from standin import stand_in_taggers, words
from zgul.adaptation.adapting import AdaptConfig
from zgul.corpora import Sentence, columns

QUICK = AdaptConfig(sentences=80, epochs=1, few_epochs=4, few_lr=5e-3, rank=2)


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in_taggers(tmp_path_factory.mktemp("taggers"), ("germanic-pos",))


@pytest.fixture(autouse=True)
def taggers(stand_ins: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ZGUL_TAGGERS", str(stand_ins))
    monkeypatch.chdir(tmp_path)
    return stand_ins


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A hundred lines of raw text."""
    path = tmp_path / "text.txt"
    path.write_text(standin.text(100), "utf-8")
    return path


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Twenty labelled sentences."""
    path = tmp_path / "labelled.tsv"
    columns.write(path, [Sentence(one.words, one.tags) for one in words().sentences("s0", 20, seed=3)])
    return path


@pytest.fixture
def quick() -> AdaptConfig:
    return QUICK

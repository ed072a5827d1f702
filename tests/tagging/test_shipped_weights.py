"""The weights that ship: small enough, complete, each with a card, and tagging as well as when they were made."""

from pathlib import Path

import pytest

import zgul
from zgul.adapters.storage import shipped_adapters
from zgul.corpora.data_folder import DataFolder
from zgul.languages import GROUPS, SOURCES
from zgul.tagging.evaluation_run import evaluate
from zgul.tagging.loading import load_shipped
from zgul.tagging.serving import adapted_note, serving, shipped_names

FOLDER = Path(zgul.__file__).parent / "shipped"
NAMES = ["all-ner", "all-pos", *(f"{group.name}-{group.task}" for group in GROUPS.values())]
ADAPTED = sorted(path.parent.name for path in FOLDER.glob("*/delta.json"))


@pytest.fixture(autouse=True)
def packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes with the package, whatever the caller's environment names."""
    monkeypatch.delenv("ZGUL_TAGGERS", raising=False)


def test_all_taggers_are_there() -> None:
    assert shipped_names() == sorted(NAMES)


def test_files_are_small_enough() -> None:
    sizes = {path.relative_to(FOLDER).as_posix(): path.stat().st_size for path in FOLDER.rglob("*.safetensors")}
    deltas = {f"{name}/delta.safetensors" for name in ADAPTED}
    assert sizes.keys() == {"adapters.safetensors", *(f"{name}/model.safetensors" for name in NAMES), *deltas}
    assert max(sizes.values()) <= 16_000_000
    assert max(sizes[path] for path in deltas) <= 1_000_000
    assert sum(sizes.values()) <= 64_000_000


def test_every_source_has_an_adapter() -> None:
    assert [adapter.language for adapter in shipped_adapters(SOURCES)] == list(SOURCES)


@pytest.mark.parametrize("name", NAMES)
def test_taggers_load_and_are_what_they_are_called(name: str) -> None:
    tagger = load_shipped(name)
    group, _, task = name.rpartition("-")
    assert (tagger.task, tagger.method.name) == (task, "zgul")
    assert tagger.model.bank is not None
    if group in GROUPS:
        assert tuple(tagger.parts.sources) == GROUPS[group].sources


@pytest.mark.parametrize("name", ADAPTED)
def test_adapted_taggers_serve_the_language_that_they_are_called_after(name: str) -> None:
    language, _, task = name.rpartition("-")
    base, tagger = serving(language, task, adapted=False).name, load_shipped(name)
    assert serving(language, task).name == name and adapted_note(name)["base"] == base
    assert tagger.task == task and "adapted" in tagger.about
    card = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    assert base in card and "\n## Scores\n" in card and "\n## How it was made\n" in card


@pytest.mark.parametrize("name", ["", *NAMES])
def test_each_has_a_card(name: str) -> None:
    card = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    for heading in ("Intended use", "Scores", "Data and licences", "Known weaknesses"):
        assert f"\n## {heading}\n" in card
    for said in ("commit", "seed", "python scripts/", "non-commercial"):
        assert said in card


def test_faroese_is_tagged() -> None:
    sentence = zgul.load("fo").tag("Hetta er ein lítil roynd.")[0]
    assert list(zip(sentence.words, sentence.tags, strict=True)) == [
        ("Hetta", "PRON"),
        ("er", "AUX"),
        ("ein", "DET"),
        ("lítil", "ADJ"),
        ("roynd", "NOUN"),
        (".", "PUNCT"),
    ]


@pytest.mark.parametrize(
    ("task", "language", "floor"),  # measured on these sentences: 76.6, 75.5, 72.7
    [("pos", "fo", 70.0), ("pos", "hsb", 65.0), ("ner", "as", 60.0)],
)
def test_a_broken_weight_is_noticed(task: str, language: str, floor: float, shared_data: Path) -> None:
    sentences = DataFolder(shared_data).sentences(task, language, "test")[:60]
    assert evaluate(zgul.load(language, task, em=False), sentences).scores.f1 > floor  # EM takes minutes

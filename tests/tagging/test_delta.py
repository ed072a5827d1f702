"""Deltas: zero changes nothing, what is stored is what is computed, and damaged folders are refused."""

import hashlib
import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import zgul
from standin import DEPTH, WIDTH, words
from zgul.adaptation.adapting import AdaptConfig
from zgul.corpora import Sentence
from zgul.errors import ZgulError
from zgul.tagger import Tagger, load_tagger, save_tagger
from zgul.tagging.delta import NOTE, TENSORS, Delta, apply_delta, base_checksum, base_folder, load_delta, save_delta
from zgul.tagging.loading import load_named, load_shipped
from zgul.tagging.serving import adapted_names, describe, expected_accuracy, serving, shipped_names

pytestmark = pytest.mark.usefixtures("taggers")
SENTENCES = [Sentence(one.words, language="fo") for one in words().sentences("s0", 6)]


def new_delta(*, scale: float, adapter: bool = True) -> Delta:
    """A random delta of the stand-in; zero for scale 0."""
    torch.manual_seed(0)
    base = load_shipped("germanic-pos")
    tensors = {"head.weight": torch.randn(base.model.head.weight.shape)}
    tensors |= {f"task.{name}": torch.randn(value.shape) for name, value in base.model.task.named_parameters()}
    for layer in range(DEPTH):
        tensors |= {f"update.{layer}.query.a": torch.randn(3, WIDTH), f"update.{layer}.query.b": torch.randn(WIDTH, 3)}
        if adapter:
            tensors[f"adapter.{layer}.up.weight"] = torch.randn(WIDTH, 8)
    scaled = {name: scale * value for name, value in tensors.items()}
    checksum = base_checksum(base_folder("germanic-pos"))
    return Delta("germanic-pos", checksum, "fo", "pos", scaled, "is", {"made": "by a test"})


def probabilities(tagger: Tagger) -> list[float]:
    return [float(p) for one in tagger.predict(SENTENCES, strategy="plain") for p in one.probabilities]


def test_a_delta_of_zero_is_the_tagger_itself(tmp_path: Path) -> None:
    save_delta(tmp_path, new_delta(scale=0))
    assert not (tmp_path / TENSORS).exists()
    base, adapted = load_shipped("germanic-pos"), load_named(str(tmp_path))
    for one, other in zip(base.predict(SENTENCES), adapted.predict(SENTENCES), strict=True):
        assert one.tags == other.tags and (one.probabilities == other.probabilities).all()
    assert adapted.em == base.em and not hasattr(adapted, "name")


def test_a_loaded_delta_computes_the_sum(tmp_path: Path) -> None:
    base, delta = load_shipped("germanic-pos"), new_delta(scale=0.1, adapter=False)
    adapted = apply_delta(base, delta)
    query = (
        base.model.encoder.layers[0].query.weight
        + delta.tensors["update.0.query.b"] @ delta.tensors["update.0.query.a"]
    )
    torch.testing.assert_close(adapted.model.encoder.merged().layers[0].query.weight, query)
    torch.testing.assert_close(adapted.model.head.weight, base.model.head.weight + delta.tensors["head.weight"])
    assert probabilities(adapted) != probabilities(base) and adapted.em["fo"].steps == 0


@pytest.mark.parametrize("strip", [True, False])
def test_an_adapted_tagger_reads_marks_as_when_it_was_made(strip: bool) -> None:
    base = replace(load_shipped("germanic-pos"), strip_marks=True)
    delta = new_delta(scale=0)
    assert not apply_delta(base, delta).strip_marks  # made before there was a choice
    assert apply_delta(base, replace(delta, about={"strip_marks": strip})).strip_marks is strip


def test_an_adapted_tagger_can_be_saved_whole(tmp_path: Path) -> None:
    save_delta(tmp_path / "delta", new_delta(scale=0.1))
    adapted = load_named(str(tmp_path / "delta"))
    assert adapted.bank_languages == ["en", "is", "de", "fo"]
    save_tagger(adapted, tmp_path / "whole", encoder=True)
    assert probabilities(load_tagger(tmp_path / "whole")) == pytest.approx(probabilities(adapted), abs=1e-6)
    assert (tmp_path / "delta" / TENSORS).stat().st_size < (tmp_path / "whole" / "model.safetensors").stat().st_size


def test_the_rounding_of_the_file_is_small(tmp_path: Path) -> None:
    delta = new_delta(scale=0.1)
    save_delta(tmp_path, delta)
    exact, rounded = apply_delta(load_shipped("germanic-pos"), delta), load_named(str(tmp_path))
    assert probabilities(rounded) == pytest.approx(probabilities(exact), abs=0.05)
    assert load_delta(tmp_path).about == {"made": "by a test"}


def broken_note(folder: Path, **changes: object) -> None:
    note = json.loads((folder / NOTE).read_text("utf-8"))
    (folder / NOTE).write_text(json.dumps(note | changes), "utf-8")


DAMAGE = {
    "no tensors": lambda folder: (folder / TENSORS).unlink(),
    "tensors cut short": lambda folder: (folder / TENSORS).write_bytes((folder / TENSORS).read_bytes()[:-50]),
    "note cut short": lambda folder: (folder / NOTE).write_text((folder / NOTE).read_text("utf-8")[:40], "utf-8"),
    "format": lambda folder: broken_note(folder, format=9),
    "base is a number": lambda folder: broken_note(folder, base=3),
    "base unknown": lambda folder: broken_note(folder, base="klingon-pos"),
    "other base": lambda folder: broken_note(folder, base="slavic-pos"),
    "checksum": lambda folder: broken_note(folder, checksum="0" * 64),
    "like unknown": lambda folder: broken_note(folder, like="xx"),
    "language in the bank": lambda folder: broken_note(folder, language="is"),
    "names": lambda folder: broken_note(folder, tensors=["head.weight"]),
    "about": lambda folder: broken_note(folder, about=[]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_folders_are_refused(tmp_path: Path, damage: str) -> None:
    save_delta(tmp_path, new_delta(scale=0.1))
    DAMAGE[damage](tmp_path)
    with pytest.raises(ZgulError):
        load_named(str(tmp_path))


@pytest.mark.parametrize(
    "tensors",
    [
        {"head.weight": torch.ones(3, 3)},
        {"nothing.weight": torch.ones(3)},
        {"update.0.query.a": torch.ones(2, 5), "update.0.query.b": torch.ones(WIDTH, 2)},
        {"update.0.nothing.a": torch.ones(2, WIDTH)},
        {"update.0.query.b": torch.ones(WIDTH, 2)},
        {"update.9.query.a": torch.ones(2, WIDTH)},
        {"update.0.query.a": torch.ones(WIDTH + 1, WIDTH), "update.0.query.b": torch.ones(WIDTH, WIDTH + 1)},
        {"adapter.0.up.weight": torch.ones(1, 1)},
        {"adapter.7.up.weight": torch.ones(WIDTH, 8)},
    ],
)
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    save_delta(tmp_path, replace(new_delta(scale=0.1), tensors=tensors))
    with pytest.raises(ZgulError, match="does not fit"):
        load_named(str(tmp_path))


@pytest.fixture
def shipped(taggers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped taggers, and one that is adapted to Faroese."""
    folder = tmp_path / "shipped"
    monkeypatch.setenv("ZGUL_TAGGERS", str(shutil.copytree(taggers, folder)))
    (folder / "fo-pos").mkdir()
    save_delta(folder / "fo-pos", replace(new_delta(scale=0.1), about={"test_f1": 81.26, "language": "fo"}), bits=4)
    return folder


def test_an_adapted_tagger_serves_its_language_and_no_other(shipped: Path) -> None:
    assert adapted_names() == ["fo-pos"] and "fo-pos" not in shipped_names()
    served = serving("fo", "pos")
    assert served.name == "fo-pos" and served.reason.startswith("germanic-pos, adapted to raw text of Faroese")
    assert served.installed and served.warning is None
    plain = serving("fo", "pos", adapted=False)
    assert plain.name == "germanic-pos" and [serving(*one).name for one in (("fo", "ner"), ("is", "pos"))] == [
        "all-ner",
        "germanic-pos",
    ]
    accuracy = expected_accuracy("fo", "pos")
    assert accuracy is not None and accuracy.f1 == 81.3
    assert [tagger.name for tagger in describe("fo").taggers] == ["fo-pos", "all-ner"]


def test_a_shipped_adapted_tagger_is_loaded_by_default(shipped: Path) -> None:
    adapted, plain = zgul.load("fo", "both"), zgul.load("fo", "both", adapted=False)
    assert adapted.served["pos"].name == "fo-pos" and plain.served["pos"].name == "germanic-pos"
    assert adapted.taggers["pos"].bank_languages == ["en", "is", "de", "fo"]
    assert adapted.taggers["ner"] is plain.taggers["ner"]
    assert "German and adapted to Faroese; " in adapted.describe("pos") and "adapted" not in plain.describe("pos")
    same = zgul.load("fo", "pos", model="fo-pos", precision="float32").taggers["pos"]
    assert same is load_shipped("fo-pos") and probabilities(same) == probabilities(load_named(str(shipped / "fo-pos")))
    assert probabilities(same) != probabilities(load_shipped("germanic-pos"))
    data = pickle.dumps(adapted)
    assert len(data) < 5000 and pickle.loads(data).taggers["pos"].model is adapted.taggers["pos"].model


def test_an_adapted_tagger_of_another_base_is_left_alone(shipped: Path) -> None:
    broken_note(shipped / "fo-pos", base="slavic-pos")
    assert serving("fo", "pos").name == "germanic-pos"


def test_nothing_starts_from_a_tagger_that_was_adapted(shipped: Path, tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match="fo-pos was adapted already"):
        zgul.adapt("fo", text=tmp_path / "text.txt", model="fo-pos", output=tmp_path / "out")


def test_a_tagger_that_names_itself_as_its_base_is_read_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    shutil.copytree(base_folder("germanic-pos"), folder)
    save_delta(folder, replace(new_delta(scale=0), base=str(folder)))
    assert probabilities(load_named(str(folder))) == probabilities(load_shipped("germanic-pos"))


def test_labels_alone_start_from_the_adapted_tagger_that_ships(shipped: Path, tmp_path: Path) -> None:
    """Else the result could be worse than what the user has already."""
    few = [Sentence(one.words, one.tags) for one in words().sentences("s0", 20, seed=3)]
    config = AdaptConfig(few_epochs=8, few_lr=1e-2, rank=2)
    result = zgul.adapt("fo", labelled=few, output=tmp_path / "out", config=config)
    assert result.base == "fo-pos" and result.worth_it
    adapted = load_named(str(tmp_path / "out"))
    assert adapted.bank_languages == ["en", "is", "de", "fo"] and probabilities(adapted) != probabilities(
        load_shipped("fo-pos")
    )
    chosen = zgul.load("fo", model=tmp_path / "out")
    assert chosen.tag("sapuri ha sasike").sentences[0].upos
    (shipped / "fo-pos" / TENSORS).write_bytes((tmp_path / "out" / TENSORS).read_bytes())
    with pytest.raises(ZgulError, match="another version of the tagger 'fo-pos'"):
        load_named(str(tmp_path / "out"))


def test_a_delta_cannot_start_from_itself_or_another_of_the_user(tmp_path: Path) -> None:
    save_delta(tmp_path / "one", new_delta(scale=0.1))
    checksum = hashlib.sha256((tmp_path / "one" / TENSORS).read_bytes()).hexdigest()
    broken_note(tmp_path / "one", base=str(tmp_path / "one"), checksum=checksum)
    with pytest.raises(ZgulError, match="which is not here"):
        load_named(str(tmp_path / "one"))

"""Loaded taggers: shared, never changed, and small in a pickle."""

import pickle
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import zgul
from standin import text
from threads import in_threads
from zgul.errors import ZgulError
from zgul.files import read_json, write_json
from zgul.tagger import load_tagger
from zgul.tagging.loading import load_named, load_shipped

pytestmark = pytest.mark.usefixtures("taggers")

TEXT = "sapuri ha sasike hawa parotu!"


def test_taggers_are_loaded_once_and_read_the_shipped_bank() -> None:
    tagger = load_shipped("germanic-pos")
    assert tagger is load_shipped("germanic-pos") is load_named("germanic-pos")
    assert tagger.bank_languages == ["en", "is", "de"]
    loaded = zgul.load("fo", "pos").taggers["pos"]
    assert loaded is zgul.load("gsw", "pos").taggers["pos"] and loaded.precision == "auto"
    assert loaded.model is tagger.model and zgul.load("fo", "pos", precision="float32").taggers["pos"] is tagger


def test_threads_that_load_at_once_get_one_tagger_and_one_engine(
    taggers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZGUL_TAGGERS", str(shutil.copytree(taggers, tmp_path / "unread")))
    made = in_threads(lambda number: load_shipped("slavic-pos"), count=6)
    assert len({id(tagger) for tagger in made}) == 1
    assert len({id(each) for each in in_threads(lambda number: made[0].engine, count=6)}) == 1


def test_nobody_can_change_the_settings_of_a_shared_tagger() -> None:
    tagger = load_shipped("germanic-pos")
    for change in (
        lambda: tagger.em.update(fo=None),  # type: ignore[attr-defined]
        lambda: tagger.about.clear(),  # type: ignore[attr-defined]
        lambda: tagger.labels.append("X"),  # type: ignore[attr-defined]
        lambda: setattr(tagger, "decode", "sequence"),
        lambda: setattr(tagger.parts, "labels", []),
    ):
        with pytest.raises(AttributeError):
            change()


def test_another_precision_shares_the_weights_and_leaves_the_first_alone() -> None:
    exact, rough = load_shipped("germanic-pos"), load_shipped("germanic-pos", precision="bfloat16")
    assert (exact.precision, rough.precision) == ("float32", "bfloat16")
    assert rough.model is exact.model and rough is load_shipped("germanic-pos", precision="bfloat16")


def test_marks_stay_in_languages_that_a_tagger_learnt_from_and_where_the_user_says_so(
    taggers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZGUL_TAGGERS", str(shutil.copytree(taggers, tmp_path / "strips")))
    config = tmp_path / "strips" / "germanic-pos" / "config.json"
    write_json(config, read_json(config) | {"strip_marks": True})
    found = {
        (code, choice): zgul.load(code, "pos", adapted=False, strip_marks=choice).taggers["pos"]
        for code in ("fo", "is")
        for choice in (None, True, False)
    }
    assert {key for key, tagger in found.items() if tagger.strip_marks} == {("fo", None), ("fo", True), ("is", True)}
    assert len({id(tagger.engine) for tagger in found.values()}) == 1


def test_a_missing_tagger_says_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZgulError, match=r"neither a tagger's folder .* nor one of the shipped taggers: african-ner"):
        load_named("nothing-pos")
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))
    with pytest.raises(ZgulError, match=r'"germanic-pos" is missing.*--model FOLDER'):
        load_shipped("germanic-pos")


def test_a_pickle_of_a_shipped_tagger_refers_to_its_weights() -> None:
    tagger = zgul.load("fo", "both", em_steps=3, weights=True, precision="bfloat16")
    tagger.tag(TEXT)  # makes the engines
    data = pickle.dumps(tagger)
    assert len(data) < 5000
    again = pickle.loads(data)
    assert again.taggers["pos"].model is tagger.taggers["pos"].model
    assert again.taggers["pos"].precision == "bfloat16" and again.inference == tagger.inference
    assert again.tag(TEXT).to_dict() == tagger.tag(TEXT).to_dict()
    changed = replace(load_shipped("germanic-pos"), decode="sequence", strategy="plain")
    copy = pickle.loads(pickle.dumps(changed))
    assert (copy.decode, copy.strategy) == ("sequence", "plain") and copy.model is changed.model


def test_a_pickle_of_other_taggers_holds_their_weights_once(taggers: Path) -> None:
    own = load_tagger(taggers / "germanic-pos")
    before = len(pickle.dumps(own))
    assert own.engine is not None
    assert len(pickle.dumps(own)) == before, "the engine is made again"
    shipped = load_shipped("germanic-pos")
    trained = replace(shipped, model=load_tagger(taggers / "germanic-pos").model)
    with torch.no_grad():
        trained.model.head.weight.add_(1.0)
    again = pickle.loads(pickle.dumps(trained))
    assert torch.equal(again.model.head.weight, trained.model.head.weight)


def test_threads_may_share_a_tagger_and_load_with_other_settings() -> None:
    """Two settings side by side give what each gives alone."""
    settings = ({"em": False}, {"em_steps": 3, "em_lr": 5.0})
    texts = [text(12, seed=seed) for seed in range(4)]
    expected = [[zgul.load("fo", "pos", **own).tag(one).to_dict() for one in texts] for own in settings]
    results: dict[int, list[dict]] = {}

    def work(number: int) -> None:
        tagger = zgul.load("fo", "pos", **settings[number % 2])
        results[number] = [tagger.tag(one).to_dict() for one in texts]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[number] for number in range(4)] == [expected[number % 2] for number in range(4)]

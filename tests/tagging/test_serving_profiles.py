"""What zgul knows about a language, and the accuracy it promises."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from zgul.corpora.sentence import TASKS
from zgul.languages import GROUPS, SOURCES, TARGETS, similarity
from zgul.tagging.serving import (
    adapted_names,
    adapted_note,
    describe,
    expected_accuracy,
    paper_languages,
    serving,
)


def test_a_profile() -> None:
    profile = describe("føroyskt")
    assert profile.language.code == profile.features_of == "fo"
    assert profile.assignment.group is GROUPS["germanic"]
    assert profile.most_related == "is"
    assert set(profile.similarity) == set(SOURCES)
    assert list(profile.similarity)[:3] == ["is", "de", "en"]
    assert profile.similarity["is"]["average"] == pytest.approx(similarity("fo", "is"), abs=1e-4)
    assert [replace(tagger, expected=None, zero_shot=None, learnt_from=()) for tagger in profile.taggers] == [
        serving("fo", task) for task in TASKS
    ]
    assert [tagger.expected for tagger in profile.taggers] == [expected_accuracy("fo", task) for task in TASKS]
    assert all(tagger.installed for tagger in profile.taggers)


def test_a_profile_says_whose_features_are_used_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for action in (lambda: describe("qpm"), lambda: expected_accuracy("bg", "pos"), paper_languages):
            action()
    assert describe("qpm").features_of == "bg"


def test_the_papers_languages() -> None:
    rows = paper_languages()
    assert [row.language.code for row in rows if row.role == "target"] == list(TARGETS)
    assert {row.language.code for row in rows if row.role == "source"} == set(SOURCES)
    assert [row.most_related for row in rows if row.language.code == "hsb"] == ["cs"]


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda group: group.name)
def test_measured_languages_have_their_own_f1_as_their_tagger_ships(group) -> None:  # type: ignore[no-untyped-def]
    """The numbers on the taggers' cards, by `make scores`."""
    folder = Path(__file__).parents[2] / "docs" / "results" / "embedded" / "scores.json"
    published = json.loads(folder.read_text("utf-8"))["scores"]
    for code in group.targets:
        expected = expected_accuracy(code, group.task, adapted=False)
        assert expected is not None and expected.measured_on == (code,)
        assert expected.f1 == round(published[code]["f1"], 1)


@pytest.mark.parametrize("name", adapted_names())
def test_adapted_languages_have_the_f1_of_their_adapted_tagger(name: str) -> None:
    language, _, task = name.rpartition("-")
    f1 = adapted_note(name)["about"].get("test_f1")
    expected, plain = expected_accuracy(language, task), expected_accuracy(language, task, adapted=False)
    if f1 is None:
        assert expected == plain
    else:
        assert expected is not None and expected.measured_on == (language,) and expected.f1 == round(f1, 1)


def test_other_languages_have_that_of_a_relative_with_a_caution() -> None:
    expected = expected_accuracy("Elfdalian", "pos")
    assert expected is not None and expected.measured_on == ("fo",)
    relative = expected_accuracy("fo", "pos", adapted=False)  # of the tagger that serves Elfdalian, too
    assert relative is not None and expected.f1 == relative.f1
    assert "a guess" in expected.note and "Faroese (fo)" in expected.note and "by hand" in expected.note
    source = expected_accuracy("Icelandic", "pos")
    assert source is not None and source.f1 > 90 and set(source.measured_on) > set(GROUPS["germanic"].sources)
    assert "nl" in source.measured_on  # the tagger learnt from Dutch, though its bank has no adapter of it


@pytest.mark.parametrize(("language", "task"), [("Finnish", "pos"), ("French", "pos"), ("ha", "pos"), ("fo", "ner")])
def test_nothing_is_promised_where_nothing_related_was_measured(language: str, task: str) -> None:
    assert expected_accuracy(language, task) is None


def test_taggers_of_ones_own_may_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "germanic-pos").mkdir()
    (tmp_path / "germanic-pos" / "config.json").write_text(json.dumps({"sources": ["en", "de"]}))
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))
    assert expected_accuracy("fo", "pos") is None
    assert expected_accuracy("de", "pos") is None

"""Relatedness and groups: the paper's assignments, and languages beyond the paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zgul.errors import ZgulError
from zgul.languages import (
    GROUPS,
    SOURCES,
    TARGETS,
    assign_group,
    explain_group,
    find,
    most_related,
    similarity,
)
from zgul.languages.language import load_table
from zgul.languages.relatedness import shared_ancestors

pytestmark = pytest.mark.filterwarnings("ignore::zgul.errors.ZgulWarning")
TABLE = load_table()
WITH_FEATURES = st.sampled_from([TABLE.iso3[row] for row in np.flatnonzero(TABLE.has_features)])

PAPER = {
    "germanic": ["fo", "got", "gsw"],
    "slavic": ["qpm", "hsb", "orv", "cu"],
    "african": ["ha", "ig", "rw", "lg", "luo", "pcm"],
    "indo-aryan": ["as", "bho"],
}


@pytest.mark.parametrize(("code", "name"), [(code, name) for name in PAPER for code in PAPER[name]])
def test_the_papers_assignments(code: str, name: str) -> None:
    group = assign_group(code)
    assert group is GROUPS[name]
    assert code in group.targets


def test_assignment_does_not_look_at_the_list_of_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 15 come out of the vectors: without the targets in the groups the answers are the same."""
    from dataclasses import replace

    from zgul.languages import groups

    bare = {name: replace(group, targets=()) for name, group in GROUPS.items()}
    monkeypatch.setattr(groups, "GROUPS", bare)
    for name, codes in PAPER.items():
        for code in codes:
            found = assign_group(code)
            assert found is not None
            assert found.name == name


def test_the_groups_are_the_papers() -> None:
    assert {name: list(group.targets) for name, group in GROUPS.items()} == PAPER
    assert len(TARGETS) == 15
    assert len(SOURCES) == 11
    assert {name: group.task for name, group in GROUPS.items()} == {
        "germanic": "pos",
        "slavic": "pos",
        "african": "ner",
        "indo-aryan": "ner",
    }
    assert all(group.sources[0] == "en" for group in GROUPS.values())


@pytest.mark.parametrize(
    ("language", "name"),
    [
        *[("Danish", "germanic"), ("Dutch", "germanic"), ("Scots", "germanic"), ("Western Frisian", "germanic")],
        *[("Afrikaans", "germanic"), ("Norwegian Bokmål", "germanic"), ("English", "germanic")],
        *[("Ukrainian", "slavic"), ("Polish", "slavic"), ("Macedonian", "slavic"), ("Lithuanian", "slavic")],
        *[("Marathi", "indo-aryan"), ("Nepali", "indo-aryan"), ("Sinhala", "indo-aryan")],
        *[("Zulu", "african"), ("Yoruba", "african"), ("Somali", "african"), ("Tigrinya", "african")],
        *[("Krio", "african"), ("Malagasy", "african"), ("Dinka", "african")],
        *[("de", "germanic"), ("ru", "slavic"), ("am", "african"), ("ur", "indo-aryan")],
    ],
)
def test_languages_beyond_the_paper(language: str, name: str) -> None:
    group = assign_group(language)
    assert group is not None
    assert group.name == name


@pytest.mark.parametrize("language", ["Finnish", "Turkish", "Quechua", "Basque", "Japanese", "Tamil"])
def test_a_language_related_to_no_group_has_none(language: str) -> None:
    assert assign_group(language) is None
    assert "no family" in explain_group(language).reason


def test_reasons_name_the_evidence() -> None:
    faroese = explain_group("fo")
    assert faroese.neighbour == "is"
    assert faroese.reason == "shares Icelandic-Faroese with Icelandic (is)"
    assert "Africa" in explain_group("luo").reason
    assert "English" in explain_group("pcm").reason
    assert "English" in explain_group("sco").reason
    assert "Indo-European" in explain_group("el").reason
    assert "Indo-European" in explain_group("kea").reason  # a Portuguese creole of Cape Verde
    assert "one of the group's sources" in explain_group("is").reason


def test_a_tie_between_groups_goes_to_syntax() -> None:
    """Greek shares Indo-European, and no more, with sources of three groups."""
    greek = explain_group("el")
    tied = [code for code in SOURCES if code != "en" and shared_ancestors("el", code) == 1]
    assert len(tied) == 7
    assert greek.neighbour == max(tied, key=lambda code: similarity("el", code, "syntactic"))


def test_faroese_is_nearest_icelandic_by_family_though_german_by_syntax() -> None:
    assert similarity("fo", "de", "syntactic") > similarity("fo", "is", "syntactic")
    assert similarity("fo", "is", "genetic") > similarity("fo", "de", "genetic")
    assert most_related("fo", ["en", "de", "is"]) == "is"


@pytest.mark.parametrize(("target", "source"), [("bho", "hi"), ("as", "bn"), ("hsb", "cs"), ("gsw", "de")])
def test_most_related_as_the_paper_reports(target: str, source: str) -> None:
    group = assign_group(target)
    assert group is not None
    assert most_related(target, group.sources) == source


def test_most_related_of_equals_is_the_first_and_names_will_do() -> None:
    assert most_related("Faroese", ["English", "Icelandic"]) == "is"
    assert most_related("fo", ["is", "isl"]) == "is"
    with pytest.raises(ZgulError, match="No source"):
        most_related("fo", [])


def test_genetic_similarity_by_hand() -> None:
    """Faroese and German share 3 of 6 ancestors each; Finnish and Faroese share none; isolates are alone."""
    assert similarity("fo", "de", "genetic") == pytest.approx(3 / 6)
    assert similarity("fo", "fi", "genetic") == 0
    assert similarity("eu", "fi", "genetic") == 0
    assert similarity("eu", "eu", "genetic") == 1


def test_unknown_kind() -> None:
    with pytest.raises(ZgulError, match="no similarity"):
        similarity("fo", "is", "geographic")  # type: ignore[arg-type]


@settings(deadline=None)
@given(WITH_FEATURES, WITH_FEATURES)
def test_similarity_is_symmetric_and_between_0_and_1(a: str, b: str) -> None:
    for kind in ("genetic", "syntactic", "average"):
        value = similarity(a, b, kind)
        assert 0 <= value <= 1
        assert value == pytest.approx(similarity(b, a, kind))
        assert similarity(a, a, kind) == pytest.approx(1)
    both = (similarity(a, b, "genetic") + similarity(a, b, "syntactic")) / 2
    assert similarity(a, b) == pytest.approx(both)


@settings(deadline=None)
@given(WITH_FEATURES)
def test_every_language_gets_a_group_with_a_reason_or_none_with_one(code: str) -> None:
    assignment = explain_group(code)
    assert assignment.reason
    if assignment.group is None:
        assert all(shared_ancestors(code, source) == 0 for source in SOURCES if source != "en")
        assert find(code).area != "Africa"
    else:
        assert assignment.neighbour in assignment.group.sources

"""Finding a language by code, tag and name."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zgul.errors import ZgulError
from zgul.languages import SOURCES, TARGETS, Language, find
from zgul.languages.language import load_table

TABLE = load_table()
ROWS = st.integers(0, len(TABLE.iso3) - 1)


@pytest.mark.parametrize("query", ["fo", "fao", "FO", "Faroese", "faroese", "føroyskt", "foroyskt", "fo-FO"])
def test_faroese_by_all_its_names(query: str) -> None:
    language = find(query)
    assert (language.code, language.iso3, language.name) == ("fo", "fao", "Faroese")
    assert language.autonym == "føroyskt"
    assert language.family[0] == "Indo-European"
    assert language.family[-1] == "Icelandic-Faroese"
    assert language.scripts == ("Latn",)
    assert language.script_names == ("Latin",)
    assert (language.territory, language.territory_name, language.area) == ("FO", "Faroe Islands", "Europe")


@pytest.mark.parametrize(
    ("spelling", "code"),
    [
        *[("Fo", "fo"), ("Got", "got"), ("Gsw", "gsw"), ("Qpm", "qpm"), ("Hsb", "hsb"), ("Orv", "orv")],
        *[("Cu", "cu"), ("Hau", "ha"), ("Ibo", "ig"), ("Kin", "rw"), ("Lug", "lg"), ("Luo", "luo")],
        *[("Pcm", "pcm"), ("As", "as"), ("Bh", "bho"), ("En", "en"), ("Amh", "am"), ("Swa", "sw")],
        *[("Wol", "wo"), ("Hi", "hi"), ("Bn", "bn"), ("Ur", "ur"), ("Is", "is"), ("De", "de")],
        *[("Ru", "ru"), ("Cs", "cs"), ("Am", "am")],
    ],
)
def test_the_papers_spellings(spelling: str, code: str) -> None:
    assert find(spelling).code == code


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("Old Church Slavonic", "cu"),
        ("Church Slavic", "cu"),
        ("Old East Slavic", "orv"),
        ("Old Russian", "orv"),
        ("Pomak", "qpm"),
        ("Nigerian Pidgin", "pcm"),
        ("Naija", "pcm"),
        ("Luganda", "lg"),
        ("Ganda", "lg"),
        ("Bengali", "bn"),
        ("Bangla", "bn"),
        ("भोजपुरी", "bho"),
        ("Deutsch", "de"),
        ("Norwegian Bokmål", "nb"),
        ("norwegian bokmal", "nb"),
        ("Serbo-Croatian", "sh"),
        ("Swahili", "sw"),  # its variety swh is called so too
        ("ger", "de"),  # ISO 639-2/B
        ("iw", "he"),  # withdrawn
        ("  fo \n", "fo"),
    ],
)
def test_names_and_old_codes(query: str, code: str) -> None:
    assert find(query).code == code


def test_tags() -> None:
    assert find("de-CH") == find("de_CH") == find("de")
    assert find("sr-Latn").code == "sr"
    assert find("sr-Latn-RS").scripts == ("Latn",)
    assert find("sr").scripts[0] == "Cyrl"
    assert find("zh-yue").code == "yue"


@pytest.mark.parametrize("query", ["de-", "de-CH-", "xx-Latn", "de-!!", "de-toolongsubtag"])
def test_broken_tags(query: str) -> None:
    with pytest.raises(ZgulError, match="No language is called"):
        find(query)


@pytest.mark.parametrize(
    ("typo", "meant"), [("Fareose", "Faroese (fo)"), ("Bulgarain", "Bulgarian (bg)"), ("Hausaa", "Hausa (ha)")]
)
def test_typos_get_suggestions(typo: str, meant: str) -> None:
    with pytest.raises(ZgulError) as caught:
        find(typo)
    assert typo in str(caught.value)
    assert meant in str(caught.value)


@pytest.mark.parametrize(
    ("part", "meant", "not_meant"),
    [
        ("sorbian", ["Upper Sorbian (hsb)", "Lower Sorbian (dsb)"], "Serbian"),
        ("serbšćina", ["Upper Sorbian (hsb)", "Lower Sorbian (dsb)"], "Serbian"),
        ("Norweg", ["Norwegian (no)"], "Norman"),
        ("frisian", ["Western Frisian (fy)", "Northern Frisian (frr)"], "Persian"),
    ],
)
def test_a_part_of_a_name_comes_before_similar_letters(part: str, meant: list[str], not_meant: str) -> None:
    with pytest.raises(ZgulError) as caught:
        find(part)
    assert all(name in str(caught.value) for name in meant)
    assert not_meant not in str(caught.value)


def test_nothing_like_it() -> None:
    with pytest.raises(ZgulError, match="ISO 639 code"):
        find("1234567890")


@pytest.mark.parametrize("query", ["", "  "])
def test_nothing_given(query: str) -> None:
    with pytest.raises(ZgulError, match="No language given"):
        find(query)


def test_ambiguous_names_list_the_choices() -> None:
    with pytest.raises(ZgulError, match="several languages") as caught:
        find("Tonga")
    assert "ton (Tongan)" in str(caught.value)
    assert "toi" in str(caught.value)


@settings(deadline=None)
@given(ROWS)
def test_every_code_finds_its_language(row: int) -> None:
    language = find(TABLE.iso3[row])
    assert language.row == row
    assert find(language) is language
    assert find(language.code) == language
    assert find(language.code.upper()) == language
    assert language.name


@settings(deadline=None)
@given(st.text(max_size=20))
def test_any_text_finds_a_language_or_says_why(text: str) -> None:
    try:
        assert isinstance(find(text), Language)
    except ZgulError as error:
        assert str(error)


def test_codes_follow_the_convention() -> None:
    """ISO 639-1 where it exists: what the data folders are called."""
    assert [find(code).code for code in (*SOURCES, *TARGETS)] == [*SOURCES, *TARGETS]


def test_real_data_folders_are_languages(shared_data) -> None:
    for task in ("pos", "ner"):
        for folder in (shared_data / task).iterdir():
            assert find(folder.name).code == folder.name


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("obersorbisch", "hsb"),  # in neighbours' languages
        ("верхнелужицкий", "hsb"),
        ("Färöisch", "fo"),
        ("færøysk", "fo"),
        ("suédois", "sv"),
        ("Schwyzerdütsch", "gsw"),  # in the language itself
        ("asusu igbo", "ig"),
        ("Oluganda", "lg"),
    ],
)
def test_names_in_other_languages(name: str, code: str) -> None:
    assert find(name).code == code


def test_sorbian_in_any_language_is_two_languages_and_not_serbian() -> None:
    for name in ("sorbian", "sorbisch", "Serbsce"):
        with pytest.raises(ZgulError, match=r"Lower Sorbian.*Upper Sorbian") as error:
            find(name)
        assert "Serbian" not in str(error.value)

"""URIEL features, and who stands in for a language without them."""

import warnings

import numpy as np
import pytest

from zgul.errors import ZgulError, ZgulWarning
from zgul.languages import feature_names, feature_source, features, similarity
from zgul.languages.language import load_table
from zgul.languages.relatedness import closest_relative


def test_shapes_and_values() -> None:
    syntax, everything = features("fo"), features("fo", "all")
    assert syntax.shape == (103,)
    assert everything.shape == (289,)
    assert syntax.dtype == everything.dtype == np.float32
    assert set(np.unique(everything)) == {0.0, 1.0}
    np.testing.assert_array_equal(everything[:103], syntax)
    assert len(feature_names()) == 103
    assert len(feature_names("all")) == 289


def test_known_facts() -> None:
    """English is SVO, Hindi SOV and postpositional; Zulu has clicks, German has none."""
    column = {name: i for i, name in enumerate(feature_names("all"))}

    def has(code: str, name: str) -> bool:
        return bool(features(code, "all")[column[name]])

    assert has("en", "S_SVO")
    assert not has("en", "S_SOV")
    assert has("hi", "S_SOV")
    assert has("hi", "S_ADPOSITION_AFTER_NOUN")
    assert has("en", "S_ADPOSITION_BEFORE_NOUN")
    assert has("zu", "P_CLICKS")
    assert not has("de", "P_CLICKS")


def test_a_copy_is_given() -> None:
    features("fo")[:] = 7
    assert features("fo").max() == 1


def test_pomak_gets_bulgarians_and_a_warning_says_so() -> None:
    with pytest.warns(ZgulWarning, match=r"Pomak \(qpm\).*Bulgarian \(bg\)"):
        pomak = features("qpm", "all")
    np.testing.assert_array_equal(pomak, features("bg", "all"))


def test_looking_a_language_up_does_not_use_up_the_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert feature_source("qpm").code == "bg" and similarity("qpm", "bg") > 0.9
    with pytest.warns(ZgulWarning, match="URIEL has no features of Pomak"):
        features("qpm")


def test_languages_with_features_are_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features("bg")


@pytest.mark.parametrize(
    ("code", "relative"),
    [("cnr", "sh"), ("qpm", "bg"), ("hyw", "hy")],  # a member of a macrolanguage, a variety, a sister
)
def test_closest_relative(code: str, relative: str) -> None:
    assert closest_relative(code).code == relative


def test_closest_relative_is_nearest_by_tree() -> None:
    """Against a plain search over all lineages, for every language that lacks features and has a family."""
    table = load_table()
    lacking = [row for row in np.flatnonzero(~table.has_features) if table.family[row] >= 0]
    assert len(lacking) > 20
    lineages = {row: set(table.lineage(row)) for row in np.flatnonzero(table.has_features)}
    for row in lacking:
        if table.parent[row] >= 0:
            continue
        own = set(table.lineage(row))
        relative = closest_relative(table.iso3[row])
        most = max(len(own & other) for other in lineages.values())
        assert len(own & lineages[relative.row]) == most > 0


def test_without_any_relative_it_says_so() -> None:
    with pytest.raises(ZgulError, match=r"Basque \(eu\).*no relative"):
        closest_relative("eu")


@pytest.mark.filterwarnings("ignore::zgul.errors.ZgulWarning")
def test_every_language_has_features_of_its_own_or_of_a_relative() -> None:
    table = load_table()
    for row in np.flatnonzero(~table.has_features):
        assert features(table.iso3[row]).any()


def test_unknown_feature_set() -> None:
    with pytest.raises(ZgulError, match='"syntax" or "all"'):
        features("fo", "phonology")  # type: ignore[arg-type]

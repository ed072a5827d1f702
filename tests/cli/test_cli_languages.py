"""``zgul languages`` and ``zgul relate`` as a user sees them."""

import json
import subprocess
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zgul.cli import app
from zgul.errors import ZgulError
from zgul.languages import SOURCES, TARGETS, similarity
from zgul.tagging.serving import adapted_names, describe

pytestmark = pytest.mark.filterwarnings("ignore::zgul.errors.ZgulWarning")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_list_names_every_source_and_target() -> None:
    lines = run("languages").splitlines()
    words = [line.split() for line in lines]
    for code in (*SOURCES, *TARGETS):
        assert any(code in line[:2] for line in words), code
    faroese = next(line for line in words if line[0] == "targets" and "fo" in line)
    assert faroese[-2:] == ["Latn", "is"]
    assert not any("…" in line for line in lines)
    assert "  slavic: parts of speech by slavic-pos; named entities by all-ner" in lines


def test_the_list_as_json() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that Pomak borrows its features belongs to its own sheet
        rows = json.loads(run("languages", "--json"))
    assert {row["taggers"]["ner"] for row in rows if row["role"] == "target"} == {
        "african-ner",
        "indo-aryan-ner",
        "all-ner",
    }
    assert len(rows) == 3 + 3 + 4 + 4 + 15
    assert {row["language"]["code"] for row in rows} == {*SOURCES, *TARGETS}
    assert [row["most_related"] for row in rows if row["language"]["code"] == "fo"] == ["is"]


@pytest.mark.parametrize("name", adapted_names())
def test_a_language_with_an_adapted_tagger_also_names_the_zero_shot_one(name: str) -> None:
    code, task = name.rsplit("-", 1)
    text = " ".join(run("languages", code).split())
    (served,) = [one for one in describe(code).taggers if one.task == task]
    assert f"{name}: {served.base}, adapted to raw text of" in text
    assert f"zgul tag --no-adapted uses {served.base} as it is (zero-shot)" in text
    if served.expected and served.zero_shot:
        assert f"expect an F1 of about {served.expected.f1:.0f}" in text
        assert f"an F1 of about {served.zero_shot.f1:.0f} is expected" in text
    assert name in run("languages")


def test_one_language() -> None:
    text = run("languages", "føroyskt")
    for expected in ("Faroese", "føroyskt", "fao (ISO 639-3)", "Icelandic-Faroese", "Latin (Latn)", "Faroe Islands"):
        assert expected in text
    assert "germanic: shares Icelandic-Faroese with Icelandic (is)" in text
    ranked = [line.split()[0] for line in text.splitlines() if "█" in line]
    assert len(ranked) == len(SOURCES)
    assert ranked[:3] == ["Icelandic", "German", "English"]


def test_one_language_as_json() -> None:
    profile = json.loads(run("languages", "fo", "--json"))
    assert profile == json.loads(json.dumps(asdict(describe("fo"))))
    assert profile["language"]["iso3"] == "fao"
    group = profile["assignment"]["group"]
    assert (group["name"], group["task"], group["sources"]) == ("germanic", "pos", ["en", "is", "de"])


def test_whose_features_pomak_has_is_said() -> None:
    text = " ".join(run("languages", "Pomak").split())
    assert "those of its closest relative Bulgarian (bg) are used" in text
    assert "private use" in text
    assert json.loads(run("languages", "qpm", "--json"))["features_of"] == "bg"


def test_a_language_of_no_group() -> None:
    text = run("languages", "Finnish")
    assert "none: it shares no family with any source language" in text
    assert json.loads(run("languages", "fi", "--json"))["assignment"]["group"] is None


def test_an_isolate_has_a_sheet_too() -> None:
    assert "none known" in run("languages", "Basque")


@pytest.fixture
def taggers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the shipped taggers, as far as their names and sources go."""
    for name, sources in {"indo-aryan-ner": ["en", "hi", "bn", "ur"], "all-pos": ["en", "ru"]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"sources": sources}))
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))


@pytest.mark.usefixtures("taggers")
def test_the_taggers_that_serve_a_language_are_named_with_the_reason() -> None:
    pos, ner = json.loads(run("languages", "bho", "--json"))["taggers"]
    assert (ner["task"], ner["name"], ner["installed"]) == ("ner", "indo-aryan-ner", True)
    assert (pos["task"], pos["name"], pos["installed"]) == ("pos", "all-pos", True)
    text = " ".join(run("languages", "bho").split())
    assert "named entities indo-aryan-ner: indo-aryan: shares" in text
    assert "all-pos: the indo-aryan group has no tagger for parts of speech; this one learnt from English, Ru" in text
    assert "not installed" not in text


@pytest.mark.usefixtures("taggers")
def test_no_tagger_is_claimed_where_none_is_installed(tmp_path: Path) -> None:
    text = " ".join(run("languages", "fo").split())
    assert "all-pos: germanic: shares Icelandic-Faroese with Icelandic (is) learnt from" in text
    assert "the accuracy is not known" in text
    (tmp_path / "all-pos" / "config.json").unlink()
    text = " ".join(run("languages", "fo").split())
    assert "germanic-pos: germanic: shares Icelandic-Faroese with Icelandic (is) (not installed)" in text


@pytest.mark.usefixtures("taggers")
def test_a_language_of_no_group_is_served_with_a_warning() -> None:
    taggers = json.loads(run("languages", "fi", "--json"))["taggers"]
    assert [tagger["name"] for tagger in taggers] == ["all-pos", "all-ner"]
    assert all("Finnish (fi) is related to none" in tagger["warning"] for tagger in taggers)
    assert "expect poor tags" in run("languages", "fi")


def test_the_languages_that_a_tagger_learnt_from_are_shown() -> None:
    text = " ".join(run("languages", "fo").split())
    assert "learnt from English, Icelandic, German, Dutch, Afrikaans, Danish" in text  # also those without adapters
    pos, ner = json.loads(run("languages", "fo", "--json"))["taggers"]
    assert pos["learnt_from"][:4] == ["en", "is", "de", "nl"]
    assert ner["learnt_from"] == ["en", "am", "sw", "wo", "hi", "bn", "ur"]


def test_the_accuracy_to_expect_is_shown() -> None:
    text = " ".join(run("languages", "fo").split())
    assert "expect an F1 of about 79: measured on its test file" in text
    assert "the accuracy is not known: no related language was measured" in text


def test_heat_map_reads_without_colour() -> None:
    text = run("relate", "fo", "is", "de", "en")
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[1].split() == ["fo", "is", "de", "en"]
    assert lines[2].split() == ["Faroese", "(fo)", "██", "1.00", "██", "0.95", "▓▓", "0.71", "▓▓", "0.64"]
    assert "Most related to Faroese (fo): Icelandic (is)" in text


def test_heat_map_cuts_nothing_off_when_wide() -> None:
    text = run("relate", *SOURCES, *TARGETS)
    assert "…" not in text
    assert len([line for line in text.splitlines() if "1.00" in line and "(" in line]) == 26


def test_relate_as_json_has_all_three_kinds() -> None:
    answer = json.loads(run("relate", "Swiss German", "de", "is", "--json"))
    assert answer["languages"] == ["gsw", "de", "is"]
    for kind in ("average", "genetic", "syntactic"):
        assert answer[kind][0][1] == pytest.approx(similarity("gsw", "de", kind), abs=1e-4)  # type: ignore[arg-type]
        assert [answer[kind][i][i] for i in range(3)] == pytest.approx([1, 1, 1])


def test_kind() -> None:
    assert "genetic similarity" in run("relate", "fo", "is", "--kind", "genetic")
    with pytest.raises(ZgulError, match="choose one of"):
        run("relate", "fo", "is", "--kind", "lexical")


@pytest.mark.parametrize("names", [["fo"], ["fo", "fao", "Faroese"]])
def test_relate_needs_two_languages(names: list[str]) -> None:
    with pytest.raises(ZgulError, match="two different languages"):
        run("relate", *names)


def test_a_typo_gives_one_line_and_no_traceback() -> None:
    command = [sys.executable, "-c", "from zgul.cli import main; main()", "languages", "Fareose"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.strip() == 'zgul: No language is called "Fareose". Did you mean Faroese (fo)?'


@pytest.mark.parametrize("arguments", [["languages", "fo"], ["relate", "fo", "is"], ["languages"]])
def test_no_torch_is_loaded(arguments: list[str]) -> None:
    """A question about a language is answered in half a second."""
    code = f"import sys, zgul.cli; zgul.cli.app({arguments}, standalone_mode=False); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("command", ["languages", "relate"])
def test_help_shows_examples(command: str) -> None:
    text = run(command, "--help")
    assert f"zgul {command} fo" in text

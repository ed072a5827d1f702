"""``zgul adapt`` as a user meets it, on a stand-in for the shipped tagger."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import standin
from zgul.cli import app
from zgul.corpora import Sentence, columns
from zgul.errors import ZgulError


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return standin.stand_in_taggers(tmp_path_factory.mktemp("taggers"), ("germanic-pos",))


@pytest.fixture(autouse=True)
def folder(stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZGUL_TAGGERS", str(stand_ins))
    monkeypatch.chdir(tmp_path)
    made = standin.words().sentences("s0", 20, seed=3)
    columns.write("20.tsv", [Sentence(one.words, one.tags) for one in made])
    Path("text.txt").write_text(standin.text(70), "utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_labels_in_a_tagger_out() -> None:
    quick = ("--few-epochs", "20", "--few-lr", "0.01")
    made = run("adapt", "--lang", "fo", "--labelled", "20.tsv", "--dev", "20.tsv", *quick, "--output", "mine")
    assert made.exit_code == 0, made.output
    for part in (
        "labelled sentences: kept",
        "judged on 20)",
        "of the words of the labelled",
        "F1 on --dev",
        "Use it: zgul tag --lang fo --model mine",
    ):
        assert part in " ".join(made.stdout.split())
    named = run("tag", "--lang", "fo", "--model", "mine", "sapuri ha sasike")
    known = run("tag", "--model", "mine", "sapuri ha sasike")  # the result knows its language
    assert named.exit_code == 0 and known.stdout == named.stdout != ""
    with pytest.raises(ZgulError, match="Say which language"):
        run("tag", "--model", "germanic-pos", "sapuri ha sasike")
    assert run("evaluate", "--lang", "fo", "--model", "mine", "--data", "20.tsv").exit_code == 0


def test_text_in_and_facts_as_json() -> None:
    made = run("adapt", "-l", "fo", "--text", "text.txt", "--epochs", "1", "--budget", "1m", "-o", "mine", "--json")
    assert made.exit_code == 0, made.output
    facts = json.loads(made.stdout)
    assert facts["text"]["kept"] and facts["steps"][0]["name"] == "raw text" and isinstance(facts["worth_it"], bool)


def test_mistakes_are_one_line() -> None:
    for wrong, problem in (
        ([], "Give raw text"),
        (["--text", "missing.txt"], "no such file"),
        (["--text", "text.txt", "--budget", "soon"], "not a time"),
        (["--labelled", "20.tsv", "--task", "ner", "--model", "germanic-pos"], "is a tagger for pos"),
    ):
        with pytest.raises(ZgulError, match=problem):
            run("adapt", "--lang", "fo", "--output", "mine", *wrong)
    assert not Path("mine").exists()

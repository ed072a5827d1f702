"""``zgul tag`` as a user meets it, on stand-ins for the shipped taggers."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from standin import stand_in_taggers, text
from zgul.cli import app
from zgul.corpora import Sentence, conllu
from zgul.errors import ZgulError, ZgulWarning
from zgul.tagger import Prediction, Tagger
from zgul.tagging import text_tagger

MIXED = [
    ("sapuri", "Gloss=a"),
    ("ha", "Lang=de|Gloss=b"),
    ("sasike", "SpaceAfter=No"),
    ("hawa", "Lang=de"),
    ("wa", "X=1"),
]
TEXT = "sapuri ha sasike hawa parotu! satedi tapise haja wa sagesu!"
COMMAND = [sys.executable, "-c", "from zgul.cli import main; main()", "tag"]


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in_taggers(tmp_path_factory.mktemp("taggers"))


@pytest.fixture(autouse=True)
def folder(stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All taggers are there; the working folder is empty."""
    monkeypatch.setenv("ZGUL_TAGGERS", str(stand_ins))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["tag", *arguments], input=stdin, catch_exceptions=False)


def out(*arguments: str, stdin: str | bytes | None = None) -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_text_to_conllu() -> None:
    first, second = conllu.read(io.BytesIO(out("--lang", "fo", TEXT).encode()))
    assert first.comment("text") == "sapuri ha sasike hawa parotu!"
    assert second.words == ["satedi", "tapise", "haja", "wa", "sagesu", "!"]
    assert "_" not in first.upos + second.upos
    assert set(first.ner) == {"_"}


def test_a_file_and_standard_input_and_the_text_itself_give_the_same(folder: Path) -> None:
    (folder / "book.txt").write_text(TEXT)
    with lzma.open(folder / "book.txt.xz", "wt") as file:
        file.write(TEXT)
    expected = out("--lang", "fo", TEXT)
    assert out("--lang", "Faroese", "book.txt") == expected
    assert out("--lang", "fao", "book.txt.xz") == expected
    assert out("--lang", "fo", stdin=TEXT) == expected
    assert out("--lang", "fo", "-", stdin=TEXT) == expected
    assert out("--lang", "fo", *TEXT.split()) == expected


def test_entities_as_json() -> None:
    lines = [json.loads(line) for line in out("--lang", "luo", "--format", "json", stdin=TEXT).splitlines()]
    assert [line["start"] for line in lines] == [0, 30]
    assert "upos" not in lines[0]
    for line in lines:
        assert len(line["ner"]) == len(line["words"])
        assert all(TEXT[entity["start"] : entity["end"]] == entity["text"] for entity in line["entities"])


def test_both_tasks_and_weights_in_every_format() -> None:
    settings = ("--lang", "fo", "--task", "both", "--weights", TEXT, "--format")
    block = next(conllu.read(io.BytesIO(out(*settings, "conllu").encode())))
    assert "_" not in block.upos + block.ner
    assert block.rows[0][9].count("Weights=") == 2
    row = out(*settings, "tsv").splitlines()[0].split("\t")
    assert row[0] == "sapuri"
    assert row[3:] == [block.upos[0], block.ner[0]]
    data = json.loads(out(*settings, "json").splitlines()[0])
    assert (data["upos"], data["ner"]) == (block.upos, block.ner)
    assert set(data["upos_weights"][0]) == {"en", "is", "de"}


def test_lines_and_tokens() -> None:
    data = "sapuri ha! sasike\nhawa, parotu\n"
    lines = out("--lang", "fo", "--input", "lines", "-f", "tsv", stdin=data).split("\n\n")
    assert [block.count("\n") + 1 for block in lines if block] == [4, 3]
    tokens = out("--lang", "fo", "--input", "tokens", "-f", "tsv", stdin=data)
    assert [line.split("\t")[0] for line in tokens.splitlines() if line] == data.split()


def test_conllu_in_keeps_all_but_the_tags(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tagger, "MAX_UNKNOWN", 1.0)  # the stand-ins know few letters
    path = sorted((shared_data / "conllu").glob("*.conllu.xz"))[0]
    head = lzma.open(path, "rt", encoding="utf-8").read(30_000).rpartition("\n\n")[0] + "\n\n"  # noqa: SIM115
    written = out("--lang", "fo", "--task", "pos", "--no-em", stdin=head)
    before, after = ([line.split("\t") for line in data.split("\n")] for data in (head, written))
    changed = 0
    for old, new in zip(before, after, strict=True):
        if len(old) == 10 and old[0].isdigit():
            changed += old[3] != new[3]
            old[3] = new[3]
        assert new == old
    assert changed


def shares(misc: str) -> dict[str, float]:
    pairs = misc.split("POSWeights=")[1].split(",")
    return {code: float(share) for code, share in (pair.split(":") for pair in pairs)}


def test_words_of_another_language_in_conllu() -> None:
    """``Lang=de`` changes the mix of that word, and MISC is kept; the other words are those of ``--lang``."""
    rows = ["\t".join([str(n), word, *"_______", misc]) for n, (word, misc) in enumerate(MIXED, start=1)]
    mixed = "\n".join([*rows, "", ""])
    plain = mixed.replace("Lang=de|", "").replace("Lang=de", "_")
    settings = ("--lang", "fo", "--weights", "--no-em")
    (own,) = conllu.read(io.BytesIO(out(*settings, stdin=mixed).encode()))
    (none,) = conllu.read(io.BytesIO(out(*settings, stdin=plain).encode()))
    assert [row[9].split("|POSWeights")[0] for row in own.rows] == [misc for _, misc in MIXED]
    ours, plains = ([shares(row[9]) for row in block.rows] for block in (own, none))
    moved = [max(abs(a[code] - b[code]) for code in a) for a, b in zip(ours, plains, strict=True)]
    foreign, others = ([m for m, (_, misc) in zip(moved, MIXED, strict=True) if ("Lang" in misc) == x] for x in (1, 0))
    assert min(foreign) > 3 * max(others), "others only feel it through attention"


def test_such_words_are_scored_in_their_language(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ["\t".join([str(n), word, "_", "X", *"_____", misc]) for n, (word, misc) in enumerate(MIXED, start=1)]
    (folder / "mixed.conllu").write_text("\n".join([*rows, "", ""]))
    seen = []
    predict = Tagger.predict

    def spy(tagger: Tagger, sentences: list[Sentence], **settings: object) -> list[Prediction]:
        seen.extend(sentences)
        return predict(tagger, sentences, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Tagger, "predict", spy)
    asked = ["evaluate", "--task", "pos", "--lang", "fo", "--data", "mixed.conllu", "--no-em"]
    assert CliRunner().invoke(app, asked, catch_exceptions=False).exit_code == 0
    assert seen[0].word_languages == ["fo", "de", "fo", "de", "fo"]


def test_em_switches() -> None:
    plain, default, strong = (
        out("--lang", "fo", "-f", "json", *switches, TEXT)
        for switches in (["--no-em"], [], ["--em", "--em-steps", "5", "--em-lr", "20"])
    )
    assert len({plain, default, strong}) == 3
    assert out("--lang", "fo", "-f", "json", "--em-steps", "0", TEXT) == plain


def test_probabilities_are_written_on_request() -> None:
    settings = ("--lang", "fo", "--task", "both", "--no-em", TEXT, "--format")
    data = json.loads(out(*settings, "json").splitlines()[0])
    block = next(conllu.read(io.BytesIO(out(*settings, "conllu", "--probabilities").encode())))
    assert [row[9].split("POSProb=")[1][:6] for row in block.rows] == [f"{p:.4f}" for p in data["upos_probabilities"]]
    assert [row[9].split("NERProb=")[1][:6] for row in block.rows] == [f"{p:.4f}" for p in data["ner_probabilities"]]
    assert "Prob=" not in out(*settings, "conllu")
    row = out(*settings, "tsv", "--probabilities").splitlines()[0].split("\t")
    assert row[1:3] == [f"{data[f'{name}_probabilities'][0]:.4f}" for name in ("upos", "ner")]


def test_another_tagger() -> None:
    assert out("--lang", "fo", "--model", "slavic-pos", TEXT) != out("--lang", "fo", TEXT)


def test_on_a_screen_the_words_stand_over_their_tags() -> None:
    text = out("--lang", "fo", "--task", "both", "--weights", "--format", "terminal", TEXT)
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["Faroese", "·", "parts", "of", "speech"]
    assert "germanic-pos, learnt from English, Icelandic, German" in " ".join(text.split())
    at = lines.index(["sapuri", "ha", "sasike", "hawa", "parotu", "!"])
    assert [line[0] for line in lines[at + 1 : at + 6]] == ["POS", "en", "is", "de", "NER"]
    assert [len(line) for line in lines[at + 1 : at + 5]] == [7] * 4
    assert "%\u00a0how\u00a0much" in text
    assert "\x1b" not in text


def test_a_screen_without_names_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No names were found." not in out("--lang", "luo", "-f", "terminal", TEXT)
    predict = Tagger.predict
    monkeypatch.setattr(
        Tagger, "predict", lambda *a, **k: [replace(p, tags=["O"] * len(p.tags)) for p in predict(*a, **k)]
    )
    assert "No names were found." in out("--lang", "luo", "-f", "terminal", TEXT)


def test_long_sentences_are_broken_to_the_width_of_the_screen() -> None:
    text = out("--lang", "fo", "--weights", "-f", "terminal", " ".join(TEXT.replace("!", "").split() * 8))
    assert max(map(len, text.splitlines())) <= 80
    assert sum("sapuri" in line for line in text.splitlines()) == 8


def test_the_language_is_guessed_and_how_sure_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tagger, "MAX_UNKNOWN", 1.0)
    result = run("--lang", "AUTO", "Hetta er ein lítil roynd, og vit vóna, at tað gongur væl.", "-f", "json")
    assert json.loads(result.stdout)["language"] == "fo"
    assert "the text looks like Faroese (fo), over 99% sure" in result.stderr
    assert "next comes" in result.stderr


def test_an_unsure_guess_is_a_warning() -> None:
    with pytest.warns(ZgulWarning, match="name the language with --lang"):
        run("--lang", "auto", "--task", "pos", "sasike")
    with pytest.warns(ZgulWarning, match="but 2 letters are too few to be certain"):
        run("--lang", "auto", "--task", "pos", "ok")


@pytest.mark.parametrize(
    ("arguments", "stdin", "problem"),
    [
        ([TEXT], None, "Say which language"),
        (["--lang", "Fareose", TEXT], None, r"Did you mean Faroese \(fo\)"),
        (["--lang", "fo", ""], None, "The text is empty"),
        (["--lang", "fo"], "", "standard input holds no words"),
        (["--lang", "fo"], " \n\n", "standard input holds no words"),
        (["--lang", "fo", "book.txt"], None, "book.txt: no such file"),
        (["--lang", "fo"], b"\x7fELF\x02\x01\x00", "NUL"),
        (["--lang", "fo"], b"\x7fELF\x02\xf3\x00", "NUL"),
        (["--lang", "fo"], b"%PDF-1.7", "standard input is a PDF file"),
        (["--lang", "fo"], b"<html><body>", "standard input holds no words"),
        (["--lang", "fo", "--device", "gpu0", TEXT], None, "no device 'gpu0' here"),
        (["--lang", "fo", "--precision", "half", TEXT], None, "precision is one of"),
        (["--lang", "fo", "--em-steps", "-1", TEXT], None, "steps must be at least 0"),
        (["--lang", "fo", "--input", "lines"], b"x" * ((1 << 24) + 1), "longer than 16 MiB"),
        (["--lang", "fo", "--input", "conllu"], "text\n", "CoNLL-U has 10"),
        (
            ["--lang", "fo", "--format", "xml", TEXT],
            None,
            "no format 'xml'. Choose terminal, conllu, tsv or json",
        ),
        (["--lang", "fo", "--task", "parse", TEXT], None, "no task 'parse'"),
        (["--lang", "fo", "--input", "pdf", TEXT], None, "input is one of auto, text, lines"),
        (["--lang", "fo", "--resume", TEXT], None, "--resume and --force are for files"),
        (["--lang", "fo", "-o", "x.conllu.xz", TEXT], None, "not compressed"),
        (["--lang", "fo", "-o", ".", TEXT], None, "The output of the text given needs a name"),
        (["--lang", "fo", "-o", "nowhere/x.conllu", TEXT], None, "there is no folder nowhere"),
        (["--lang", "fo", "-o", "x", "-f", "terminal", TEXT], None, "format for files"),
        (["--lang", "fo", "--probabilities", "-f", "terminal", TEXT], None, "format for files"),
        (["--lang", "fo", "Щит и меч"], None, "100% of the pieces"),
        (["--lang", "auto", "12 34"], None, "cannot be guessed"),
    ],
)
def test_mistakes(arguments: list[str], stdin: str | bytes | None, problem: str) -> None:
    with pytest.raises(ZgulError, match=problem):
        run(*arguments, stdin=stdin)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(ZgulError, match="no device 'cuda' here"):
        run("--lang", "fo", "--device", "cuda", TEXT)


@pytest.mark.parametrize("name", ["same", "link"])
def test_the_input_is_not_written_over(folder: Path, name: str) -> None:
    (folder / "same").write_text(TEXT)
    (folder / "link").symlink_to("same")
    for resume in ([], ["--resume"], ["--force"]):
        with pytest.raises(ZgulError, match="would destroy the input"):
            run("--lang", "fo", "same", "--output", name, *resume)
    with Path("same").open() as stdin:
        done = subprocess.run(
            [*COMMAND, "--lang", "fo", "--output", name], stdin=stdin, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("destroy the input")) == (2, 1)
    assert (folder / "same").read_text() == TEXT


def test_nor_is_an_input_that_is_named_like_an_unfinished_output(folder: Path) -> None:
    (folder / "book.part").write_text(TEXT)
    with pytest.raises(ZgulError, match="would destroy the input"):
        run("--lang", "fo", "book.part", "--output", "book", "--force")
    assert (folder / "book.part").read_text() == TEXT


@pytest.mark.parametrize(
    ("language", "content"),
    [("fo", b"\n" * 200_000), ("fo", b" " * 40_000_000), ("auto", b"sasike\n" + b"\n" * 200_000)],
    ids=["lines", "blanks", "lines after a word"],
)
def test_a_small_file_of_blanks_is_not_unpacked_into_memory(folder: Path, language: str, content: bytes) -> None:
    (folder / "bomb.txt.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ZgulError, match=r"begins with too many blanks"):
        run("--lang", language, "bomb.txt.gz")


@pytest.mark.parametrize("packing", ["gz", "xz", "bz2"])
def test_damaged_files(folder: Path, packing: str) -> None:
    module = {"gz": gzip, "xz": lzma, "bz2": bz2}[packing]
    (folder / f"cut.txt.{packing}").write_bytes(module.compress(text(100).encode())[:200])  # type: ignore[attr-defined]
    (folder / f"no.txt.{packing}").write_text(TEXT)
    for name in (f"cut.txt.{packing}", f"no.txt.{packing}"):
        with pytest.raises(ZgulError, match=f"{name}.*damaged or cut short"):
            run("--lang", "fo", name)


def test_a_tagger_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZGUL_TAGGERS", str(folder))
    with pytest.raises(ZgulError, match='"germanic-pos" is missing'):
        run("--lang", "fo", TEXT)


def test_order_is_kept_over_many_windows(folder: Path) -> None:
    data = text(400)
    (folder / "book.txt").write_text(data)
    assert run("--lang", "fo", "--no-em", "book.txt", "--output", "book.tsv", "-f", "tsv").stdout == ""
    found = [line.split("\t")[0] for line in (folder / "book.tsv").read_text().splitlines() if line]
    assert found == data.replace(".", " .").replace("!", " !").split()


# --- output files


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.01)


def start(arguments: list[str], **settings: object) -> subprocess.Popen[str]:
    """A process as a user has it, even if the parent ignores Ctrl-C (``nohup``, ``make test &``)."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        text=True,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **settings,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["int", "term", "kill"])
def test_stopped_midway_and_resumed_the_file_is_the_same(folder: Path, number: signal.Signals) -> None:
    (folder / "book.txt").write_text(text(1500))
    settings = ["--lang", "fo", "--em-steps", "4", "-f", "json", "book.txt", "--output"]
    part = folder / "cut.json.part"
    process = start([*settings, "cut.json"])
    wait_for(lambda: part.is_file() and part.stat().st_size > 100_000, process)
    process.send_signal(number)
    said = process.communicate()[1]
    assert not (folder / "cut.json").exists() and part.read_bytes().count(b"\n") < 1500
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        part.write_bytes(part.read_bytes()[:-50])  # as if the last write had been cut off
    else:
        go_on = "cut.json.part holds the finished part; the same command with --resume continues it"
        assert (process.returncode, said) == (130, f"zgul: stopped: {go_on}\n")
        with pytest.raises(ZgulError, match=r"cut\.json\.part was not finished. Continue it with --resume"):
            run(*settings, "cut.json")
    assert "sentences; the rest was added" in run(*settings, "cut.json", "--resume").stderr
    out(*settings, "whole.json")
    assert (folder / "cut.json").read_bytes() == (folder / "whole.json").read_bytes()
    assert not part.exists()
    assert "cut.json already had 1,500 sentences\n" in run(*settings, "cut.json", "--resume").stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_writing_to_a_pipe(folder: Path, number: signal.Signals) -> None:
    (folder / "book.txt").write_text(text(2000))
    with (folder / "out").open("wb") as stdout:
        process = start(["--lang", "fo", "--em-steps", "8", "book.txt"], stdout=stdout)
        wait_for(lambda: (folder / "out").stat().st_size > 0, process)
        process.send_signal(number)
        said = process.communicate()[1]
    assert (process.returncode, said) == (130, "zgul: stopped\n")


def test_an_existing_output_survives_everything_but_force(folder: Path) -> None:
    """Issue 18: the output was opened before the input was checked."""
    (folder / "runes.txt").write_text("ᚠᚢᚦᚬᚱᚴ ᚼᚾᛁᛅᛋ ᛏᛒᛘᛚᛦ\n")
    (folder / "a.txt").write_text(text(40))
    (folder / "keep.tsv").write_text("precious\tX\n\n")
    for arguments in (["runes.txt"], ["a.txt"], ["a.txt", "--resume"], ["runes.txt", "--force"]):
        with pytest.raises(ZgulError):
            run("--lang", "fo", *arguments, "-f", "tsv", "-o", "keep.tsv")
        assert (folder / "keep.tsv").read_text() == "precious\tX\n\n"
    out("--lang", "fo", "a.txt", "-f", "tsv", "-o", "keep.tsv", "--force")
    assert (folder / "keep.tsv").read_text() == out("--lang", "fo", "a.txt", "-f", "tsv")
    assert "keep.tsv already had 40 sentences" in run("--lang", "fo", "a.txt", "-f", "tsv", "-o", "keep.tsv").stderr


def test_resuming_with_other_input_or_settings_is_refused(folder: Path) -> None:
    (folder / "a.txt").write_text(text(40))
    out("--lang", "fo", "a.txt", "--output", "a.conllu")
    before = (folder / "a.conllu").read_bytes()
    with pytest.raises(ZgulError, match="tagged in another way"):
        run("--lang", "fo", "--weights", "a.txt", "--output", "a.conllu", "--resume")
    (folder / "b.txt").write_text(text(40, seed=1))
    with pytest.raises(ZgulError, match="has other words"):
        run("--lang", "fo", "b.txt", "--output", "a.conllu", "--resume")
    assert (folder / "a.conllu").read_bytes() == before


def test_resume_without_a_file_starts_one(folder: Path) -> None:
    out("--lang", "fo", TEXT, "--output", "a.conllu", "--resume")
    assert (folder / "a.conllu").read_text() == out("--lang", "fo", TEXT)


@pytest.mark.filterwarnings("ignore::zgul.errors.ZgulWarning")
def test_a_folder_of_files(folder: Path) -> None:
    (folder / "texts" / "old").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "old/c.txt"):
        (folder / "texts" / name).write_text(text(3))
    summary = "zgul: tagged/: 3 files tagged\n"
    assert run("--lang", "hsb", "texts/", "-o", "tagged/").stderr == summary
    made = sorted(str(path.relative_to(folder)) for path in (folder / "tagged").rglob("*.*"))
    assert made == ["tagged/a.conllu", "tagged/b.conllu", "tagged/old/c.conllu"]
    assert (folder / "tagged/a.conllu").read_text() == out("--lang", "hsb", "texts/a.txt")
    (folder / "texts" / "b.txt").write_text(text(3, seed=1))
    (folder / "texts" / "d.pdf").write_bytes(b"%PDF-1.4")
    before = (folder / "tagged/b.conllu").read_bytes()
    with pytest.raises(ZgulError, match="2 of 4 files were not tagged"):
        run("--lang", "hsb", "texts", "-o", "tagged")
    assert (folder / "tagged/b.conllu").read_bytes() == before, "of another text, so it needs --force"
    (folder / "texts" / "d.pdf").unlink()
    forced = run("--lang", "hsb", "texts", "-o", "tagged", "--force").stderr
    assert forced == summary.replace("tagged/", "tagged", 1)
    assert (folder / "tagged/b.conllu").read_bytes() != before


def test_several_names_and_patterns(folder: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(text(2, seed=ord(name[0])))
    streamed = out("--lang", "fo", "-f", "tsv", "a.txt", "b.txt")
    assert streamed == out("--lang", "fo", "-f", "tsv", "*.txt")
    assert streamed == out("--lang", "fo", "-f", "tsv", "a.txt") + out("--lang", "fo", "-f", "tsv", "b.txt")
    run("--lang", "fo", "-f", "tsv", "*.txt", "-o", "tagged")
    assert sorted(path.name for path in (folder / "tagged").iterdir()) == ["a.tsv", "b.tsv"]
    assert (
        "tagged: 0 files tagged, 2 complete already" in run("--lang", "fo", "-f", "tsv", "*.txt", "-o", "tagged").stderr
    )
    with pytest.raises(ZgulError, match=r"all\.tsv is the name of a file, but 2 files .* Name a folder"):
        run("--lang", "fo", "-f", "tsv", "*.txt", "-o", "all.tsv")
    assert not (folder / "all.tsv").exists()
    with pytest.raises(ZgulError, match=r"c\.txt: no such file. Give files alone"):
        run("--lang", "fo", "a.txt", "c.txt")


def test_each_file_of_a_folder_is_guessed_by_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tagger, "MAX_UNKNOWN", 1.0)
    (folder / "fo.txt").write_text("Hetta er ein lítil roynd, og vit vóna, at tað gongur væl.\n")
    (folder / "hsb.txt").write_text("Serbja su słowjanski lud we wuchodnej Němskej, kotryž rěči serbsce.\n")
    said = run("--lang", "auto", "--task", "pos", "-f", "json", "*.txt", "-o", "tagged").stderr
    assert "Faroese (fo)" in said and "Upper Sorbian (hsb)" in said
    for code in ("fo", "hsb"):
        assert json.loads((folder / "tagged" / f"{code}.json").read_text())["language"] == code


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_are_read_with_a_warning(folder: Path, encoding: str) -> None:
    (folder / "book.txt").write_bytes((TEXT.replace("wa", "wá") + "\n").encode(encoding))
    with pytest.warns(ZgulWarning, match=r"book\.txt .*read as (UTF-16|Latin-1)"):
        assert "\twá\t" in out("--lang", "fo", "--no-em", "book.txt")


def test_output_comes_while_input_is_still_open() -> None:
    """The first window is written and flushed before the input ends. The first 200 lines decide what the input is."""
    process = subprocess.Popen(
        [*COMMAND, "--lang", "fo", "--no-em", "-f", "tsv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(text(110).encode())
    process.stdin.flush()
    assert process.stdout.readline().count(b"\t") == 1
    process.stdin.close()
    process.stdout.read()
    assert process.wait() == 0


def shell(command: str) -> tuple[int, str]:
    """The exit code of a shell command and what it says on stderr; ``zgul`` in it is ours."""
    program = " ".join(shlex.quote(part) for part in COMMAND[:-1])
    done = subprocess.run(
        ["bash", "-c", command.replace("zgul ", f"{program} ")], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


QUICK = ("languages fo", "--version", "--help", "tag --help")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["tag --lang fo -f tsv", "tag --lang fo -f terminal", *(f"{x} #" for x in QUICK)])
def test_a_full_disk_is_one_clear_line(command: str) -> None:
    code, said = shell(
        f"exec >/dev/full; zgul {command.replace('#', '')} {'' if '#' in command else shlex.quote(TEXT)}"
    )
    assert (code, said) == (2, "zgul: The output cannot be read or written (No space left on device).\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_to_what_is_no_plain_file(folder: Path) -> None:
    with pytest.raises(ZgulError, match=r"/dev/full cannot be written \(No space left on device\)"):
        run("--lang", "fo", TEXT, "-o", "/dev/full")
    out("--lang", "fo", TEXT, "-o", "/dev/null")
    expected = out("--lang", "fo", TEXT)
    for name in ("/dev/stdout", "-"):
        assert out("--lang", "fo", TEXT, "-o", name) == expected
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True)
    out("--lang", "fo", TEXT, "-o", "pipe")
    assert reader.communicate()[0] == expected


@pytest.mark.parametrize(
    ("command", "shown"),
    [(f"tag --lang fo --no-em -f terminal {shlex.quote(TEXT)}", r"\xb7"), ("languages fo", r"\xf8")],
)
def test_a_screen_that_lacks_letters_shows_the_others(folder: Path, command: str, shown: str) -> None:
    assert shell(f"export PYTHONIOENCODING=ascii; zgul {command} >screen") == (0, "")
    assert shown in (folder / "screen").read_text("ascii")
    assert shell("export PYTHONIOENCODING=ascii; zgul languages fo --json >data.json") == (0, "")
    assert json.loads((folder / "data.json").read_text("ascii"))["language"]["autonym"] == "føroyskt"


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes there")
def test_a_name_that_is_no_utf_8_is_printed_as_it_is(folder: Path) -> None:
    assert shell("export PYTHONIOENCODING=utf-8:strict; zgul init germanic -o $'\\xff.yaml' >shown") == (0, "")
    assert (folder / "shown").read_bytes().startswith(b"\xff.yaml is ready")


@pytest.mark.parametrize("form", ["conllu", "terminal"])
def test_a_reader_that_has_had_enough_is_no_failure(folder: Path, form: str) -> None:
    (folder / "book.txt").write_text(text(1500))
    code, said = shell(f"zgul tag --lang fo --no-em -f {form} book.txt | head -2 >head; exit ${{PIPESTATUS[0]}}")
    assert (code, said) == (0, "")
    assert len((folder / "head").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("<&-", 2, "zgul: standard input holds no words, so there is nothing to tag.\n"),
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        (">&- 2>&- <&-", 2, ""),
    ],
)
def test_closed_streams_give_no_traceback(folder: Path, redirection: str, code: int, said: str) -> None:
    given = "" if "<" in redirection else shlex.quote(TEXT)
    assert shell(f"zgul tag --lang fo --no-em {given} {redirection}") == (code, said)


@pytest.mark.parametrize("redirection", ["2> >(true)", "2>/dev/full"])
def test_messages_that_nobody_can_read_do_not_stop_it(folder: Path, redirection: str) -> None:
    (folder / "a.txt").write_text(f"{TEXT}\r\n")  # there is a warning about the line end
    assert shell(f"zgul tag --lang fo --no-em a.txt -o a.conllu {redirection}") == (0, "")
    assert (folder / "a.conllu").is_file()


@pytest.mark.parametrize(
    ("command", "total"),
    [
        ("book.txt -o book.conllu", True),
        ("texts/ -o tagged/", True),
        ("< book.txt > book.conllu", True),
        ("- < <(cat book.txt) > book.conllu", False),  # nobody knows how much will come through a pipe
        ("book.txt.gz -o book.conllu", False),
    ],
)
def test_a_screen_shows_words_a_second_and_the_time_left(folder: Path, command: str, total: bool) -> None:
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    (folder / "texts").mkdir()
    for name in ("book.txt", "texts/a.txt", "texts/b.txt"):
        (folder / name).write_text(text(300))
    (folder / "book.txt.gz").write_bytes(gzip.compress(text(300).encode()))
    screen, inside = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    program = " ".join(map(shlex.quote, COMMAND))
    started = subprocess.Popen(["bash", "-c", f"{program} --lang fo {command}"], stderr=inside, env=environment)
    os.close(inside)
    shown = ""
    with contextlib.suppress(OSError):  # Linux says so at the end
        while part := os.read(screen, 1 << 16):  # what is written comes in several parts
            shown += part.decode(errors="replace")
    os.close(screen)
    assert started.wait() == 0
    plain = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", shown)
    count, _, left = plain.rpartition(" words a second ")
    assert count.startswith("tagging") and count.endswith("/?") != total, plain
    assert ("0:00:00" in left) == total, plain


def test_an_error_is_one_line_without_a_traceback() -> None:
    result = subprocess.run([*COMMAND, "--lang", "fo", "nosuch.txt"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("zgul: nosuch.txt: no such file")
    assert result.stderr.count("\n") == 1


def test_names_that_no_file_can_have() -> None:
    code, said = shell(f"zgul tag --lang fo -o {'a' * 300} {shlex.quote(TEXT)}")
    assert code == 2 and said.count("\n") == 1 and "File name too long" in said


def test_what_is_nobodys_fault_is_one_line_and_a_report(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZGUL_CACHE", str(folder / "cache"))
    for error in ("KeyError('x')", "BaseException('x')"):  # the second is what a panic in Rust code looks like
        broken = f"import zgul.cli as c, sys; c.app = lambda **_: (_ for _ in ()).throw({error}); c.main()"
        done = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "internal error" in done.stderr and "Traceback" not in done.stderr
        report = Path(done.stderr.split(" is in ")[1].split(". Please report it.")[0])
        assert "Traceback" in report.read_text()
        environment = {**os.environ, "ZGUL_DEBUG": "1"}
        done = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, env=environment)
        assert done.returncode == 1 and "Traceback" in done.stderr


def test_a_language_of_no_group_is_warned_of() -> None:
    result = subprocess.run([*COMMAND, "--lang", "fi", TEXT], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert "zgul: warning: Finnish (fi) is related to none" in result.stderr


def test_help_has_examples() -> None:
    assert 'zgul tag --lang fo "Hetta er ein lítil roynd."' in out("--help")

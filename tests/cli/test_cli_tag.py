"""``zgul tag`` as a user meets it, on stand-ins for the shipped taggers."""

import bz2
import gzip
import io
import json
import lzma
import os
import shlex
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

import zgul.cli.evaluate
import zgul.cli.tag  # noqa: F401 - both add their command
from standin import stand_in_taggers, text
from zgul.cli import app
from zgul.corpora import Sentence, conllu
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.methods.tagger import Prediction, Tagger
from zgul.tagging import tagger as tagging

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
    monkeypatch.setattr(tagging, "MAX_UNKNOWN", 1.0)  # the stand-ins know few letters
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


@pytest.mark.parametrize("switches", [["--em"], ["--full-em"], ["--em-lr", "2"]])
def test_em_that_was_tuned_to_no_steps_is_warned_of(switches: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tagger, "em_for", lambda *_: EMConfig(steps=0))
    with pytest.warns(ZgulWarning, match="EM was tuned to no steps for Faroese; give --em-steps"):
        run("--lang", "fo", *switches, TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for silent in ([], ["--no-em"], ["--adaptive"], [*switches, "--em-steps", "1"], [*switches, "--em-steps", "0"]):
            out("--lang", "fo", *silent, TEXT)


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
    monkeypatch.setattr(tagging, "MAX_UNKNOWN", 1.0)
    result = run("--lang", "AUTO", "Hetta er ein lítil roynd, og vit vóna, at tað gongur væl.", "-f", "json")
    assert json.loads(result.stdout)["language"] == "fo"
    assert "the text looks like Faroese (fo), over 99% sure" in result.stderr
    assert "next comes" in result.stderr


def test_an_unsure_guess_is_a_warning() -> None:
    with pytest.warns(ZgulWarning, match="name the language with --lang"):
        run("--lang", "auto", "--task", "pos", "sasike")
    with pytest.warns(ZgulWarning, match="but 2 letters are little to go by"):
        run("--lang", "auto", "--task", "pos", "ok")


@pytest.mark.parametrize(
    ("arguments", "stdin", "problem"),
    [
        ([TEXT], None, "say which language"),
        (["--lang", "Fareose", TEXT], None, r"Did you mean Faroese \(fo\)"),
        (["--lang", "fo", ""], None, "the text is empty"),
        (["--lang", "fo"], "", "standard input holds no words"),
        (["--lang", "fo"], " \n\n", "standard input holds no words"),
        (["--lang", "fo", "book.txt"], None, "book.txt: no such file"),
        (["--lang", "fo"], b"\x7fELF\x02\x01\x00", "NUL"),
        (["--lang", "fo"], b"\x7fELF\x02\xf3\x00", "NUL"),
        (["--lang", "fo", "--device", "gpu0", TEXT], None, "no device 'gpu0' here"),
        (["--lang", "fo"], b"caf\xe9", "not UTF-8"),
        (["--lang", "fo", "--input", "lines"], b"x" * ((1 << 24) + 1), "longer than 16 MiB"),
        (["--lang", "fo", "--input", "conllu"], "text\n", "CoNLL-U has 10"),
        (["--lang", "fo", "--format", "xml", TEXT], None, "unknown format"),
        (["--lang", "fo", "--task", "parse", TEXT], None, "unknown task"),
        (["--lang", "fo", "--input", "pdf", TEXT], None, "unknown kind of input"),
        (["--lang", "fo", "--resume", TEXT], None, "--resume needs"),
        (["--lang", "fo", "-o", "x.conllu.xz", TEXT], None, "not compressed"),
        (["--lang", "fo", "-o", ".", TEXT], None, "is a folder"),
        (["--lang", "fo", "-o", "nowhere/x.conllu", TEXT], None, "cannot be written"),
        (["--lang", "fo", "-o", "x", "-f", "terminal", TEXT], None, "format for files"),
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
    for resume in ([], ["--resume"]):
        with pytest.raises(ZgulError, match="is the input; writing to it would destroy it"):
            run("--lang", "fo", "same", "--output", name, *resume)
    with Path("same").open() as stdin:
        done = subprocess.run(
            [*COMMAND, "--lang", "fo", "--output", name], stdin=stdin, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("is the input")) == (2, 1)
    assert (folder / "same").read_text() == TEXT


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
    with pytest.raises(ZgulError, match='"germanic-pos" is not there'):
        run("--lang", "fo", TEXT)


def test_order_is_kept_over_many_windows(folder: Path) -> None:
    data = text(400)
    (folder / "book.txt").write_text(data)
    assert run("--lang", "fo", "--no-em", "book.txt", "--output", "book.tsv", "-f", "tsv").stdout == ""
    found = [line.split("\t")[0] for line in (folder / "book.tsv").read_text().splitlines() if line]
    assert found == data.replace(".", " .").replace("!", " !").split()


@pytest.mark.slow
def test_killed_midway_and_resumed_the_file_is_the_same(folder: Path) -> None:
    (folder / "book.txt").write_text(text(3000))
    settings = ["--lang", "fo", "--em-steps", "4", "--weights", "-f", "json", "book.txt", "--output"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*COMMAND, *settings, "cut.json"], env=environment)
    cut = folder / "cut.json"
    end = time.monotonic() + 60
    while not (cut.is_file() and cut.stat().st_size > 100_000) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert cut.read_bytes().count(b"\n") < 3000
    cut.write_bytes(cut.read_bytes()[:-50])  # as if the last write had been broken off
    done = subprocess.run(
        [*COMMAND, *settings, "cut.json", "--resume"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "sentences already; going on after them" in done.stderr
    subprocess.run([*COMMAND, *settings, "whole.json"], env=environment, check=True)
    assert cut.read_bytes() == (folder / "whole.json").read_bytes()
    again = subprocess.run(
        [*COMMAND, *settings, "cut.json", "--resume"], env=environment, capture_output=True, text=True
    )
    assert "holds 3,000 sentences already" in again.stderr
    assert cut.read_bytes() == (folder / "whole.json").read_bytes()


def test_resuming_with_other_input_or_settings_is_refused(folder: Path) -> None:
    (folder / "a.txt").write_text(text(40))
    out("--lang", "fo", "a.txt", "--output", "a.conllu")
    before = (folder / "a.conllu").read_bytes()
    with pytest.raises(ZgulError, match="tagged in another way"):
        run("--lang", "fo", "--weights", "a.txt", "--output", "a.conllu", "--resume")
    (folder / "b.txt").write_text(text(40, seed=1))
    with pytest.raises(ZgulError, match="other words in the input"):
        run("--lang", "fo", "b.txt", "--output", "a.conllu", "--resume")
    assert (folder / "a.conllu").read_bytes() == before


def test_resume_without_a_file_starts_one(folder: Path) -> None:
    out("--lang", "fo", TEXT, "--output", "a.conllu", "--resume")
    assert (folder / "a.conllu").read_text() == out("--lang", "fo", TEXT)


def test_output_comes_while_input_is_still_open() -> None:
    """The first window is written and flushed before the input ends."""
    process = subprocess.Popen(
        [*COMMAND, "--lang", "fo", "--no-em", "-f", "tsv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(text(60).encode())
    process.stdin.flush()
    assert process.stdout.readline().count(b"\t") == 1
    process.stdin.close()
    process.stdout.read()
    assert process.wait() == 0


def told(command: str) -> tuple[int, str]:
    """The exit code of a shell command and what it says on stderr; ``zgul`` in it is ours."""
    program = " ".join(shlex.quote(part) for part in COMMAND[:-1])
    done = subprocess.run(
        ["bash", "-c", command.replace("zgul ", f"{program} ")], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["tag --lang fo -f tsv", "tag --lang fo -f terminal", "languages fo #"])
def test_a_full_disk_is_one_clear_line(command: str) -> None:
    code, said = told(f"exec >/dev/full; zgul {command.replace('#', '')} {'' if '#' in command else shlex.quote(TEXT)}")
    assert (code, said) == (2, "zgul: the output cannot be written (No space left on device)\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_to_what_is_no_plain_file(folder: Path) -> None:
    with pytest.raises(ZgulError, match=r"/dev/full: cannot be written \(No space left on device\)"):
        run("--lang", "fo", TEXT, "-o", "/dev/full")
    out("--lang", "fo", TEXT, "-o", "/dev/null")
    expected = out("--lang", "fo", TEXT)
    for name in ("/dev/stdout", "-"):
        assert out("--lang", "fo", TEXT, "-o", name) == expected
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True)
    out("--lang", "fo", TEXT, "-o", "pipe")
    assert reader.communicate()[0] == expected


@pytest.mark.parametrize("form", ["conllu", "terminal"])
def test_a_reader_that_has_had_enough_is_no_failure(folder: Path, form: str) -> None:
    (folder / "book.txt").write_text(text(1500))
    code, said = told(f"zgul tag --lang fo --no-em -f {form} book.txt | head -2 >head; exit ${{PIPESTATUS[0]}}")
    assert (code, said) == (0, "")
    assert len((folder / "head").read_text().splitlines()) == 2


@pytest.mark.parametrize("output", ["cut.conllu", None])
def test_stopped_by_ctrl_c(folder: Path, output: str | None) -> None:
    (folder / "book.txt").write_text(text(2000))
    command = [*COMMAND, "--lang", "fo", "--em-steps", "8", "book.txt", *(["-o", output] if output else [])]
    with (folder / (output or "out")).open("wb") as stdout:
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while not (folder / (output or "out")).stat().st_size and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    more = f": {output} is not complete; the same command with --resume goes on with it" if output else ""
    assert (process.returncode, said) == (130, f"zgul: stopped{more}\n")


def test_an_error_is_one_line_without_a_traceback() -> None:
    result = subprocess.run([*COMMAND, "--lang", "fo", "nosuch.txt"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("zgul: nosuch.txt: no such file")
    assert result.stderr.count("\n") == 1


def test_a_language_of_no_group_is_warned_of() -> None:
    result = subprocess.run([*COMMAND, "--lang", "fi", TEXT], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert "zgul: warning: Finnish (fi) is related to none" in result.stderr


def test_help_has_examples() -> None:
    assert 'zgul tag --lang fo "Hetta er ein lítil roynd."' in out("--help")

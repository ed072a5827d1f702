"""Tagging files from Python: one, many, and to a stream."""

import io
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

import zgul
from standin import text
from zgul.errors import ZgulError, ZgulWarning
from zgul.progress import Status
from zgul.tagging.reading import Input, find_sources, sample_text
from zgul.tagging.tag_files import FileSettings, tag_file, tag_files, tag_stream
from zgul.tagging.text_tagger import TextTagger

TEXT = "sapuri ha sasike hawa parotu! satedi tapise haja wa sagesu!"


@pytest.fixture
def tagger(taggers: Path) -> TextTagger:
    return zgul.load("fo", "pos", em=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts" / "sub").mkdir(parents=True)
    for number, name in enumerate(("a.txt", "b.txt", "sub/a.txt")):
        (tmp_path / "texts" / name).write_text(text(3, seed=number))
    return tmp_path


def words(path: Path) -> list[str]:
    return [line.split("\t")[1] for line in path.read_text().splitlines() if line[:1].isdigit()]


def test_one_file(tagger: TextTagger, folder: Path) -> None:
    result = tag_file(tagger, "texts/a.txt", "a.conllu")
    assert (result.source, result.output, result.sentences, result.held) == ("texts/a.txt", Path("a.conllu"), 3, 0)
    assert Path("a.conllu").read_text() == tagger.tag(Path("texts/a.txt").read_text()).to_conllu()
    again = tag_file(tagger, "texts/a.txt", "a.conllu")
    assert (again.sentences, again.held) == (3, 3)
    with pytest.raises(ZgulError, match=r"texts holds 3 files\. Use tag_files"):
        tag_file(tagger, "texts", "x.conllu")
    with pytest.raises(ZgulError, match="format is one of conllu, tsv, json, not 'xml'"):
        FileSettings(format="xml")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("Щит и меч", "does not know the script|another text"),
        ("", "holds no words"),
        (" \n\n", "holds no words"),
        ("%PDF-1.4", "is a PDF file"),
        ("# sent_id = 1\nhello\n\n", "CoNLL-U has 10"),
        (b"\xff\x00\x01", "UTF-8|NUL"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.filterwarnings("ignore::zgul.errors.ZgulWarning")
def test_an_output_stays_as_it_is_when_the_input_is_refused(
    tagger: TextTagger, folder: Path, data: str | bytes, problem: str, force: bool
) -> None:
    Path("bad.txt").write_bytes(data.encode() if isinstance(data, str) else data)
    Path("keep.tsv").write_text("precious\tX\n\n")
    with pytest.raises(ZgulError, match=problem):
        tag_file(tagger, "bad.txt", "keep.tsv", FileSettings("tsv", force=force))
    assert Path("keep.tsv").read_text() == "precious\tX\n\n"
    assert not Path("keep.tsv.part").exists()


def test_an_output_of_other_content_is_only_replaced_by_force(tagger: TextTagger, folder: Path) -> None:
    Path("keep.tsv").write_text("precious\tX\n\n")
    for resume in (False, True):
        with pytest.raises(ZgulError, match=r"keep\.tsv is another text.*--force"):
            tag_file(tagger, "texts/a.txt", "keep.tsv", FileSettings("tsv", resume=resume))
    assert Path("keep.tsv").read_text() == "precious\tX\n\n"
    tag_file(tagger, "texts/a.txt", "keep.tsv", FileSettings("tsv", force=True))
    assert "precious" not in Path("keep.tsv").read_text()


def test_an_output_in_another_format_is_called_so(tagger: TextTagger, folder: Path) -> None:
    tag_file(tagger, "texts/a.txt", "a.conllu")
    for form in ("tsv", "json"):
        with pytest.raises(ZgulError, match=r"another text or format.*--force"):
            tag_file(tagger, "texts/a.txt", "a.conllu", FileSettings(form))


def test_input_that_breaks_off_keeps_what_was_done_and_goes_on_when_it_is_mended(
    tagger: TextTagger, folder: Path
) -> None:
    whole = text(120)
    Path("book.txt").write_text(whole)
    tag_file(tagger, "book.txt", "whole.conllu")
    Path("book.txt").write_bytes(whole.encode()[:4000] + b"\0" + whole.encode()[4000:])
    with pytest.raises(ZgulError, match=r"NUL.*book\.conllu\.part holds the finished part; .*--resume continues"):
        tag_file(tagger, "book.txt", "book.conllu", FileSettings(input="text"))
    assert not Path("book.conllu").exists() and Path("book.conllu.part").stat().st_size > 1000
    Path("book.txt").write_text(whole)
    result = tag_file(tagger, "book.txt", "book.conllu", FileSettings(resume=True))
    assert 0 < result.held < result.sentences == 120
    assert Path("book.conllu").read_bytes() == Path("whole.conllu").read_bytes()


def test_many_files(tagger: TextTagger, folder: Path) -> None:
    results = tag_files(tagger, ["texts"], "tagged")
    made = sorted(str(path) for path in Path("tagged").rglob("*") if path.is_file())
    assert made == ["tagged/a.conllu", "tagged/b.conllu", "tagged/sub/a.conllu"]
    assert [result.held for result in results] == [0, 0, 0]
    for result in results:
        assert words(result.output) == tagger.tag(Path(result.source).read_text()).words
    Path("tagged/b.conllu").unlink()
    before = Path("tagged/a.conllu").stat().st_mtime_ns
    again = tag_files(tagger, ["texts/a.txt", "texts/b.txt", "texts"], "tagged")
    assert [(result.held, result.sentences) for result in again] == [(3, 3), (0, 3), (3, 3)], "only what is missing"
    assert Path("tagged/a.conllu").stat().st_mtime_ns == before


def test_a_file_that_cannot_be_tagged_does_not_stop_the_others(tagger: TextTagger, folder: Path) -> None:
    Path("texts/a.txt").write_bytes(b"%PDF-1.5")
    Path("tagged/sub").mkdir(parents=True)
    Path("tagged/sub/a.conllu").write_text("a letter")
    with pytest.warns(ZgulWarning) as caught:
        results = tag_files(tagger, ["texts"], "tagged")
    assert [bool(result.problem) for result in results] == [True, False, True]
    assert "is a PDF file" in str(caught[0].message) and "--force" in str(caught[1].message)
    assert Path("tagged/sub/a.conllu").read_text() == "a letter"
    assert Path("tagged/b.conllu").is_file()


def test_an_interrupted_folder_goes_on(tagger: TextTagger, folder: Path) -> None:
    tag_files(tagger, ["texts"], "whole")
    tag_files(tagger, ["texts/a.txt"], "tagged")
    Path("texts/b.txt").write_text(text(60))
    tag_file(tagger, "texts/b.txt", "b.conllu")
    Path("tagged/b.conllu.part").write_bytes(Path("b.conllu").read_bytes()[:5000])
    with pytest.warns(ZgulWarning, match=r"b\.conllu\.part was not finished"):
        results = tag_files(tagger, ["texts"], "tagged")
    assert [bool(result.problem) for result in results] == [False, True, False]
    results = tag_files(tagger, ["texts"], "tagged", FileSettings(resume=True))
    assert [0 < result.held < result.sentences for result in results] == [False, True, False]
    assert Path("tagged/b.conllu").read_bytes() == Path("b.conllu").read_bytes()
    assert Path("tagged/sub/a.conllu").read_bytes() == Path("whole/sub/a.conllu").read_bytes()


def test_outputs_that_would_be_the_same_or_destroy_an_input_are_refused(tagger: TextTagger, folder: Path) -> None:
    Path("texts/a.tsv").write_text("sapuri\n")
    with pytest.raises(ZgulError, match=r"texts/a\.tsv and texts/a\.txt would both be written to tagged/a\.conllu"):
        tag_files(tagger, ["texts"], "tagged")
    assert not Path("tagged").exists()
    Path("only").mkdir()
    tag_file(tagger, "texts/b.txt", "only/b.conllu")
    before = Path("only/b.conllu").read_bytes()
    with pytest.warns(ZgulWarning, match="would destroy the input"):
        tag_files(tagger, ["only/*"], "only", FileSettings(force=True))
    assert Path("only/b.conllu").read_bytes() == before
    with pytest.raises(ZgulError, match=r"b\.conllu is a file"):
        tag_files(tagger, ["texts"], "only/b.conllu")


def test_a_stream_numbers_all_sentences(tagger: TextTagger, folder: Path) -> None:
    sink = io.BytesIO()
    assert tag_stream(tagger, find_sources(["texts"]), sink) == 9
    lines = sink.getvalue().decode().splitlines()
    assert [line for line in lines if line.startswith("# sent_id")] == [f"# sent_id = {n}" for n in range(1, 10)]
    assert lines.count("# newdoc") == 3


def test_a_tagger_can_be_chosen_for_each_file(taggers: Path, folder: Path) -> None:
    seen = []

    def choose(opened: Input) -> TextTagger:
        seen.append(sample_text(opened).split()[0])
        return zgul.load("fo" if opened.name.endswith("b.txt") else "hsb", "pos", em=False)

    results = tag_files(choose, ["texts"], "tagged", FileSettings("json"))
    languages = [result.output.read_text().split('"language": "')[1][:2] for result in results]
    assert languages == ["hs", "fo", "hs"] and len(seen) == 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_time_left_is_that_of_words_not_tagged_yet(tagger: TextTagger, folder: Path, encoding: str) -> None:
    """A text without blank lines is read in large parts, long before its words are tagged."""
    Path("book.txt").write_text("\n".join([TEXT] * 900), encoding=encoding)
    reports: list[Status] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZgulWarning)  # of UTF-16
        tag_file(tagger, "book.txt", "book.conllu", report=reports.append)
    total = reports[-1].done
    assert len(reports) > 2 and total == len(words(Path("book.conllu")))
    assert all(report.total == pytest.approx(total, rel=0.02) for report in reports)


def test_progress_tells_words_and_estimates_how_many_there_are(tagger: TextTagger, folder: Path) -> None:
    Path("book.txt").write_text(text(400))
    reports: list[Status] = []
    tag_file(tagger, "book.txt", "book.conllu", report=reports.append)
    total = len(words(Path("book.conllu")))
    assert [report.done for report in reports] == sorted(report.done for report in reports)
    assert reports[-1].done == reports[-1].total == total
    assert all(report.figures["words a second"] > 0 for report in reports)
    cut = Path("book.conllu").read_bytes()[: Path("book.conllu").stat().st_size // 2]
    Path("book.conllu").unlink()
    Path("book.conllu.part").write_bytes(cut)
    reports.clear()
    tag_file(tagger, "book.txt", "book.conllu", FileSettings(resume=True), report=reports.append)
    assert 0.3 * total < reports[-1].done == reports[-1].total < 0.8 * total, "what was there does not count"
    reports.clear()
    tag_stream(
        tagger, [replace(source, text=TEXT) for source in find_sources([TEXT])], io.BytesIO(), report=reports.append
    )
    assert [(report.done, report.total) for report in reports] == [(12, 0)], "the size of a stream is not known"

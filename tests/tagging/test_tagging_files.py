"""Reading any kind of input, writing any format, and going on with a broken-off file."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from zgul.corpora import columns
from zgul.corpora import conllu as conllu_format
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.tagging import reading, writing
from zgul.tagging.reading import Input, Item
from zgul.tagging.results import Layer, TaggedSentence

CONLLU = """\
# sent_id = a
# text = vámonos al mar
1-2	vámonos	_	_	_	_	_	_	_	_
1	vamos	ir	VERB	_	Mood=Imp	0	root	_	NER=O
2	nos	nosotros	PRON	_	_	1	obj	_	_
2.1	x	_	_	_	_	_	_	_	_
3-4	al	_	_	_	_	_	_	_	_
3	a	a	ADP	_	_	5	case	_	_
4	el	el	_	_	_	5	det	_	Gloss=the
5	mar	mar	NOUN	_	_	1	obl	_	SpaceAfter=No

"""


def stream(data: str | bytes, name: str = "given") -> Input:
    return Input(io.BytesIO(data.encode() if isinstance(data, str) else data), name)


def tagged(sentence: Sentence, *, ner: bool = False, weights: bool = False) -> TaggedSentence:
    """Each word's tag depends on its place."""
    size = len(sentence)
    tags = ["B-PER" if i % 2 == 0 else "I-PER" for i in range(size)] if ner else ["NOUN", "VERB", "X"] * size
    mix = [{"is": 0.25, "en": 0.75}] * size if weights else None
    layers = {"ner" if ner else "pos": Layer(tags[:size], [0.9] * size, mix)}
    text = sentence.text if sentence.text is not None else " ".join(sentence.words)
    offsets = sentence.offsets or [(i, i + 1) for i in range(size)]
    return TaggedSentence(text, sentence.words, offsets, layers, "fo")


def test_kinds_of_input() -> None:
    def words(data: str, kind: str) -> list[list[str]]:
        return [item.sentence.words for item in reading.read(stream(data), kind)]

    assert words("Ein. Tveir,\ntríggir.", "text") == [["Ein", "."], ["Tveir", ",", "tríggir", "."]]
    assert words("Ein. Tveir,\ntríggir.", "lines") == [["Ein", ".", "Tveir", ","], ["tríggir", "."]]
    assert words("Ein. Tveir,\ntríggir.", "tokens") == [["Ein.", "Tveir,"], ["tríggir."]]
    assert words("Ein\tNUM\n.\tPUNCT\n\nTveir\tNUM\n", "columns") == [["Ein", "."], ["Tveir"]]
    assert words(CONLLU, "conllu") == [["vamos", "nos", "a", "el", "mar"]]
    with pytest.raises(ZgulError, match="unknown kind of input 'pdf'"):
        reading.read(stream("x"), "pdf")


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.conllu", "", "conllu"),
        ("a.conllu.xz", "", "conllu"),
        ("a.tsv.gz", "", "columns"),
        ("a.txt", "Hetta er ein roynd", "text"),
        ("standard input", CONLLU, "conllu"),
        ("standard input", CONLLU.split("\n", 2)[2], "conllu"),
        ("standard input", "# Heading\n\nText", "text"),
        ("standard input", "#text\nMore", "text"),
        ("standard input", "# text in Faroese\n", "text"),
        ("standard input", "# newdoc is a comment\n", "text"),
        ("standard input", "# newdoc\n# text = a\n", "conllu"),
        ("standard input", "# newdoc id = a\n", "conllu"),
        ("standard input", "# generator = UDPipe 2\n", "conllu"),
        ("standard input", "\ufeff# sent_id = a\n", "conllu"),
        ("standard input", "1\t2\t3\t4\n", "text"),
        ("standard input", "1\t" * 10 + "11\n", "text"),
        ("standard input", "æ" * 100_000, "text"),
    ],
)
def test_the_kind_is_seen_from_name_or_first_line_which_is_not_lost(name: str, data: str, kind: str) -> None:
    source = stream(data, name)
    assert source.kind() == kind
    assert b"".join(iter(source.readline, b"")).decode() == data
    assert source.position == len(data.encode())


def test_an_argument_is_a_file_or_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("Í bók.\n", encoding="utf-8")
    with gzip.open("book.txt.gz", "wt", encoding="utf-8") as file:
        file.write("Í bók.\n")
    assert reading.open_input(["book.txt"]).size == len("Í bók.\n".encode())
    for name in ("book.txt", "book.txt.gz"):
        assert [item.sentence.words for item in reading.read(reading.open_input([name]))] == [["Í", "bók", "."]]
    assert reading.open_input(["Hetta er ein roynd."]).readline() == b"Hetta er ein roynd."
    assert reading.open_input(["Hetta", "er"]).readline() == b"Hetta er"
    assert reading.open_input(["Roynd."]).readline() == b"Roynd."
    assert reading.open_input(["x" * 10_000 + " y"]).name == "the text given"


@pytest.mark.parametrize("name", ["bok.txt", "/nowhere/bok", "corpus.conllu.xz", "data/fo"])
def test_a_file_that_is_not_there_is_not_taken_for_text(name: str) -> None:
    with pytest.raises(ZgulError, match="no such file"):
        reading.open_input([name])


def test_bad_arguments(tmp_path: Path) -> None:
    for empty in ([""], ["  ", "\n"]):
        with pytest.raises(ZgulError, match="the text is empty"):
            reading.open_input(empty)
    with pytest.raises(ZgulError, match="is a folder"):
        reading.open_input([str(tmp_path)])
    (tmp_path / "file").write_text("x")
    with pytest.raises(ZgulError, match="one file at a time"):
        reading.open_input([str(tmp_path / "file"), "word"])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not UTF-8"),
        (b"abc\x00def", "NUL"),
        ("Føroyar".encode("latin-1"), "iconv"),
        (b"x" * (1 << 24) + b"x", "16 MiB"),
    ],
)
def test_what_is_not_text_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ZgulError, match=problem):
        list(reading.read(stream(data), "lines"))


def test_text_that_begins_like_conllu_is_told_how_to_be_text() -> None:
    with pytest.raises(ZgulError, match=r"CoNLL-U has 10.*--input text"):
        list(reading.read(stream("# a = b\nHetta er ein roynd.\n")))
    with pytest.raises(ZgulError) as error:
        list(reading.read(stream("# a = b\nHetta er ein roynd.\n"), "conllu"))
    assert "--input" not in str(error.value), "it was asked for"
    assert len(list(reading.read(stream("# a = b\nHetta er ein roynd.\n"), "text"))) == 1


def test_parts_of_speech_that_are_to_be_replaced_may_be_any() -> None:
    (item,) = reading.read(stream(CONLLU.replace("\tVERB\t", "\tFOO\t")))
    assert "FOO" not in writing.conllu(tagged(item.sentence), item, 1)


def test_a_first_line_of_any_length_stays_one_line() -> None:
    (item,) = reading.read(stream("x" + "æ" * 40_000 + " roynd"))
    assert list(map(len, item.sentence.words)) == [40_001, 5]


def test_conllu_keeps_its_other_columns() -> None:
    (item,) = reading.read(stream(CONLLU))
    written = writing.conllu(tagged(item.sentence), item, 1)
    before, after = ([line.split("\t") for line in text.splitlines()] for text in (CONLLU, written))
    for old, new in zip(before, after, strict=True):
        if old[0].isdigit():
            assert new[3] in ("NOUN", "VERB", "X")
            new[3] = old[3]
        assert new == old


def test_entities_and_weights_go_to_misc_beside_what_is_there() -> None:
    (item,) = reading.read(stream(CONLLU))
    written = writing.conllu(tagged(item.sentence, ner=True, weights=True), item, 1)
    rows = [line.split("\t") for line in written.splitlines() if line[:1].isdigit()]
    by_number = {row[0]: row for row in rows}
    assert by_number["1"][3] == "VERB"  # not asked for, so not touched
    assert by_number["1"][9] == "NER=B-PER|NERWeights=en:0.75,is:0.25"
    assert by_number["4"][9] == "Gloss=the|NER=I-PER|NERWeights=en:0.75,is:0.25"
    again = next(iter(reading.read(stream(written))))
    assert writing.conllu(tagged(again.sentence, ner=True, weights=True), again, 1) == written


def test_new_conllu_is_read_back() -> None:
    (item,) = reading.read(stream("Ein, tveir."))
    written = writing.conllu(tagged(item.sentence), item, 7)
    (block,) = conllu_format.read(io.BytesIO(written.encode()))
    assert block.comment("sent_id") == "7"
    assert block.comment("text") == "Ein, tveir."
    assert block.upos == ["NOUN", "VERB", "X", "NOUN"]
    assert block.rows[0][9] == "SpaceAfter=No"


def test_tsv_is_read_back_as_words_and_tags() -> None:
    (item,) = reading.read(stream("Ein, tveir."))
    for weights in (False, True):
        written = writing.tsv(tagged(item.sentence, weights=weights), item, 1)
        (sentence,) = columns.read(io.BytesIO(written.encode()), task="pos")
        assert sentence.words == ["Ein", ",", "tveir", "."]
        assert sentence.tags == ["NOUN", "VERB", "X", "NOUN"]


def test_json() -> None:
    (item,) = reading.read(stream("Ein, tveir."))
    line = writing.json_line(tagged(item.sentence, ner=True, weights=True), item, 1)
    assert line.count("\n") == 1
    data = json.loads(line)
    assert data["entities"][0] == {"text": "Ein,", "label": "PER", "start": 0, "end": 4, "probability": 0.9}
    assert data["ner_weights"][0] == {"is": 0.25, "en": 0.75}


# --- going on with a file

WINDOWS = [[Item(Sentence([f"w{i}{j}", "x"])) for j in range(i + 1)] for i in range(4)]
Render = Callable[[list[Item], int], list[str]]


def renderer(form: str, **settings: bool) -> Render:
    def render(window: list[Item], number: int) -> list[str]:
        block = writing.FORMATS[form]
        return [block(tagged(item.sentence, **settings), item, n) for n, item in enumerate(window, start=number)]

    return render


def whole(form: str) -> bytes:
    number, text = 1, ""
    for window in WINDOWS:
        text += "".join(renderer(form)(window, number))
        number += len(window)
    return text.encode()


@pytest.mark.parametrize("form", list(writing.FORMATS))
def test_a_file_cut_off_anywhere_goes_on_to_the_same_file(tmp_path: Path, form: str) -> None:
    path, complete = tmp_path / "out", whole(form)
    for cut in range(0, len(complete) + 1, 7):
        path.write_bytes(complete[:cut])
        written = writing.resume(path, form, WINDOWS, renderer(form))
        assert written.size <= cut
        text, number = complete[: written.size].decode(), written.sentences + 1
        for window in written.rest:
            text += "".join(renderer(form)(window, number))
            number += len(window)
        assert text.encode() == complete


def test_a_complete_file_has_nothing_left(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(whole("tsv"))
    written = writing.resume(tmp_path / "out", "tsv", WINDOWS, renderer("tsv"))
    assert (written.sentences, written.size, list(written.rest)) == (10, len(whole("tsv")), [])


def test_a_file_that_is_not_the_beginning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(whole("conllu").replace(b"w21", b"other"))
    with pytest.raises(ZgulError, match="sentence 5 has other words"):
        writing.resume(path, "conllu", WINDOWS, renderer("conllu"))
    path.write_bytes(whole("conllu"))
    with pytest.raises(ZgulError, match="tagged in another way"):
        writing.resume(path, "conllu", WINDOWS, renderer("conllu", ner=True))
    with pytest.raises(ZgulError, match="not a file of this format"):
        writing.resume(path, "json", WINDOWS, renderer("json"))
    with pytest.raises(ZgulError, match="more sentences than the input"):
        writing.resume(path, "conllu", WINDOWS[:2], renderer("conllu"))

"""Finding inputs and reading any kind of them."""

import gzip
import io
import warnings
import zipfile
from pathlib import Path

import pytest

from zgul.errors import ZgulError, ZgulWarning
from zgul.tagging.reading import Input, find_sources, read, sample_text
from zgul.tagging.rich_text import office_text

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
FAROESE = "Føroyar er eitt land.\nTað er gott.\n"


def stream(data: str | bytes, name: str = "given", kind: str = "auto") -> Input:
    return Input(io.BytesIO(data.encode() if isinstance(data, str) else data), name, kind)


def words(data: str | bytes, kind: str = "auto", language: str | None = None) -> list[list[str]]:
    return [sentence.words for sentence in read(stream(data, kind=kind), language)]


def test_kinds_of_input() -> None:
    assert words("Ein. Tveir,\ntríggir.", "text") == [["Ein", "."], ["Tveir", ",", "tríggir", "."]]
    assert words("Ein. Tveir,\ntríggir.", "lines") == [["Ein", ".", "Tveir", ","], ["tríggir", "."]]
    assert words("Ein. Tveir,\ntríggir.", "tokens") == [["Ein.", "Tveir,"], ["tríggir."]]
    assert words("Ein\tNUM\n.\tPUNCT\n\nTveir\tNUM\n", "columns") == [["Ein", "."], ["Tveir"]]
    assert words(CONLLU, "conllu") == [["vamos", "nos", "a", "el", "mar"]]


def test_lines_without_full_stops_are_sentences_unless_it_is_said_to_be_running_text() -> None:
    poem = "Tú alfagra land mítt\nMín dýrasta ogn\nÁ vetri so randmítt á fjøllum\nÁ sumri við logn\n"
    with pytest.warns(ZgulWarning, match=r"each line is read as a sentence.*--input text"):
        assert len(words(poem)) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(words(poem, "text")) == 1


def test_the_language_helps_to_find_the_ends_of_sentences() -> None:
    text = "Das ist vgl. Anhang drei. Danke."
    assert len(words(text, language="de")) < len(words(text))


def test_documents_and_paragraphs_are_seen() -> None:
    sentences = list(read(stream("Ein. Tveir.\n\nTríggir.")))
    assert [sentence.opens for sentence in sentences] == ["document", None, "paragraph"]


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.conllu", "", "conllu"),
        ("a.conllu.xz", "", "conllu"),
        ("a.tsv.gz", "", "columns"),
        ("a.txt", "Hetta er ein roynd", "auto"),
        ("standard input", CONLLU, "conllu"),
        ("standard input", "\n" + CONLLU, "conllu"),
        ("standard input", CONLLU.split("\n", 2)[2], "conllu"),
        ("standard input", "# Heading\n\nText", "auto"),
        ("standard input", "# newdoc\n# text = a\n", "conllu"),
        ("standard input", "\ufeff# sent_id = a\n", "conllu"),
        ("standard input", "1\t" * 10 + "11\n", "auto"),
        ("standard input", "æ" * 100_000, "auto"),
    ],
)
def test_the_kind_is_seen_from_name_or_first_line_which_is_not_lost(name: str, data: str, kind: str) -> None:
    source = stream(data, name)
    assert source.kind == kind
    lines = []
    while line := source.readline():
        lines.append(line if isinstance(line, str) else line.decode())
    assert "".join(lines) == data
    assert source.position == len(data.encode())


def test_a_sample_for_guessing_the_language_loses_nothing() -> None:
    source = stream(CONLLU)
    assert sample_text(source) == "vámonos vamos nos x al a el mar"
    assert [len(sentence) for sentence in read(source)] == [5]
    source = stream("Ein. Tveir.\n" * 300)
    assert 400 <= len(sample_text(source).split()) < 410
    assert len(list(read(source))) == 600
    assert sample_text(stream("Ein\tNUM\nTveir\tNUM\n", kind="columns")) == "Ein Tveir"


# --- encodings and formats


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_decoded_with_a_warning(encoding: str) -> None:
    data = ("" if encoding == "utf-16" else "\ufeff") + FAROESE
    with pytest.warns(ZgulWarning, match="given is read as UTF-16"):
        assert words(data.encode(encoding)) == words(FAROESE)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_recognised(encoding: str) -> None:
    with pytest.warns(ZgulWarning, match="given is read as UTF-16"):
        assert words(FAROESE.encode(encoding)) == words(FAROESE)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_latin1_is_decoded_with_a_warning(encoding: str) -> None:
    text = "Plain first.\nTað „gott“ land.\n" if encoding == "cp1252" else FAROESE
    with pytest.warns(ZgulWarning, match=r"not UTF-8. It is read as Latin-1.*iconv") as caught:
        assert words(text.encode(encoding)) == words(text)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (FAROESE.encode() + "Føroyar".encode("latin-1"), "is not UTF-8"),
        ("Føroyar\n".encode("latin-1") + FAROESE.encode(), "lines in UTF-8 and lines in another encoding"),
        ("Сегодня хорошая погода".encode("koi8-r"), "is not UTF-8"),
        (b"abc\x00def", "NUL"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "NUL"),
        (b"caf\xe9\x01\x02", "is not UTF-8"),
        (b"x" * (1 << 24) + b"x", "16 MiB"),
        (("æ" * (1 << 23) + "x").encode(), "16 MiB"),
    ],
)
@pytest.mark.filterwarnings("ignore::zgul.errors.ZgulWarning")
def test_what_is_not_text_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ZgulError, match=problem):
        words(data, "lines")


@pytest.mark.parametrize("beginning", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"a\0b\0\x01\0c\0d\0"])
def test_a_picture_is_refused_without_a_word_about_encodings(beginning: bytes) -> None:
    with warnings.catch_warnings(), pytest.raises(ZgulError, match="given is not a text file: it has NUL"):
        warnings.simplefilter("error")
        words(beginning + bytes(20) + b"caf\xe9")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"%PDF-1.7\n%\xe2\xe3", "is a PDF file.*pdftotext"),
        (b"{\\rtf1\\ansi", "is an RTF file.*save it as"),
        (b"PK\x03\x04\x14\x00\x06\x00", "is a docx, odt or other zip file.*plain text"),
        (b"PK\x03\x04\x14\x00\x00\x08\x00\x00mimetypeapplication/vnd.oasis.opendocument.text", "is a docx, odt"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Word"),
    ],
)
def test_formats_that_are_not_plain_text_are_recognised_by_their_content(data: bytes, problem: str) -> None:
    with pytest.raises(ZgulError, match=f"given {problem}"):
        words(data)


@pytest.mark.parametrize(
    "page",
    [
        "<!DOCTYPE html>\n<html><body>Hetta er<br>ein <b>ro</b>ynd.<p>Ein til &amp; fleiri.</body>",
        "\ufeff  <HTML lang=fo><head><title>Heiti</title><script>if (a<b) {}</script></head>"
        "Hetta er<br>ein <b>ro</b>ynd.<p>Ein\n til &amp; fleiri.<style>p {}</style>",
        '<?xml version="1.0"?>\n<html xmlns="x"><div>Hetta er<br/>ein royn<i>d.</i></div>Ein til &#38; fleiri.</html>',
    ],
)
def test_the_text_of_html_is_read_with_a_warning(page: str) -> None:
    with pytest.warns(ZgulWarning, match=r"is an HTML page\. Its text is read.*--input text"):
        found = words(page.encode())
    assert found == [["Hetta", "er", "ein", "roynd", "."], ["Ein", "til", "&", "fleiri", "."]]


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "koi8-r"])
def test_html_names_its_encoding(encoding: str) -> None:
    word = "Føroyar" if encoding != "koi8-r" else "Погода"
    page = f"<html><meta charset='{encoding}'><p>{word}".encode(encoding)
    with pytest.warns(ZgulWarning, match="HTML"):
        assert words(page) == [[word]]


def test_word_and_opendocument_are_read(tmp_path: Path) -> None:
    word = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    word += "<w:p><w:t>Hetta er ein roynd.</w:t></w:p><w:p><w:t>Ein til.</w:t></w:p></w:document>"
    opened = '<office xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
    opened += "<text:p>Hetta er ein roynd.</text:p><text:p>Ein til.</text:p></office>"
    for name, member, xml in (("a.docx", "word/document.xml", word), ("a.odt", "content.xml", opened)):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, xml)
        (source,) = find_sources([str(tmp_path / name)])
        with source.open() as file:
            sentences = list(read(file))
            assert abs(file.position - source.size) <= 2, "the position is in bytes of the file"
            assert file.is_same_file(tmp_path / name)
        assert [sentence.words for sentence in sentences] == [["Hetta", "er", "ein", "roynd", "."], ["Ein", "til", "."]]
        assert [sentence.opens for sentence in sentences] == ["document", "paragraph"]
    with zipfile.ZipFile(tmp_path / "b.odt", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", opened)
    with (
        pytest.raises(ZgulError, match=r"b\.odt: This zip file is no docx or odt document"),
        find_sources([str(tmp_path / "b.odt")])[0].open(),
    ):
        pass


WORD_FILE = """<w:document xmlns:w="{word}" xmlns:wp="place" xmlns:mc="compatible"><w:body>
<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>Hetta </w:t></w:r>
<w:r><mc:AlternateContent><mc:Choice><wp:anchor><wp:posOffset>914400</wp:posOffset></wp:anchor></mc:Choice>
<mc:Fallback><w:t>tvífalt</w:t></mc:Fallback></mc:AlternateContent></w:r>
<w:r><w:t>er</w:t><w:cr/><w:t>ein</w:t><w:noBreakHyphen/><w:t>roynd.</w:t></w:r></w:p>
<w:p><w:r><w:instrText>PAGE</w:instrText></w:r><w:r><mc:AlternateContent><mc:Choice><w:txbxContent>
<w:p><w:r><w:t>Í kassa.</w:t></w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback><w:txbxContent>
<w:p><w:r><w:t>Í kassa.</w:t></w:r></w:p></w:txbxContent></mc:Fallback></mc:AlternateContent><w:t>Aftaná.</w:t></w:r>
</w:p></w:body></w:document>"""
OPEN_FILE = """<d xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:office="o"
 xmlns:dc="dc" xmlns:svg="svg">
<text:p>Hetta<office:annotation><dc:creator>Anna</dc:creator><dc:date>2026-01-01</dc:date><text:p>Gott!</text:p>
</office:annotation> er ein<text:note><text:note-citation>1</text:note-citation><text:note-body>
<text:p>Fótnota.</text:p></text:note-body></text:note> roynd<svg:desc>Ein mynd</svg:desc>.</text:p></d>"""


@pytest.mark.parametrize(
    "name",
    [
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    ],
)
def test_word_files_give_their_text_once_and_nothing_else(name: str) -> None:
    """Pictures have positions, text boxes are there twice, and "Strict Open XML" names its elements otherwise."""
    content = packed("word/document.xml", WORD_FILE.replace("{word}", name))
    assert office_text(content) == "Hetta er\nein\u2011roynd.\n\nÍ kassa.\n\nAftaná."


def test_notes_and_comments_do_not_stand_in_the_middle_of_a_sentence() -> None:
    assert office_text(packed("content.xml", OPEN_FILE)) == "Hetta er ein roynd."


def test_text_that_was_moved_stands_where_it_went_and_fields_to_fill_in_are_text() -> None:
    """As Word and LibreOffice write moved text, text above the line, and content controls."""
    word = """<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:p>
<w:moveFrom><w:r><w:t>roynd</w:t></w:r></w:moveFrom><w:r><w:t xml:space="preserve">Hetta er </w:t></w:r><w:sdt>
<w:sdtContent><w:r><w:ruby><w:rt><w:r><w:t>a</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>ein</w:t></w:r></w:rubyBase>
</w:ruby></w:r></w:sdtContent></w:sdt><w:moveTo><w:r><w:t xml:space="preserve"> roynd</w:t></w:r></w:moveTo></w:p>
</w:document>"""
    opened = """<d xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:loext="loext">
<text:p>Hetta er <loext:content-control>ein <text:span>roynd</text:span></loext:content-control></text:p></d>"""
    for member, xml in (("word/document.xml", word), ("content.xml", opened)):
        assert office_text(packed(member, xml)) == "Hetta er ein roynd", member


def packed(member: str, xml: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, xml)
    return file.getvalue()


def test_html_may_be_called_text() -> None:
    assert words(b"<html> er eitt mark.", "text")[0][:3] == ["<", "html", ">"]


def test_text_that_begins_like_conllu_is_told_how_to_be_text() -> None:
    with pytest.raises(ZgulError, match=r"CoNLL-U has 10.*--input text"):
        words("# a = b\nHetta er ein roynd.\n")
    for named in (("given", "conllu"), ("a.conllu", "auto")):
        with pytest.raises(ZgulError) as error:
            list(read(stream("# a = b\nHetta er ein roynd.\n", *named)))
        assert "--input" not in str(error.value), "it was asked for"
    assert len(words("# a = b\nHetta er ein roynd.\n", "text")) == 1


def test_a_first_line_of_any_length_stays_one_line() -> None:
    (sentence,) = words("x" + "æ" * 40_000 + " roynd")
    assert list(map(len, sentence)) == [40_001, 5]


# --- finding


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts" / "sub").mkdir(parents=True)
    for name in ("texts/a.txt", "texts/sub/b.md", "texts/.hidden", "texts/.git", "texts/out/x.conllu", "book.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("Í bók.\n", encoding="utf-8")
    return tmp_path


def names(*given: str, leave_out: Path | None = None) -> list[str]:
    return [source.name for source in find_sources(given, leave_out)]


def test_folders_patterns_and_several_names(folder: Path) -> None:
    assert names("texts", leave_out=Path("texts/out")) == ["texts/a.txt", "texts/sub/b.md"]
    assert names("texts/*.txt", "book.txt") == ["texts/a.txt", "book.txt"]
    assert names(str(folder / "**/*.txt")) == [str(folder / "book.txt"), str(folder / "texts/a.txt")]
    assert names("book.txt", "./book.txt") == ["book.txt"]
    assert [str(source.place) for source in find_sources(["texts", "book.txt"])][1:] == [
        "out/x.conllu",
        "sub/b.md",
        "book.txt",
    ]
    (folder / "none").mkdir()
    with pytest.raises(ZgulError, match="none holds no files"):
        names("none")


def test_an_argument_is_a_file_or_a_text(folder: Path) -> None:
    with gzip.open("book.txt.gz", "wt", encoding="utf-8") as file:
        file.write("Í bók.\n")
    for name in ("book.txt", "book.txt.gz"):
        (source,) = find_sources([name])
        with source.open() as opened:
            assert [sentence.words for sentence in read(opened)] == [["Í", "bók", "."]]
    texts = (
        ["Hetta er ein roynd."],
        ["Hetta", "er"],
        ["Roynd."],
        ["x" * 10_000 + " y"],
        ["Er hetta ein roynd?"],
        ["a", "texts"],
    )
    for given in texts:
        (source,) = find_sources(given)
        assert (source.name, source.text) == ("the text given", " ".join(given))
    assert [source.is_file for source in find_sources([]) + find_sources(["-"])] == [False, False]


@pytest.mark.parametrize("name", ["bok.txt", "/nowhere/bok", "corpus.conllu.xz", "data/fo"])
def test_a_file_that_is_not_there_is_not_taken_for_text(name: str) -> None:
    with pytest.raises(ZgulError, match="no such file"):
        find_sources([name])
    with pytest.raises(ZgulError, match="no such file"):
        find_sources([name, "other.txt"])
    with pytest.raises(ZgulError, match="no file has such a name"):
        find_sources(["nothing/*.txt"])


def test_bad_arguments(folder: Path) -> None:
    for empty in ([""], ["  ", "\n"]):
        with pytest.raises(ZgulError, match="The text is empty"):
            find_sources(empty)
    with pytest.raises(ZgulError, match=r"word: no such file\. Give files alone, or text alone"):
        find_sources(["book.txt", "word"])

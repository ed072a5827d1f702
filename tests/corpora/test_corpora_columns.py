"""Word-and-tag columns and WikiAnn: schemes of entities, separators, broken files, round trips."""

import io
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgul.corpora import Sentence, columns
from zgul.corpora import lines as lines_module
from zgul.corpora.sentence import UPOS, tag_problem, to_iob2
from zgul.errors import ZgulError, ZgulWarning


def read(text: str | bytes, task: str | None = "ner") -> list[Sentence]:
    return list(columns.read(io.BytesIO(text.encode() if isinstance(text, str) else text), task))


def written(sentences: list[Sentence]) -> io.BytesIO:
    """The file of these sentences."""
    with TemporaryDirectory() as folder:
        columns.write(Path(folder, "out.tsv"), sentences)
        return io.BytesIO(Path(folder, "out.tsv").read_bytes())


def test_conll_2003_with_document_starts() -> None:
    text = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n\n"
    assert read(text) == [Sentence(["EU", "rejects"], ["B-ORG", "O"]), Sentence(["Peter"], ["B-PER"])]


def test_tabs_win_over_spaces() -> None:
    assert read("New York\tB-LOC\n(\tO\n") == [Sentence(["New York", "("], ["B-LOC", "O"])]


def test_words_alone() -> None:
    assert read("a\nb\n\nc\n", task=None) == [Sentence(["a", "b"]), Sentence(["c"])]


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("IOB2", "B-PER I-PER B-PER O B-LOC"),
        ("IOB1", "I-PER I-PER B-PER O I-LOC"),
        ("BIOES", "B-PER E-PER S-PER O S-LOC"),
        ("BILOU", "B-PER L-PER U-PER O U-LOC"),
    ],
)
def test_every_scheme_comes_out_as_iob2(scheme: str, tags: str) -> None:
    text = "".join(f"w {tag}\n" for tag in tags.split())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (sentence,) = read(text)
    assert sentence.tags == ["B-PER", "I-PER", "B-PER", "O", "B-LOC"]


def test_another_type_opens_an_entity() -> None:
    assert to_iob2(["B-PER", "I-LOC", "E-LOC", "I-LOC"]) == ["B-PER", "B-LOC", "I-LOC", "B-LOC"]


def test_mixed_schemes_are_read_like_the_scorer_and_announced() -> None:
    with pytest.warns(ZgulWarning, match="1 entities in this file begin with I-"):
        sentences = read("a B-PER\nb O\nc I-LOC\n\n")
    assert sentences[0].tags == ["B-PER", "O", "B-LOC"]


@pytest.mark.parametrize(
    ("text", "task", "message"),
    [
        ("a O\nb B-PER x\n", "ner", "line 2: 3 columns where 2 are expected"),
        ("a\tO\nb\tc\tO\n", "ner", "line 2: 3 columns where 2 are expected; a word must not contain a tab"),
        ("a\n", "ner", "line 1: 1 columns where 2"),
        ("a O\n\nb PER\n", "ner", "line 3: 'PER' is not an entity tag"),
        ("a B-\n", "ner", "line 1: 'B-' is not"),
        ("a\tO\t\n", "ner", "line 1: '' is not"),
        ("a NOUN\nb NN\n", "pos", "line 2: 'NN' is not a universal part of speech"),
        ("\tO\n", "ner", "line 1: an empty word"),
        ("a O\n", "chunks", "no task 'chunks'"),
    ],
)
def test_broken_files_are_errors_with_their_line(text: str, task: str, message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        read(text, task)


def test_an_unclosed_last_sentence_is_kept() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read("a O\n\nb O\n")) == 2
    with pytest.warns(ZgulWarning, match="line 3: the last line has no line end"):
        assert len(read("a O\n\nb O")) == 2


def test_a_file_without_blank_lines_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_BLOCK_LINES", 10)
    with pytest.raises(ZgulError, match="line 11: no blank line in"):
        read("a O\n" * 11)


def test_unwritable_words(tmp_path: Path) -> None:
    for word in ("a\tb", "-DOCSTART-", "", "half \ud800"):
        with pytest.raises(ZgulError, match=r"cannot be written"):
            columns.write(tmp_path / "out.tsv", [Sentence(["fine"], ["O"]), Sentence([word], ["O"])])
    assert list(tmp_path.iterdir()) == []


def test_wrong_tags_for_a_task() -> None:
    assert not any(tag_problem("pos", tag) for tag in UPOS)
    with pytest.raises(ZgulError, match="Choose pos or ner"):
        tag_problem("tagging", "O")
    assert "the task may be pos" in str(tag_problem("ner", "NOUN"))
    assert "the task may be" not in str(tag_problem("ner", "Q-PER"))


printable = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(
    lambda word: word.strip() and not word.startswith("\ufeff") and word != columns.DOCSTART
)
entities = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
tagged = st.lists(st.tuples(printable, entities), min_size=1)


@given(st.lists(tagged))
def test_round_trip(rows: list[list[tuple[str, str]]]) -> None:
    sentences = [Sentence([word for word, _ in row], to_iob2([tag for _, tag in row])) for row in rows]
    assert list(columns.read(written(sentences))) == sentences


@given(st.lists(tagged))
def test_wikiann_takes_the_language_off_every_word(rows: list[list[tuple[str, str]]]) -> None:
    tags = [to_iob2([tag for _, tag in row]) for row in rows]
    sentences = [Sentence([word for word, _ in row], tags, "be-x-old") for row, tags in zip(rows, tags, strict=True)]
    prefixed = [Sentence([f"be-x-old:{word}" for word in sentence.words], sentence.tags) for sentence in sentences]
    assert list(columns.read_wikiann(written(prefixed))) == sentences


@given(st.lists(printable, min_size=1))
def test_untagged_round_trip(words: list[str]) -> None:
    assert list(columns.read(written([Sentence(words)]), task=None)) == [Sentence(words)]


lines = st.lists(st.sampled_from([b"a\tO", b"en:a O", b"\n", b"\r\n", b"\xff", b"\t", b" ", b"B-PER", b"\xef\xbb\xbf"]))


@given(st.one_of(st.binary(), lines.map(b"\n".join), lines.map(b"".join)), st.sampled_from(["pos", "ner", None]))
def test_any_bytes_give_sentences_or_a_clear_error(data: bytes, task: str | None) -> None:
    for reader in (columns.read, columns.read_wikiann):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZgulWarning)
            try:
                for sentence in reader(io.BytesIO(data), task):
                    assert all(sentence.words)
            except ZgulError:
                pass


def test_wikiann_takes_the_language_from_the_tokens() -> None:
    text = "en:R.H.\tB-ORG\nen:12:30\tO\n\nen:the\tO\nfo:Føroyar\tB-LOC\n\n"
    assert list(columns.read_wikiann(io.BytesIO(text.encode()))) == [
        Sentence(["R.H.", "12:30"], ["B-ORG", "O"], "en"),
        Sentence(["the", "Føroyar"], ["O", "B-LOC"], "en", ["en", "fo"]),
    ]


@pytest.mark.parametrize("token", ["word", "en:", ":word", "e n:x"])
def test_wikiann_refuses_other_forms(token: str) -> None:
    with pytest.raises(ZgulError, match=r"line 3: .* is not of the form lang:token"):
        list(columns.read_wikiann(io.BytesIO(f"en:a\tO\n\n{token}\tO\n".encode())))

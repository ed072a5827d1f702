"""Data folders by task, language and split; plain text files."""

import io
import lzma
from pathlib import Path

import pytest

from zgul.corpora import Sentence, load, load_text, text
from zgul.errors import ZgulError, ZgulWarning


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, content in {
        "pos/fo/test.tsv.xz": lzma.compress(b"eg\tPRON\neri\tAUX\n"),
        "pos/fo/dev.conllu": b"# text = ja\n1\tja\t_\tINTJ\t_\t_\t_\t_\t_\t_\n\n# end\n\n",
        "ner/ha/train.txt": b"Kano B-LOC\n\nta O\n",
        "text/fo.open.txt.xz": lzma.compress(b"eitt\n\ntvey\n"),
        "text/fo.research.txt": "trý\n".encode(),
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return tmp_path


def test_sentences_refuse_what_does_not_run_parallel() -> None:
    with pytest.raises(ValueError, match="2 words but 1 tags"):
        Sentence(["a", "b"], ["X"])
    with pytest.raises(ValueError, match="1 words but 0 offsets"):
        Sentence(["a"], offsets=[])


def test_load_finds_each_format(folder: Path) -> None:
    assert load(folder, "pos", "fo", "test") == [Sentence(["eg", "eri"], ["PRON", "AUX"], "fo")]
    assert load(folder, "pos", "fo", "dev") == [Sentence(["ja"], ["INTJ"], "fo", text="ja", offsets=[(0, 2)])]
    assert load(str(folder), "ner", "ha", "train") == [
        Sentence(["Kano"], ["B-LOC"], "ha"),
        Sentence(["ta"], ["O"], "ha"),
    ]


@pytest.mark.parametrize(
    ("task", "lang", "split", "message"),
    [
        ("pos", "fo", "train", "pos/fo has the splits: dev test"),
        ("pos", "xx", "test", "pos has the languages: fo"),
        ("chunks", "fo", "test", "choose pos or ner"),
    ],
)
def test_load_says_what_is_there(folder: Path, task: str, lang: str, split: str, message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        load(folder, task, lang, split)


def test_load_from_an_empty_folder_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match=r"expected there: fo/SPLIT\.tsv"):
        load(tmp_path, "pos", "fo", "test")
    with pytest.raises(ZgulError, match="there is text for: nothing"):
        load_text(tmp_path, "fo")


def test_two_files_for_one_split_are_announced(folder: Path) -> None:
    (folder / "pos/fo/test.conllu").write_text("")
    with pytest.warns(ZgulWarning, match=r"test\.tsv\.xz is read; beside it lies test\.conllu"):
        assert len(load(folder, "pos", "fo", "test")) == 1


def test_load_text(folder: Path) -> None:
    assert list(load_text(folder, "fo")) == ["eitt", "tvey", "trý"]
    assert list(load_text(folder, "fo", kinds=["research"])) == ["trý"]
    with pytest.raises(ZgulError, match="there is text for: fo"):
        load_text(folder, "de")


def test_the_real_folder_has_the_sentences_its_table_counts(shared_data: Path) -> None:
    for task, lang, split, sentences, words in [
        ("pos", "fo", "test", 1208, 10002),
        ("pos", "gsw", "test", 100, 1444),
        ("ner", "luo", "test", 189, 5159),
        ("ner", "am", "dev", 250, 3749),
    ]:
        loaded = load(shared_data, task, lang, split)
        assert (len(loaded), sum(map(len, loaded))) == (sentences, words)
        assert all(sentence.language == lang and sentence.tags for sentence in loaded)


def test_text_a_sentence_a_line() -> None:
    first, second = text.read(io.StringIO("Eg fari. Tú fert.\n\n  Ja!\n"), language="fo")
    assert first.words == ["Eg", "fari", ".", "Tú", "fert", "."] and first.language == "fo"
    assert second.text == "  Ja!" and second.offsets == [(2, 4), (4, 5)]


def test_text_with_words_apart() -> None:
    (sentence,) = text.read(io.StringIO("a  aa a.\n"), form="words")
    assert sentence.words == ["a", "aa", "a."] and sentence.offsets == [(0, 1), (3, 5), (6, 8)]


def test_raw_text() -> None:
    sentences = list(text.read(io.StringIO("Eg fari. Tú\nfert.\n\nJa\n\n"), form="raw"))
    assert [sentence.text for sentence in sentences] == ["Eg fari.", "Tú\nfert.", "Ja"]
    assert [sentence.start for sentence in sentences] == [0, 9, 19]
    stream = io.StringIO()
    assert text.write(stream, [*sentences, Sentence(["a", "b"]), Sentence([])]) == 4
    assert stream.getvalue() == "Eg fari.\nTú fert.\nJa\na b\n"


def test_unknown_form() -> None:
    with pytest.raises(ZgulError, match="choose one of sentences, words, raw"):
        text.read(io.StringIO(""), form="lines")

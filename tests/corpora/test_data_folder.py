"""Data folders by task, language and split; labelled files of any format."""

import lzma
from pathlib import Path

import pytest

from zgul.corpora import DataFolder, Sentence, read_labelled, source_split
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
    assert DataFolder(folder).sentences("pos", "fo", "test") == [Sentence(["eg", "eri"], ["PRON", "AUX"], "fo")]
    assert DataFolder(folder).sentences("pos", "fo", "dev") == [
        Sentence(["ja"], ["INTJ"], "fo", text="ja", offsets=[(0, 2)])
    ]
    assert DataFolder(str(folder)).sentences("ner", "ha", "train") == [
        Sentence(["Kano"], ["B-LOC"], "ha"),
        Sentence(["ta"], ["O"], "ha"),
    ]


@pytest.mark.parametrize(
    ("task", "lang", "split", "message"),
    [
        ("pos", "fo", "train", "fo has the splits: dev test"),
        ("pos", "xx", "test", "pos has the languages: fo"),
        ("chunks", "fo", "test", "Choose pos or ner"),
    ],
)
def test_load_says_what_is_there(folder: Path, task: str, lang: str, split: str, message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        DataFolder(folder).sentences(task, lang, split)


def test_a_folder_of_wikiann_has_the_language_of_its_name(tmp_path: Path) -> None:
    """Wikipedia's code of Alemannic, ``als``, is ISO's code of Albanian."""
    path = tmp_path / "ner" / "gsw" / "test.txt"
    path.parent.mkdir(parents=True)
    path.write_text("als:Bärn\tB-LOC\n\nals:vo\tO\nfr:Jura\tB-LOC\n\n", encoding="utf-8")
    assert DataFolder(tmp_path).sentences("ner", "gsw", "test") == [
        Sentence(["Bärn"], ["B-LOC"], "gsw"),
        Sentence(["vo", "Jura"], ["O", "B-LOC"], "gsw", ["gsw", "fr"]),
    ]


def test_load_from_an_empty_folder_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match=r"no labelled data such as pos/fo/test\.tsv"):
        DataFolder(tmp_path).sentences("pos", "fo", "test")
    with pytest.raises(ZgulError, match="there is text for: nothing"):
        DataFolder(tmp_path).text_lines("fo")


def test_two_files_for_one_split_are_announced(folder: Path) -> None:
    (folder / "pos/fo/test.conllu").write_text("")
    with pytest.warns(ZgulWarning, match=r"test\.tsv\.xz is read; test\.conllu in the same folder is ignored"):
        assert len(DataFolder(folder).sentences("pos", "fo", "test")) == 1


def test_load_text(folder: Path) -> None:
    assert list(DataFolder(folder).text_lines("fo")) == ["eitt", "tvey", "trý"]
    assert list(DataFolder(folder).text_lines("fo", kinds=["research"])) == ["trý"]
    with pytest.raises(ZgulError, match="there is text for: fo"):
        DataFolder(folder).text_lines("de")


def test_the_real_folder_has_the_sentences_its_table_counts(shared_data: Path) -> None:
    for task, lang, split, sentences, words in [
        ("pos", "fo", "test", 1208, 10002),
        ("pos", "gsw", "test", 100, 1444),
        ("ner", "luo", "test", 189, 5159),
        ("ner", "am", "dev", 250, 3749),
    ]:
        loaded = DataFolder(shared_data).sentences(task, lang, split)
        assert (len(loaded), sum(map(len, loaded))) == (sentences, words)
        assert all(sentence.language == lang and sentence.tags for sentence in loaded)


def test_the_folder_finds_files_without_reading_them(folder: Path) -> None:
    data = DataFolder(folder)
    assert data.labelled_file("pos", "fo", "test") == folder / "pos/fo/test.tsv.xz"
    assert data.labelled_file("pos", "fo", "train") is None
    assert data.text_files("fo") == [folder / "text/fo.open.txt.xz", folder / "text/fo.research.txt"]
    assert data.text_files("fo", ["research"]) == [folder / "text/fo.research.txt"]
    assert data.text_files("de") == []
    assert data.splits() == [("pos", "fo", "dev"), ("pos", "fo", "test"), ("ner", "ha", "train")]


def test_english_is_wikiann_in_the_indo_aryan_group_alone() -> None:
    assert source_split("indo-aryan", "en", "train") == "panx.train"
    assert source_split("indo-aryan", "hi", "dev") == "dev"
    assert source_split("african", "en", "dev") == "dev"


CONLLU = "# text = ja\n1\tja\t_\tINTJ\t_\t_\t_\t_\t_\t_\n\n"


@pytest.mark.parametrize(
    ("name", "text", "task", "expected"),
    [
        ("a.conllu", CONLLU, "pos", Sentence(["ja"], ["INTJ"], "fo", text="ja", offsets=[(0, 2)])),
        ("a.txt", CONLLU, "pos", Sentence(["ja"], ["INTJ"], "fo", text="ja", offsets=[(0, 2)])),
        ("a.tsv", "ja\tINTJ\n\n", "pos", Sentence(["ja"], ["INTJ"], "fo")),
        ("a.tsv", "ab:c\tO\nKano\tB-LOC\n\n", "ner", Sentence(["ab:c", "Kano"], ["O", "B-LOC"], "fo")),
        ("a", "ha:Kano\tB-LOC\nha:ta\tO\n\n", "ner", Sentence(["Kano", "ta"], ["B-LOC", "O"], "fo")),
    ],
)
def test_a_labelled_file_is_read_by_its_name_or_its_beginning(
    tmp_path: Path, name: str, text: str, task: str, expected: Sentence
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert read_labelled(tmp_path / name, task, "fo") == [expected]
    (tmp_path / f"{name}.xz").write_bytes(lzma.compress(text.encode()))
    assert read_labelled(str(tmp_path / f"{name}.xz"), task, "fo") == [expected]


def test_sentences_without_tags_are_left_out_of_labelled_files(tmp_path: Path) -> None:
    untagged = CONLLU.replace("INTJ", "_")
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU + untagged, "utf-8")
    with pytest.warns(ZgulWarning, match="a.conllu: 1 sentences without POS tags are left out"):
        assert len(read_labelled(path, "pos")) == 1
    path.write_text(untagged, "utf-8")
    with pytest.raises(ZgulError, match="has no POS tags; a labelled file is needed"):
        read_labelled(path, "pos")
    path.write_text("", "utf-8")
    assert read_labelled(path, "pos") == []


def test_a_damaged_labelled_file_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.xz"
    path.write_bytes(lzma.compress(b"ja\tINTJ\n\n" * 9999)[:-40])
    with pytest.raises(ZgulError, match=r"a\.tsv\.xz, after line .*damaged or cut short"):
        read_labelled(path, "pos")
    path.write_bytes(b"no such thing")
    with pytest.raises(ZgulError, match="damaged"):
        read_labelled(path, "pos")

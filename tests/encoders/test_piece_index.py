"""The index of pieces: words are cut as by the whole vocabulary, which short texts do not read."""

import pickle
import shutil
from pathlib import Path

import pytest

from zgul.encoders import embedded
from zgul.encoders.piece_index import FEW, INDEX, IndexedTokenizer
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError
from zgul.languages import GROUPS

# Scripts, accents written apart, compatibility forms, unknown letters, blanks inside, nothing at all, a special piece.
WORDS = ["lítil", "Hesturinn", "продают", "ልጆቹ", "बच्चे", "বৃষ্টি", "دریا", "ꙗкова", "ƕa", "𐌲𐌿𐌸", "e\u0301te\u0301"]
WORDS += [
    "ﬁn",
    "Straßenbahnhaltestelle",
    "①２",
    "New York",
    "",
    "\u200d",
    "a\0b",
    "🙂",
    "...",
    "x" * 300,
    "ＡＢＣ",
    "ǘ",
    "▁a",
]
SPECIAL = ["a<mask>b", "<s>", "<unk>"]


@pytest.fixture(scope="module")
def whole() -> PieceTokenizer:
    return PieceTokenizer.from_folder(embedded.converted())


@pytest.fixture
def indexed() -> IndexedTokenizer:
    return IndexedTokenizer(embedded.converted())


def read(tokenizer: IndexedTokenizer) -> bool:
    """Whether the whole vocabulary was read."""
    return "backend" in vars(tokenizer)


def test_words_are_cut_as_by_the_whole_vocabulary(whole: PieceTokenizer, indexed: IndexedTokenizer) -> None:
    names = [word for group in GROUPS.values() for word in (group.name, *group.sources, *group.targets)]
    assert indexed.tokenise(WORDS + names) == whole.tokenise(WORDS + names)
    assert [indexed.tokenise([word]) for word in WORDS] == [whole.tokenise([word]) for word in WORDS]
    assert not read(indexed)
    same = ("begin", "end", "pad", "unknown", "mask", "blank")
    assert all(getattr(indexed, name) == getattr(whole, name) for name in same)


def test_special_pieces_and_long_texts_read_it(whole: PieceTokenizer, indexed: IndexedTokenizer) -> None:
    assert indexed.tokenise(SPECIAL) == whole.tokenise(SPECIAL) and read(indexed)
    another = IndexedTokenizer(indexed.folder)
    another.tokenise(["a" * FEW])
    assert not read(another)
    assert another.tokenise(["ab"]) == whole.tokenise(["ab"]) and read(another)


def test_what_is_no_text_is_named(indexed: IndexedTokenizer) -> None:
    with pytest.raises(ZgulError, match="half of a character"):
        indexed.tokenise(["ok", "a\ud800"])


def test_a_pickle_needs_no_folder(whole: PieceTokenizer, indexed: IndexedTokenizer) -> None:
    copy = pickle.loads(pickle.dumps(indexed))
    assert type(copy) is PieceTokenizer and copy.tokenise(WORDS) == whole.tokenise(WORDS)


@pytest.mark.parametrize("left", [0, 100, 5000])
def test_a_damaged_index_is_noticed(tmp_path: Path, left: int) -> None:
    whole = (embedded.converted() / INDEX).read_bytes()
    (tmp_path / INDEX).write_bytes(whole[:left])
    with pytest.raises(ZgulError, match=INDEX):
        IndexedTokenizer(tmp_path)
    (tmp_path / INDEX).unlink()
    with pytest.raises(ZgulError, match=INDEX):
        IndexedTokenizer(tmp_path)


def test_an_index_that_is_damaged_later_is_noticed(tmp_path: Path) -> None:
    shutil.copy(embedded.converted() / INDEX, tmp_path)
    tokenizer = IndexedTokenizer(tmp_path)
    data = bytearray((tmp_path / INDEX).read_bytes())
    data[8192 : len(data) // 2] = bytes(len(data) // 2 - 8192)
    (tmp_path / INDEX).write_bytes(data)
    with pytest.raises(ZgulError, match=r"damaged.*Delete the folder"):
        tokenizer.tokenise(WORDS)

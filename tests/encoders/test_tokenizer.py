"""The tokenizer built from the embedded file: its trie, its normaliser, its agreement with the official one."""

import importlib.util
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from zgul import encoders
from zgul.encoders.tokenizer import PieceTokenizer, compile_charsmap, compositions, double_array, with_vocabulary
from zgul.errors import ZgulError


@pytest.fixture(scope="module")
def tokenizer():
    return encoders.load("embedded")[1]


@pytest.fixture(scope="module")
def comparison():
    path = Path(__file__).resolve().parents[2] / "scripts" / "compare_tokenizer.py"
    spec = importlib.util.spec_from_file_location("compare_tokenizer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def official(comparison):
    try:
        return Tokenizer.from_file(str(comparison.official_json()))
    except OSError as error:
        pytest.skip(f"needs the official tokenizer: {error}")


def find_prefixes(units: list[int], key: bytes) -> list[tuple[int, int]]:
    """(length, value) of the keys that ``key`` begins with: darts-clone's own search, written down again."""

    def offset(unit: int) -> int:
        return (unit >> 10) << ((unit & 0x200) >> 6)

    found = []
    position = offset(units[0])
    for length, byte in enumerate(key, 1):
        position ^= byte
        if position >= len(units) or units[position] & 0x800000FF != byte:
            break
        unit = units[position]
        position ^= offset(unit)
        if unit >> 8 & 1:
            found.append((length, units[position] & 0x7FFFFFFF))
    return found


KEYS = st.binary(min_size=1, max_size=5).filter(lambda key: 0 not in key)


@given(st.dictionaries(KEYS, st.integers(0, 1_000_000), min_size=1, max_size=60), st.lists(KEYS))
def test_trie_finds_what_was_put_in_and_nothing_else(values, others):
    units = double_array(values)
    for key in [*values, *others]:
        expected = [(n, values[key[:n]]) for n in range(1, len(key) + 1) if key[:n] in values]
        assert find_prefixes(units, key) == expected


def test_compiled_map_normalises():
    compiled = compile_charsmap({"ﬁ": "fi", "e\u0301": "é", "\u200b": "", "Ⅳ": "IV"})
    normalizer = normalizers.Precompiled(compiled)
    assert normalizer.normalize_str("ﬁne cafe\u0301\u200b Ⅳ") == "fine café IV"


def test_compositions_cover_compatibility_forms_of_the_parts():
    found = compositions({"\uff45": "e", "\u0341": "\u0301"})
    assert found["e\u0301"] == found["\uff45\u0301"] == found["e\u0341"] == "é"
    assert found["a\u0302\u0301"] == "ấ"
    assert "é" not in found and all(len(key.encode()) <= 5 for key in found)


def test_words_are_cut_each_by_itself(tokenizer):
    words = ["Føroyskt", "mál", "!", "a <mask> b"]
    cut = tokenizer.tokenise(words)
    assert cut == [tokenizer.tokenise([word])[0] for word in words]
    assert [tokenizer.backend.decode(pieces, skip_special_tokens=False) for pieces in cut] == words
    assert cut[3].count(tokenizer.mask) == 1
    assert tokenizer.tokenise([]) == []


def test_survives_saving(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    text = "Cafe\u0301 ﬁn \u00a0 ልጆቹ ትምህርት <mask> ꙗко"
    again = PieceTokenizer.from_folder(tmp_path)
    assert again.backend.encode(text).ids == tokenizer.backend.encode(text).ids
    for role in ("begin", "end", "pad", "unknown", "mask", "blank"):
        assert getattr(again, role) == getattr(tokenizer, role)


def test_fast_enough(tokenizer):
    """The aim is 200,000 words a second; a fifth of that must remain on a busy machine."""
    words = ["Hesturinn", "stendur", "við", "hliðina", "á", "gamla", "bænum", "og", "horfir", "út", "."] * 2000
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        tokenizer.tokenise(words)
        best = max(best, len(words) / (time.process_time() - start))
    assert best > 40_000


def test_post_processors_other_than_templates_are_refused():
    contents = {"model": {}, "added_tokens": [], "post_processor": {"type": "BertProcessing"}}
    with pytest.raises(ZgulError, match="BertProcessing"):
        with_vocabulary(contents, [("a", 0.0)], unk_id=0)


@pytest.mark.slow
@pytest.mark.network
def test_agrees_with_the_official_tokenizer_on_every_language(tokenizer, official, comparison, shared_data):
    words = comparison.words_by_language(shared_data, limit=4000)
    assert len(words) >= 26
    for language, some in words.items():
        differ = comparison.differences(tokenizer.backend, official, some)
        assert len(differ) <= 0.001 * len(some), (language, differ[:5])


@pytest.mark.network
def test_agrees_with_the_official_tokenizer_on_any_text(tokenizer, official):
    @settings(max_examples=500, deadline=None)
    @given(st.text(st.characters(exclude_categories=["Cs", "Cn"])))
    def agrees(text):
        ours = tokenizer.backend.encode(text)
        assert (ours.ids, ours.offsets) == (official.encode(text).ids, official.encode(text).offsets)

    agrees()


@pytest.mark.parametrize("marks", ["Gemma's blank", "XLM-R's blank", "none"])
def test_a_word_gets_the_pieces_that_it_has_inside_a_text(marks: str) -> None:
    pieces = ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "a", "b", "▁", "▁a", "▁b"]
    merges = [("▁", "a"), ("▁", "b")]
    backend = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, merges, unk_token="[UNK]"))
    if marks == "Gemma's blank":
        backend.normalizer = normalizers.Replace(" ", "▁")
    else:
        space = pre_tokenizers.Metaspace(prepend_scheme="always")
        backend.pre_tokenizer = space if marks == "XLM-R's blank" else pre_tokenizers.WhitespaceSplit()
    found = PieceTokenizer.wrap(backend).tokenise(["a", "b", "ab"])
    first = "a b" if marks == "none" else "▁a ▁b"
    names = [[backend.id_to_token(piece) for piece in word] for word in found]
    assert names == [[first.split()[0]], [first.split()[1]], [first.split()[0], "b"]]

"""Pruned vocabularies give the same outputs for covered text; the 4-bit file gives the same weights."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from zgul import encoders
from zgul.encoders import q4
from zgul.errors import ZgulError

COVERED = [
    ["Hesturinn", "stendur", "við", "hliðina", "á", "gamla", "bænum", "."],
    ["Mvua", "kubwa", "ilinyesha", "usiku", "kucha", "kijijini", "."],
    ["ልጆቹ", "ከትምህርት", "ቤት", "በኋላ", "ኳስ", "ይጫወታሉ", "።"],
    ["Въ", "начѣлѣ", "бѣ", "слово", "ꙗкоже", "рече", "."],
]


@pytest.fixture(scope="module")
def whole():
    return encoders.load("embedded")


@pytest.fixture(scope="module")
def pruned(whole):
    model, tokenizer = whole
    words = (word for sentence in COVERED for word in sentence)
    return encoders.prune(model, tokenizer, encoders.pieces_used(tokenizer, words))


def states(model, tokenizer, sentences):
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        return model(**batch).last_hidden_state


def test_outputs_are_identical_for_covered_text(whole, pruned):
    assert torch.equal(states(*whole, COVERED), states(*pruned, COVERED))


def test_pieces_keep_their_order_and_specials_their_role(whole, pruned):
    tokenizer = pruned[1]
    assert tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>"]) == [0, 1, 2, 3]
    assert tokenizer.mask_token_id == len(tokenizer) - 1
    assert tokenizer("<mask>")["input_ids"].count(tokenizer.mask_token_id) == 1
    kept = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    ids = whole[1].convert_tokens_to_ids(kept)
    assert ids == sorted(ids)
    assert tokenizer.model_max_length == 512


def test_model_and_tokenizer_have_the_same_size_and_the_whole_is_untouched(whole, pruned):
    model, tokenizer = pruned
    assert model.config.vocab_size == len(tokenizer) == model.get_input_embeddings().num_embeddings
    assert len(tokenizer) < 20_000
    assert whole[0].config.vocab_size == 250_037 == whole[0].get_input_embeddings().num_embeddings
    assert model.get_input_embeddings().weight.requires_grad


def test_other_words_fall_back_on_smaller_pieces(pruned):
    _, tokenizer = pruned
    pieces = tokenizer.tokenize("Fahrradreparatur 自転車")
    assert "<unk>" not in pieces and "".join(pieces) == "▁Fahrradreparatur▁自転車"


WORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=200))
def test_any_covered_words_are_segmented_as_before(whole, words):
    model, tokenizer = whole
    small = torch.nn.Embedding(model.config.vocab_size, 1)

    class Rows(torch.nn.Module):  # a model of which only the rows matter
        def __init__(self):
            super().__init__()
            self.rows, self.config = small, type("Config", (), {})()

        def get_input_embeddings(self):
            return self.rows

    rows, pruned_tokenizer = encoders.prune(Rows(), tokenizer, encoders.pieces_used(tokenizer, words))
    for word in words:
        before, after = (t(word, add_special_tokens=False)["input_ids"] for t in (tokenizer, pruned_tokenizer))
        assert tokenizer.convert_ids_to_tokens(before) == pruned_tokenizer.convert_ids_to_tokens(after)
        assert torch.equal(small(torch.tensor(before).long()), rows.rows(torch.tensor(after).long()))


def test_pieces_that_do_not_exist(whole):
    with pytest.raises(ZgulError, match="1 of the pieces are not in the vocabulary, such as '▁qqqqqq'"):
        encoders.prune(*whole, ["▁de", "▁qqqqqq"])


def test_other_kinds_of_vocabulary_are_refused():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    with pytest.raises(ZgulError, match="WordPiece"):
        encoders.prune(None, PreTrainedTokenizerFast(tokenizer_object=tokenizer), ["a"])


def test_special_tokens_behind_the_vocabulary_keep_their_rows(whole, pruned):
    model, tokenizer = encoders.load("embedded")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<lang>"]})
    last = tokenizer.convert_tokens_to_ids("<lang>")
    small_model, small = encoders.prune(model, tokenizer, ["▁de"])
    assert last == 250_002 and small("de <lang>")["input_ids"][-2] == len(small) - 1
    assert torch.equal(small_model.get_input_embeddings().weight[-1], model.get_input_embeddings().weight[last])


def test_the_4_bit_file_gives_the_same_model(pruned, tmp_path):
    path = tmp_path / "small.q4.safetensors"
    encoders.save_q4(*pruned, path)
    model, tokenizer = encoders.load(path)
    expected = pruned[0].state_dict()
    assert model.state_dict().keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())
    assert tokenizer.backend_tokenizer.to_str() == pruned[1].backend_tokenizer.to_str()
    assert tokenizer.special_tokens_map == pruned[1].special_tokens_map
    assert torch.equal(states(model, tokenizer, COVERED), states(*pruned, COVERED))
    # 4.5 bits a weight: 12.1 MB of layers, 0.8 MB of positions, 216 bytes a piece, and the pieces themselves
    assert path.stat().st_size < 13_000_000 + 245 * len(tokenizer) + 100_000


def test_trained_models_are_not_rounded(pruned, tmp_path):
    model, tokenizer = encoders.prune(*pruned, [])
    with torch.no_grad():
        model.encoder.layer[3].output.dense.weight[7, 7] += 1e-3
    with pytest.raises(ZgulError, match=r"encoder\.layer\.3\.output\.dense\.weight .*save_pretrained"):
        encoders.save_q4(model, tokenizer, tmp_path / "x.q4.safetensors")
    assert not list(tmp_path.iterdir())


def test_4_bit_files_have_a_suffix_and_a_kind_of_model(pruned, tmp_path):
    with pytest.raises(ZgulError, match=r"ends in \.q4\.safetensors"):
        encoders.save_q4(*pruned, tmp_path / "x.bin")

    class Other:
        class config:
            model_type = "xlm-roberta"

    with pytest.raises(ZgulError, match="xlm-roberta"):
        encoders.save_q4(Other, pruned[1], tmp_path / "x.q4.safetensors")


def test_bad_4_bit_files(tmp_path):
    path = tmp_path / "x.q4.safetensors"
    with pytest.raises(ZgulError, match="no such file"):
        encoders.load(path)
    path.write_bytes(b"not this")
    with pytest.raises(ZgulError, match="damaged"):
        encoders.load(path)
    save_file({"a": torch.zeros(1)}, path, metadata={"format": "pt"})
    with pytest.raises(ZgulError, match="not a 4-bit encoder of this version"):
        encoders.load(path)


SCALES = st.floats(-100, 100, width=16)


@given(st.lists(st.tuples(SCALES, st.binary(min_size=16, max_size=16)), min_size=1, max_size=8))
def test_quantising_what_was_dequantised_is_exact(blocks):
    scales = np.array([scale for scale, _ in blocks], np.float16)
    nibbles = np.stack([np.frombuffer(packed, np.uint8) for _, packed in blocks])
    values = q4.dequantise(scales, nibbles)
    assert np.array_equal(q4.dequantise(*q4.quantise(values)), values)


def test_other_values_cannot_be_quantised():
    assert q4.quantise(np.linspace(0, 1, 32, dtype=np.float32)[None]) is None
    assert q4.quantise(np.full((1, 32), np.float32(np.nan))) is None
    assert q4.quantise(np.full((1, 32), np.float32(1e9))) is None

"""Pruned vocabularies give the same outputs for covered text."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models

from zgul import encoders
from zgul.encoders.encoder import Encoder, EncoderConfig
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError

Loaded = tuple[Encoder, PieceTokenizer]

COVERED = [
    ["Hesturinn", "stendur", "við", "hliðina", "á", "gamla", "bænum", "."],
    ["Mvua", "kubwa", "ilinyesha", "usiku", "kucha", "kijijini", "."],
    ["ልጆቹ", "ከትምህርት", "ቤት", "በኋላ", "ኳስ", "ይጫወታሉ", "።"],
    ["Въ", "начѣлѣ", "бѣ", "слово", "ꙗкоже", "рече", "."],
]


@pytest.fixture(scope="module")
def whole() -> Loaded:
    return encoders.load("embedded")


@pytest.fixture(scope="module")
def pruned(whole: Loaded) -> Loaded:
    words = (word for sentence in COVERED for word in sentence)
    return encoders.prune(*whole, encoders.pieces_used(whole[1], words))


@torch.no_grad()
def states(loaded: Loaded, words: list[str]) -> torch.Tensor:
    encoder, tokenizer = loaded
    pieces = [piece for word in tokenizer.tokenise(words) for piece in word]
    ids = torch.tensor([[tokenizer.begin, *pieces, tokenizer.end]])
    return encoder(ids, torch.ones_like(ids, dtype=torch.bool))


def names(tokenizer: PieceTokenizer, words: list[str]) -> list[list[str]]:
    return [[tokenizer.backend.id_to_token(piece) for piece in pieces] for pieces in tokenizer.tokenise(words)]


def test_outputs_are_identical_for_covered_text(whole: Loaded, pruned: Loaded) -> None:
    for words in COVERED:
        assert torch.equal(states(whole, words), states(pruned, words))


def test_pieces_keep_their_order_and_specials_their_role(whole: Loaded, pruned: Loaded) -> None:
    tokenizer = pruned[1]
    size = tokenizer.backend.get_vocab_size()
    assert (tokenizer.begin, tokenizer.pad, tokenizer.end, tokenizer.unknown, tokenizer.mask) == (0, 1, 2, 3, size - 1)
    assert tokenizer.backend.encode("<mask>").ids.count(size - 1) == 1
    ids = [whole[1].backend.token_to_id(tokenizer.backend.id_to_token(index)) for index in range(size)]
    assert ids == sorted(ids)


def test_encoder_and_tokenizer_have_the_same_size_and_the_whole_is_untouched(whole: Loaded, pruned: Loaded) -> None:
    encoder, tokenizer = pruned
    size = tokenizer.backend.get_vocab_size()
    assert encoder.config == replace(whole[0].config, vocabulary=size)
    assert encoder.words.weight.shape == (size, 384) and size < 20_000
    assert whole[0].config.vocabulary == 250_037 == len(whole[0].words.weight)
    assert encoder.positions.weight is whole[0].positions.weight, "all but the vocabulary is shared"


def test_other_words_fall_back_on_smaller_pieces(pruned: Loaded) -> None:
    (bicycle, japanese) = names(pruned[1], ["Fahrradreparatur", "自転車"])
    assert "".join(bicycle) == "▁Fahrradreparatur" and "".join(japanese) == "▁自転車"


WORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)


@settings(max_examples=3, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=200))
def test_any_covered_words_are_segmented_as_before(whole: Loaded, words: list[str]) -> None:
    tokenizer = whole[1]
    shape = EncoderConfig(vocabulary=250_037, width=1, depth=1, heads=1, inner=1, positions=8)
    rows = Encoder(shape)  # only its vocabulary matters
    rows.words.weight.data = torch.arange(250_037.0)[:, None]
    small, pruned = encoders.prune(rows, tokenizer, encoders.pieces_used(tokenizer, words))
    assert names(pruned, words) == names(tokenizer, words)
    for before, after in zip(tokenizer.tokenise(words), pruned.tokenise(words), strict=True):
        assert small.words.weight[after, 0].tolist() == before


def test_pieces_that_do_not_exist(whole: Loaded) -> None:
    with pytest.raises(ZgulError, match="1 of the pieces are not in the vocabulary, such as '▁qqqqqq'"):
        encoders.prune(*whole, ["▁de", "▁qqqqqq"])


def test_other_kinds_of_vocabulary_are_refused(whole: Loaded) -> None:
    specials = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3}
    tokenizer = PieceTokenizer.wrap(Tokenizer(models.WordPiece(specials, unk_token="[UNK]")))
    with pytest.raises(ZgulError, match="WordPiece"):
        encoders.prune(whole[0], tokenizer, ["a"])


def test_special_tokens_behind_the_vocabulary_keep_their_rows(whole: Loaded) -> None:
    encoder = whole[0]
    backend = Tokenizer.from_str(whole[1].backend.to_str())
    backend.add_special_tokens([AddedToken("<lang>", special=True)])
    small, pruned = encoders.prune(encoder, PieceTokenizer.wrap(backend), ["▁de"])
    last = pruned.backend.token_to_id("<lang>")
    assert backend.token_to_id("<lang>") == 250_002 and last == pruned.backend.get_vocab_size() - 1
    assert pruned.backend.encode("de <lang>").ids[-2] == last
    assert torch.equal(small.words.weight[last], encoder.words.weight[250_002])

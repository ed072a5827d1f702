"""Words to pieces and batches: nothing is lost, doubled or moved, however long or empty the sentences are."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from zgul.corpora.encode import IGNORED, PieceEncoder

from family import family, tiny_tokenizer
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError

MADE = family(0)
LABELS = {"A": 0, "B": 1}
LANGUAGES = {"x": 0, "y": 1}


@cache
def tokenizer():
    return tiny_tokenizer(MADE)


def piece_encoder(max_pieces: int = 128) -> PieceEncoder:
    return PieceEncoder(tokenizer(), max_pieces)


words = st.text(alphabet="pabike", min_size=1, max_size=9)
sentence_lists = st.lists(
    st.lists(st.tuples(words, st.sampled_from(["A", "B", "other"]), st.sampled_from("xy")), max_size=12), max_size=6
)


def sentences_of(drawn: list) -> list[Sentence]:
    return [
        Sentence([w for w, _, _ in row], [t for _, t, _ in row], word_languages=[lang for _, _, lang in row])
        for row in drawn
    ]


def slow_chunks(pieces: PieceEncoder, sentences: list[Sentence]) -> list[dict[str, list]]:
    """The chunks by plain loops: whole words while they fit, then a new chunk."""
    room, chunks = pieces.max_pieces, []
    for number, sentence in enumerate(sentences):
        chunk = None
        for word, tag, language in zip(sentence.words, sentence.tags, sentence.word_languages, strict=True):
            ids = tokenizer().encode(word, add_special_tokens=False)[:room]
            if chunk is None or len(chunk["ids"]) + len(ids) > room:
                chunk = {"ids": [], "labels": [], "first": [], "languages": [], "corpus": number % 2}
                chunks.append(chunk)
            chunk["ids"] += ids
            chunk["first"] += [True] + [False] * (len(ids) - 1)
            chunk["labels"] += [LABELS.get(tag, IGNORED)] + [IGNORED] * (len(ids) - 1)
            chunk["languages"] += [LANGUAGES[language]] * len(ids)
    return chunks


@settings(max_examples=150, deadline=None)
@given(sentence_lists, st.integers(3, 14))
def test_chunks_are_those_of_a_plain_loop(drawn: list, max_pieces: int) -> None:
    sentences, pieces = sentences_of(drawn), piece_encoder(max_pieces)
    encoded = pieces.encode(sentences, labels=LABELS, languages=LANGUAGES, corpus=[n % 2 for n in range(len(drawn))])
    expected = slow_chunks(pieces, sentences)
    assert len(encoded) == len(expected)
    for row, chunk in enumerate(expected):
        size = len(chunk["ids"])
        batch = encoded.batch(torch.tensor([row]), size + 5)
        begin, end, pad = pieces.begin, pieces.end, pieces.pad
        assert batch.input_ids[0].tolist() == [begin, *chunk["ids"], end, pad, pad, pad]
        assert batch.mask[0].tolist() == [True] * (size + 2) + [False] * 3
        assert batch.words[0].tolist() == [False, *chunk["first"], False, False, False, False]
        assert batch.labels[0].tolist() == [IGNORED, *chunk["labels"], *[IGNORED] * 4]
        assert batch.languages[0, 1 : size + 1].tolist() == chunk["languages"]
        assert int(batch.corpus[0]) == chunk["corpus"]


@settings(max_examples=150, deadline=None)
@given(sentence_lists, st.integers(3, 14), st.integers(8, 64), st.sampled_from([1, 4, 8]))
def test_batches_cover_everything_once_and_give_it_back_in_order(
    drawn: list, max_pieces: int, max_tokens: int, multiple: int
) -> None:
    sentences = sentences_of(drawn)
    encoded = piece_encoder(max_pieces).encode(sentences, labels=LABELS)
    place = torch.full((len(encoded.pieces),), -1)
    label = torch.full((len(encoded.pieces),), -1)
    seen: list[int] = []
    for batch in encoded.batches(max_tokens, multiple):
        assert batch.input_ids.shape[1] % multiple == 0
        assert len(batch.rows) == 1 or batch.input_ids.numel() <= max_tokens
        seen += batch.rows.tolist()
        encoded.scatter(place, batch, encoded.starts[batch.rows][:, None] + torch.arange(batch.words.shape[1]) - 1)
        encoded.scatter(label, batch, batch.labels)
    assert sorted(seen) == list(range(len(encoded)))
    assert [len(values) for values in encoded.by_sentence(place)] == [len(s) for s in sentences]
    order = [int(value) for values in encoded.by_sentence(place) for value in values]
    assert order == sorted(order) and -1 not in order, "words come back in the order they were given"
    expected = [[LABELS.get(tag, IGNORED) for tag in s.tags] for s in sentences]
    assert [values.tolist() for values in encoded.by_sentence(label)] == expected


def test_empty_rows_of_a_batch_hold_nothing_and_keep_one_visible_position() -> None:
    encoded = piece_encoder().encode([Sentence(["pa"], ["A"])], labels=LABELS)
    batch = encoded.batch(torch.tensor([0, -1]), 4)
    assert not batch.words[1].any() and (batch.labels[1] == IGNORED).all()
    assert batch.mask[1].tolist() == [True, False, False, False]
    assert batch.input_ids[1].tolist() == [encoded.specials[2]] * 4
    into = torch.full((1,), 5.0)
    encoded.scatter(into, batch, torch.tensor([[9.0, 7.0, 9.0, 9.0], [3.0] * 4]))
    assert into.tolist() == [7.0]


@pytest.mark.parametrize("sentences", [[], [Sentence([])], [Sentence([], []), Sentence([])]])
def test_nothing_at_all(sentences: list[Sentence]) -> None:
    encoded = piece_encoder().encode(sentences, labels=LABELS)
    assert len(encoded) == 0 and list(encoded.batches()) == []
    assert [len(values) for values in encoded.by_sentence(torch.zeros(0))] == [0] * len(sentences)


def test_a_word_without_pieces_becomes_unknown() -> None:
    pieces = piece_encoder()
    for gone in ("", " "):
        assert pieces.pieces(gone) == [pieces.unknown], "words that the tokenizer removes still get a place"
    encoded = pieces.encode([Sentence(["pa", " ", "ki"], ["A", "B", "A"])], labels=LABELS)
    assert encoded.labels[encoded.first].tolist() == [0, 1, 0]
    assert pieces.unknown_share(["pa", " "]) == 0.5 and pieces.unknown_share([]) == 0.0


def test_a_word_longer_than_a_chunk_keeps_its_start_even_when_learnt_under_another_limit() -> None:
    pieces = piece_encoder(128)
    long = "pa" + "ki" * 20
    whole = pieces.pieces(long)
    assert len(whole) == 21
    pieces.max_pieces = 6
    assert pieces.pieces(long) == whole[:6]
    encoded = pieces.encode([Sentence([long, "pa", long], ["A", "B", "A"])], labels=LABELS)
    assert encoded.lengths.tolist() == [6, 1, 6]
    assert encoded.labels[encoded.first].tolist() == [0, 1, 0]


def test_words_are_tokenised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = piece_encoder()
    asked: list[str] = []
    real = pieces._tokenise
    monkeypatch.setattr(pieces, "_tokenise", lambda new: asked.extend(new) or real(new))
    for _ in range(2):
        pieces.encode([Sentence(["pa", "ki", "pa"]), Sentence(["ki"])])
    assert sorted(asked) == ["ki", "pa"]


def test_replaced_words_keep_labels_and_languages() -> None:
    sentence = Sentence(["pa", "ki"], ["A", "B"], "y")
    encoded = piece_encoder().encode([sentence], labels=LABELS, languages=LANGUAGES, words=[["pakipa", "e"]])
    assert encoded.first.tolist() == [True, False, False, True]
    assert encoded.labels.tolist() == [0, IGNORED, IGNORED, 1]
    assert encoded.languages.tolist() == [1] * 4


@pytest.mark.parametrize(
    "sentence", [Sentence(["pa"], None, "z"), Sentence(["pa"]), Sentence(["pa"], None, None, ["z"])]
)
def test_languages_that_the_model_was_not_told_of(sentence: Sentence) -> None:
    with pytest.raises(ZgulError, match="it knows: x, y"):
        piece_encoder().encode([sentence], languages=LANGUAGES)


def test_a_word_of_a_language_that_the_model_was_not_told_of_counts_as_its_sentences() -> None:
    mixed = Sentence(["pa", "bi", "ke"], language="x", word_languages=["y", "other", ""])
    found = piece_encoder().encode([mixed], languages=LANGUAGES)
    assert found.languages[found.first].tolist() == [LANGUAGES["y"], LANGUAGES["x"], LANGUAGES["x"]]


def test_half_a_character_is_refused() -> None:
    pieces = piece_encoder()
    with pytest.raises(ZgulError, match=r"'\\ud800' is half of a character"):
        pieces.learn(["pa", "b\ud800"])
    assert pieces.pieces("pa")


def test_a_tokenizer_without_specials_is_refused() -> None:
    class Bare:
        cls_token_id = bos_token_id = None

    with pytest.raises(ZgulError, match="no cls_token; a BERT-like tokenizer is needed"):
        PieceEncoder(Bare(), 10)


def test_corpora_and_batches_move_between_devices() -> None:
    encoded = piece_encoder().encode([Sentence(["pa"], ["A"])], labels=LABELS).to("meta")
    assert encoded.pieces.is_meta and isinstance(encoded.sentence_sizes, np.ndarray)
    batch = piece_encoder().encode([Sentence(["pa"])]).batch(torch.tensor([0]), 3).to("meta")
    assert batch.input_ids.is_meta and batch.rows.is_meta


def test_a_batch_among_more_and_longer_rows() -> None:
    sentences = [Sentence(["pabi", "ke"], language="x"), Sentence(["ke"], language="y"), Sentence(["ki"], language="y")]
    encoded = piece_encoder().encode(sentences, languages=LANGUAGES)
    batch = encoded.batch(torch.tensor([2, 0]), int(encoded.lengths.max()) + 2)
    rows, length = batch.input_ids.shape
    assert batch.padded(rows, length, 0) is batch
    larger = batch.padded(rows + 2, length + 3, encoded.specials[2])
    expected = encoded.batch(torch.tensor([2, 0, -1, -1]), length + 3)
    assert set(batch.languages[:, 1].tolist()) == {0, 1}
    for name, value in vars(larger).items():
        filled = slice(2) if name in ("languages", "corpus") else slice(None)  # of no one in an empty row
        assert torch.equal(value[filled], getattr(expected, name)[filled]), name
    for shape in ((rows - 1, length), (rows, length - 1)):
        with pytest.raises(ValueError, match="do not fit"):
            batch.padded(*shape, 0)

"""Words to pieces and batches: nothing is lost, doubled or moved, however long or empty the sentences are."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from family import family, tiny_tokenizer
from threads import in_threads
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import IGNORED, Batch, EncodedCorpus, ModelLanguages, PieceEncoder
from zgul.errors import ZgulError

MADE = family(0)
TOKENIZER = tiny_tokenizer(MADE)
LABELS = {"A": 0, "B": 1}
LANGUAGES = ModelLanguages({"x": 0, "y": 1}, torch.tensor([[0.0, 1.0], [2.0, 3.0]]))


def piece_encoder(max_pieces: int = 128, **options: Any) -> PieceEncoder:
    return PieceEncoder(TOKENIZER, max_pieces, **options)


def encode(sentences: list[Sentence], pieces: PieceEncoder | None = None, **options: Any) -> EncodedCorpus:
    """Encode sentences in the language x, unless they say otherwise."""
    spoken = [s if s.language or s.word_languages is not None else replace(s, language="x") for s in sentences]
    return (pieces or piece_encoder()).encode(spoken, languages=LANGUAGES, labels=LABELS, **options)


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
            ids = TOKENIZER.backend.encode(word, add_special_tokens=False).ids[:room]
            if chunk is None or len(chunk["ids"]) + len(ids) > room:
                chunk = {"ids": [], "labels": [], "first": [], "languages": [], "corpus": number % 2}
                chunks.append(chunk)
            chunk["ids"] += ids
            chunk["first"] += [True] + [False] * (len(ids) - 1)
            chunk["labels"] += [LABELS.get(tag, IGNORED)] + [IGNORED] * (len(ids) - 1)
            chunk["languages"] += [LANGUAGES.rows[language]] * len(ids)
    return chunks


@settings(max_examples=150, deadline=None)
@given(sentence_lists, st.integers(3, 14))
def test_chunks_are_those_of_a_plain_loop(drawn: list, max_pieces: int) -> None:
    sentences, pieces = sentences_of(drawn), piece_encoder(max_pieces)
    encoded = encode(sentences, pieces, corpora=[n % 2 for n in range(len(drawn))])
    expected = slow_chunks(pieces, sentences)
    assert len(encoded) == len(expected)
    for row, chunk in enumerate(expected):
        size = len(chunk["ids"])
        batch = encoded.batch(torch.tensor([row]), size + 5)
        begin, end, pad = TOKENIZER.begin, TOKENIZER.end, TOKENIZER.pad
        assert batch.input_ids[0].tolist() == [begin, *chunk["ids"], end, pad, pad, pad]
        assert batch.mask[0].tolist() == [True] * (size + 2) + [False] * 3
        assert batch.words[0].tolist() == [False, *chunk["first"], False, False, False, False]
        assert batch.labels[0].tolist() == [IGNORED, *chunk["labels"], *[IGNORED] * 4]
        assert batch.languages[0, 1 : size + 1].tolist() == chunk["languages"]
        assert int(batch.corpora[0]) == chunk["corpus"]


def by_sentence(encoded: EncodedCorpus, values: torch.Tensor) -> list[list[int]]:
    return [part.tolist() for part in torch.split(encoded.by_word(values), encoded.sentence_sizes.tolist())]


@settings(max_examples=150, deadline=None)
@given(sentence_lists, st.integers(3, 14), st.integers(8, 64), st.sampled_from([1, 4, 8]), st.booleans())
def test_batches_cover_everything_once_and_give_it_back_in_order(
    drawn: list, max_pieces: int, max_tokens: int, multiple: int, every_second: bool
) -> None:
    sentences = sentences_of(drawn)
    encoded = encode(sentences, piece_encoder(max_pieces))
    place, label = (torch.full((len(encoded.pieces),), -1) for _ in range(2))
    wanted = torch.arange(0, len(encoded), 2) if every_second else None
    seen: list[int] = []
    for batch in encoded.batches(max_tokens, multiple=multiple, rows=wanted):
        length = batch.input_ids.shape[1]
        assert length % multiple == 0 if length < max_pieces else length == max_pieces
        assert len(batch) == 1 or batch.input_ids.numel() <= max_tokens
        seen += batch.rows.tolist()
        encoded.scatter(place, batch, encoded.starts[batch.rows][:, None] + torch.arange(batch.words.shape[1]) - 1)
        encoded.scatter(label, batch, batch.labels)
    assert sorted(seen) == list(range(0, len(encoded), 2 if every_second else 1))
    if every_second:
        return
    assert [len(values) for values in by_sentence(encoded, place)] == [len(s) for s in sentences]
    order = [value for values in by_sentence(encoded, place) for value in values]
    assert order == sorted(order) and -1 not in order, "words come back in the order they were given"
    expected = [[LABELS.get(tag, IGNORED) for tag in s.tags or []] for s in sentences]
    assert by_sentence(encoded, label) == expected


def test_batches_begin_with_the_longest_and_hold_chunks_of_similar_length() -> None:
    encoded = encode([Sentence(["pa"] * size) for size in (3, 100, 1, 98, 50)])
    batches = list(encoded.batches(1000))
    assert [batch.rows.tolist() for batch in batches] == [[1, 3, 4, 0, 2]], "few tokens: all at once"
    many = encode([Sentence(["pa"] * (100 if n % 2 else 4)) for n in range(40)])
    shapes = [tuple(batch.input_ids.shape) for batch in many.batches(100_000, alike=0.9)]
    assert shapes == [(20, 102), (20, 6)], "long and short ones apart: no padding"


def test_empty_rows_of_a_batch_hold_nothing_and_keep_one_visible_position() -> None:
    encoded = encode([Sentence(["pa"], ["A"])])
    batch = encoded.batch(torch.tensor([0, -1]), 4)
    assert not batch.words[1].any() and (batch.labels[1] == IGNORED).all()
    assert batch.mask[1].tolist() == [True, False, False, False]
    assert batch.input_ids[1].tolist() == [encoded.specials[2]] * 4
    into = torch.full((1,), 5.0)
    encoded.scatter(into, batch, torch.tensor([[9.0, 7.0, 9.0, 9.0], [3.0] * 4]))
    assert into.tolist() == [7.0]


@pytest.mark.parametrize("sentences", [[], [Sentence([])], [Sentence([], []), Sentence([])]])
def test_nothing_at_all(sentences: list[Sentence]) -> None:
    encoded = encode(sentences)
    assert len(encoded) == 0 and list(encoded.batches(100)) == []
    assert by_sentence(encoded, torch.zeros(0)) == [[]] * len(sentences)


def test_a_word_without_pieces_becomes_unknown() -> None:
    pieces = piece_encoder()
    for gone in ("", " "):
        (cut,) = pieces.pieces([gone])
        assert cut.tolist() == [TOKENIZER.unknown], "words that the tokenizer removes still get a place"
    encoded = encode([Sentence(["pa", " ", "ki"], ["A", "B", "A"])], pieces)
    assert encoded.labels[encoded.first].tolist() == [0, 1, 0]
    assert pieces.unknown_share(["pa", " "]) == 0.5 and pieces.unknown_share([]) == 0.0


def test_a_word_longer_than_a_chunk_keeps_its_start() -> None:
    long = "pa" + "ki" * 20
    assert [len(cut) for cut in piece_encoder(8).pieces([long])] == [21], "the pieces themselves are whole"
    encoded = encode([Sentence([long, "pa", long], ["A", "B", "A"])], piece_encoder(8))
    assert encoded.lengths.tolist() == [6, 1, 6]
    assert encoded.labels[encoded.first].tolist() == [0, 1, 0]


class Counted:
    """A tokenizer that remembers which words it was asked for, and may take its time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked: list[str] = []
        self.seconds = seconds

    def encode(self, text: str, **options: Any) -> Any:
        return TOKENIZER.backend.encode(text, **options)

    def encode_batch(self, words: list[list[str]], **options: Any) -> Any:
        self.asked += [word for (word,) in words]
        time.sleep(self.seconds)
        return TOKENIZER.backend.encode_batch(words, **options)


def test_only_the_start_of_a_very_long_word_is_cut() -> None:
    encoder = PieceEncoder(TOKENIZER, 512)
    short, long = encoder.pieces(["a" * 10_000, "a" * 2_000_000])
    assert short.tolist() == long.tolist()


def test_words_are_tokenised_once_until_there_are_too_many() -> None:
    counted = Counted()
    pieces = PieceEncoder(replace(TOKENIZER, backend=counted), 128, max_types=4)
    for _ in range(2):
        encode([Sentence(["pa", "ki", "pa"]), Sentence(["ki"])], pieces)
    assert counted.asked == ["pa", "ki"]
    for word in ("ba", "be", "bi", "bo"):
        pieces.pieces([word])
    counted.asked.clear()
    (cut,) = pieces.pieces(["pa"])
    assert counted.asked == ["pa"], "a full table is thrown away"
    assert cut.tolist() == TOKENIZER.tokenise(["pa"])[0]


def test_replaced_words_keep_labels_and_languages() -> None:
    encoded = encode([Sentence(["pa", "ki"], ["A", "B"], "y")], words=[["pakipa", "e"]])
    assert encoded.first.tolist() == [True, False, False, True]
    assert encoded.labels.tolist() == [0, IGNORED, IGNORED, 1]
    assert encoded.languages.tolist() == [1] * 4


@pytest.mark.parametrize(
    "sentence", [Sentence(["pa"], None, "z"), Sentence(["pa"]), Sentence(["pa"], None, None, ["z"])]
)
def test_languages_that_the_model_does_not_know(sentence: Sentence) -> None:
    with pytest.raises(ZgulError, match="but the model was prepared for: x, y"):
        piece_encoder().encode([sentence], languages=LANGUAGES)


def test_a_word_of_a_language_that_the_model_does_not_know_counts_as_its_sentences() -> None:
    mixed = Sentence(["pa", "bi", "ke"], language="x", word_languages=["y", "other", ""])
    encoded = encode([mixed])
    assert encoded.languages[encoded.first].tolist() == [1, 0, 0]


def test_half_a_character_is_refused() -> None:
    pieces = piece_encoder()
    with pytest.raises(ZgulError, match=r"'\\ud800' is half of a character"):
        pieces.pieces(["pa", "b\ud800"])
    assert pieces.pieces(["pa"])[0].tolist() == TOKENIZER.tokenise(["pa"])[0]


# --- related letters


def test_unknown_letters_are_read_as_related_ones() -> None:
    plain, related = piece_encoder(), piece_encoder(related_letters=True)
    words = ["pa", "pá", "þá", "ķí", "🦄"]
    assert plain.unknown_share(words) > related.unknown_share(words)
    assert related.pieces(["pá"])[0].tolist() == plain.pieces(["pa"])[0].tolist()
    assert related.replacements("aá🦄") == {"á": "a"}
    assert related.pieces(["🦄"])[0].tolist() == [TOKENIZER.unknown], "nothing is like it"
    assert plain.pieces(["pa"])[0].tolist() == related.pieces(["pa"])[0].tolist()


# --- threads


def slow_pieces(words: list[str]) -> list[list[int]]:
    return [TOKENIZER.tokenise([word])[0] or [TOKENIZER.unknown] for word in words]


@pytest.mark.parametrize("related_letters", [False, True])
def test_threads_never_get_the_pieces_of_other_words(related_letters: bool) -> None:
    """The table is full all the time, and other threads come in while new words are tokenised."""
    vocabulary = sorted({word for language in MADE.languages for s in MADE.sentences(language, 60) for word in s.words})
    vocabulary += [word.replace("a", "á") for word in vocabulary[:100]] if related_letters else []
    expected = dict(zip(vocabulary, piece_encoder(related_letters=related_letters).pieces(vocabulary), strict=True))
    if not related_letters:
        assert [cut.tolist() for cut in expected.values()] == slow_pieces(vocabulary)
    slow = replace(TOKENIZER, backend=Counted(seconds=1e-5))
    pieces = PieceEncoder(slow, 128, max_types=20, related_letters=related_letters)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            words = [vocabulary[n] for n in rng.integers(len(vocabulary), size=30)]
            encoded = encode([Sentence(words)], pieces)
            assert np.array_equal(encoded.pieces.numpy(), np.concatenate([expected[word] for word in words]))
            for word, cut in zip(words, pieces.pieces(words), strict=True):
                assert np.array_equal(cut, expected[word]), word

    in_threads(work)


# --- batches


def test_corpora_move_between_devices() -> None:
    encoded = encode([Sentence(["pa"], ["A"])]).to("meta")
    assert encoded.pieces.is_meta and encoded.table.is_meta and isinstance(encoded.sentence_sizes, np.ndarray)


def batch_of_three() -> tuple[EncodedCorpus, Batch]:
    sentences = [Sentence(["pabi", "ke"], language="x"), Sentence(["ke"], language="y"), Sentence(["ki"], language="y")]
    encoded = encode(sentences)
    return encoded, encoded.batch(torch.tensor([2, 0]), int(encoded.lengths.max()) + 2)


def test_a_batch_among_more_and_longer_rows() -> None:
    encoded, batch = batch_of_three()
    rows, length = batch.input_ids.shape
    assert batch.padded(rows, length, 0) is batch
    larger = batch.padded(rows + 2, length + 3, encoded.specials[2])
    expected = encoded.batch(torch.tensor([2, 0, -1, -1]), length + 3)
    assert set(batch.languages[:, 1].tolist()) == {0, 1}
    for name, value in vars(larger).items():
        filled = slice(2) if name in ("languages", "corpora") else slice(None)  # an empty row has none of its own
        assert torch.equal(value[filled], getattr(expected, name)[filled]), name
    for shape in ((rows - 1, length), (rows, length - 1)):
        with pytest.raises(ValueError, match="do not fit"):
            batch.padded(*shape, 0)


def test_some_rows_of_a_batch() -> None:
    encoded, batch = batch_of_three()
    one = batch.select(slice(1, 2))
    assert len(one) == 1 and one.table is batch.table
    for name, value in vars(encoded.batch(torch.tensor([0]), batch.input_ids.shape[1])).items():
        assert torch.equal(getattr(one, name), value), name

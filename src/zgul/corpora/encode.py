"""Words to sub-word pieces, and batches of them.

Each word is cut into pieces by itself, so a corpus is encoded through a table of its word types: a word is
tokenised once however often it occurs, and everything after that is array arithmetic. A tag sits on the first
piece of its word. Sentences over the encoder's limit are cut at word borders; because pieces stay in the order of
the words, joining them again needs no book-keeping.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from zgul.corpora.letters import similar_letters
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError

NEAR, ENOUGH = 0.9, 512  # how batches are made on a CPU: see EncodedCorpus.batches
IGNORED = -100  # the label of what is not trained on: continuation pieces, padding, unannotated words


@dataclass
class Batch:
    """Sentences (or parts of long ones) padded to one length."""

    input_ids: Tensor  # [B, T]
    mask: Tensor  # [B, T] bool: a piece or a special, not padding
    words: Tensor  # [B, T] bool: first piece of a word
    languages: Tensor  # [B, T] row in the model's table of languages
    labels: Tensor  # [B, T] label index or IGNORED
    corpus: Tensor  # [B] which corpus the sentence is from: corpora may annotate different label sets
    rows: Tensor  # [B] place in the encoded corpus; -1 for padding rows

    def to(self, device: torch.device | str) -> Batch:
        return Batch(**{name: value.to(device) for name, value in vars(self).items()})

    def padded(self, rows: int, length: int, pad: int) -> Batch:
        """The same sentences among so many, all of this length; ``pad`` is the piece that stands for none."""
        count, width = self.input_ids.shape
        if rows < count or length < width:
            raise ValueError(f"{count} sentences of {width} pieces do not fit into {rows} of {length}")
        down, along = (0, rows - count), (0, length - width)
        if not (down[1] or along[1]):
            return self
        mask = F.pad(self.mask, along + down, value=False)
        mask[count:, 0] = True  # attention over nothing is not a number
        return Batch(
            input_ids=F.pad(self.input_ids, along + down, value=pad),
            mask=mask,
            words=F.pad(self.words, along + down, value=False),
            languages=F.pad(
                torch.cat([self.languages, self.languages[:, :1].expand(-1, along[1])], dim=1), (0, 0) + down, value=0
            ),
            labels=F.pad(self.labels, along + down, value=IGNORED),
            corpus=F.pad(self.corpus, down, value=0),
            rows=F.pad(self.rows, down, value=-1),
        )


class PieceEncoder:
    """Words to pieces through a table of word types; with ``kin_letters`` unknown letters are read as their kin."""

    def __init__(self, tokenizer: Any, max_pieces: int, *, kin_letters: bool = False) -> None:
        self.tokenizer = tokenizer
        self.kin_letters = kin_letters
        self.max_pieces = max_pieces - 2  # room for the two specials
        self.begin: int = _special(tokenizer, "cls_token_id", "bos_token_id")
        self.end: int = _special(tokenizer, "sep_token_id", "eos_token_id")
        self.pad: int = _special(tokenizer, "pad_token_id")
        self.unknown: int = _special(tokenizer, "unk_token_id")
        self._type_of: dict[str, int] = {}
        self._pieces: list[NDArray[np.int32]] = []
        self._read_as: dict[int, str] = {}  # code point to what it is read as: for str.translate

    def forget(self) -> None:
        """Empty the table, which otherwise grows with every new word."""
        self._type_of.clear()
        self._pieces.clear()

    def pieces(self, word: str) -> list[int]:
        """The pieces of one word; never none."""
        self.learn([word])
        return [int(piece) for piece in self._pieces[self._type_of[word]][: self.max_pieces]]

    def learn(self, words: Sequence[str]) -> None:
        """Tokenise the words that are not in the table yet, all at once."""
        new = [word for word in dict.fromkeys(words) if word not in self._type_of]
        if not new:
            return
        for word, encoding in zip(new, self._read(new), strict=True):
            # a word that the normaliser removes altogether (a lone zero-width joiner, say) still needs a place
            pieces = encoding or [self.unknown]
            self._type_of[word] = len(self._pieces)
            self._pieces.append(np.array(pieces, dtype=np.int32))

    def _read(self, words: list[str]) -> list[list[int]]:
        """The pieces of words; of those with unknown letters, where asked, by the letters' kin."""
        found = self._tokenise(words)
        strange = [n for n, ids in enumerate(found) if self.unknown in ids] if self.kin_letters else []
        if strange:
            self._learn_letters({letter for n in strange for letter in words[n]})
            again = self._tokenise([words[n].translate(self._read_as) for n in strange])
            for n, ids in zip(strange, again, strict=True):
                found[n] = ids or found[n]
        return found

    def read_as(self, letters: Iterable[str]) -> dict[str, str]:
        """Which of these letters are read as another, and as which."""
        letters = list(letters)
        self._learn_letters(letters)
        found = {letter: self._read_as[ord(letter)] for letter in letters}
        return {letter: other for letter, other in found.items() if other != letter}

    def _learn_letters(self, letters: Iterable[str]) -> None:
        """Find for every unknown letter the nearest of its kin that is known, if there is one."""
        new = sorted(letter for letter in letters if ord(letter) not in self._read_as)
        candidates = sorted({other for letter in new for other in (letter, *similar_letters(letter)) if other})
        known = {
            one for one, ids in zip(candidates, self._tokenise(candidates), strict=True) if self.unknown not in ids
        }
        for letter in new:
            choices = (other for other in (letter, *similar_letters(letter)) if other in known or not other)
            self._read_as[ord(letter)] = next(choices, letter)

    def _tokenise(self, words: list[str]) -> list[list[int]]:
        backend = self.tokenizer.backend_tokenizer
        try:
            encodings = backend.encode_batch([[word] for word in words], is_pretokenized=True, add_special_tokens=False)
        except TypeError:  # all that the tokenizer says of half a character
            for word in words:
                _check_characters(word)
            raise
        return [encoding.ids for encoding in encodings]

    def unknown_share(self, words: Sequence[str]) -> float:
        """The share of pieces that the vocabulary does not know."""
        self.learn(words)
        pieces = np.concatenate([self._pieces[self._type_of[word]] for word in words] or [np.zeros(0, np.int32)])
        return float((pieces == self.unknown).mean()) if len(pieces) else 0.0

    def encode(
        self,
        sentences: Sequence[Sentence],
        *,
        labels: dict[str, int] | None = None,
        languages: dict[str, int] | None = None,
        corpus: Sequence[int] | None = None,
        words: Sequence[Sequence[str]] | None = None,
    ) -> EncodedCorpus:
        """Encode sentences.

        ``labels`` maps tags to indices; tags that it lacks are unannotated and stay out of the loss.
        ``languages`` maps language codes to rows of the model's table. ``words`` replaces the sentences' words
        (by noised ones, say) and keeps everything else.
        """
        words = words if words is not None else [sentence.words for sentence in sentences]
        flat_words = [word for sentence in words for word in sentence]
        self.learn(flat_words)
        known = np.fromiter((self._type_of[word] for word in flat_words), np.int64, len(flat_words))
        used, types = np.unique(known, return_inverse=True)  # the table may hold far more than this corpus
        type_pieces = [self._pieces[index] for index in used]
        type_lengths = np.fromiter((len(pieces) for pieces in type_pieces), np.int64, len(type_pieces))
        lengths = np.minimum(type_lengths[types], self.max_pieces)  # of a word that is longer than a chunk, its start
        sizes = np.fromiter((len(sentence) for sentence in words), np.int64, len(words))
        word_ends = np.cumsum(sizes)
        piece_ends = np.concatenate([[0], np.cumsum(lengths)])  # piece offset of each word border

        borders, owner = self._chunks(np.concatenate([[0], word_ends]), piece_ends)
        starts = piece_ends[borders[:-1]]
        type_starts = np.cumsum(type_lengths) - type_lengths
        index = np.repeat(type_starts[types] - piece_ends[:-1], lengths) + np.arange(piece_ends[-1])
        pieces = np.concatenate([*type_pieces, np.zeros(0, np.int32)])[index]
        first = np.zeros(len(pieces), dtype=bool)
        first[piece_ends[:-1]] = True

        word_labels = np.full(len(types), IGNORED, dtype=np.int64)
        if labels is not None:
            tags = [tag for sentence in sentences for tag in (sentence.tags or [""] * len(sentence))]
            word_labels = np.fromiter((labels.get(tag, IGNORED) for tag in tags), np.int64, len(tags))
        piece_labels = np.full(len(pieces), IGNORED, dtype=np.int64)
        piece_labels[first] = word_labels
        word_rows = _language_rows(sentences, sizes, languages)
        return EncodedCorpus(
            pieces=torch.from_numpy(pieces),
            first=torch.from_numpy(first),
            labels=torch.from_numpy(piece_labels),
            languages=torch.from_numpy(np.repeat(word_rows, lengths)),
            starts=torch.from_numpy(starts),
            lengths=torch.from_numpy(np.diff(np.append(starts, len(pieces)))),
            corpus=torch.from_numpy(np.asarray(corpus, np.int64)[owner] if corpus is not None else owner * 0),
            sentence_sizes=sizes,
            specials=(self.begin, self.end, self.pad),
        )

    def _chunks(
        self, sentence_borders: NDArray[np.int64], piece_ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Word borders of the chunks, and the sentence that each chunk is from."""
        spans = piece_ends[sentence_borders[1:]] - piece_ends[sentence_borders[:-1]]
        borders, owner = [0], []
        if (spans <= self.max_pieces).all():
            keep = np.diff(sentence_borders) > 0
            return np.concatenate([[0], sentence_borders[1:][keep]]), np.flatnonzero(keep)
        for index, (start, end) in enumerate(itertools.pairwise(sentence_borders.tolist())):
            while start < end:
                limit = piece_ends[start] + self.max_pieces
                stop = min(end, int(np.searchsorted(piece_ends, limit, side="right")) - 1)
                borders.append(stop)
                owner.append(index)
                start = stop
        return np.array(borders), np.array(owner, dtype=np.int64)


@dataclass
class EncodedCorpus:
    """A corpus as flat arrays of pieces; ``batch`` cuts padded batches out of them, on any device."""

    pieces: Tensor  # [P]
    first: Tensor  # [P] bool
    labels: Tensor  # [P]
    languages: Tensor  # [P]
    starts: Tensor  # [S] first piece of each chunk
    lengths: Tensor  # [S] pieces of each chunk, without specials
    corpus: Tensor  # [S]
    sentence_sizes: NDArray[np.int64]  # words of each sentence, before cutting
    specials: tuple[int, int, int]  # begin, end, pad

    def __len__(self) -> int:
        return len(self.starts)

    def to(self, device: torch.device | str) -> EncodedCorpus:
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return EncodedCorpus(**moved, sentence_sizes=self.sentence_sizes, specials=self.specials)

    def batch(self, rows: Tensor, length: int) -> Batch:
        """The chunks ``rows`` [B] (-1: an empty row) as a batch padded to ``length``."""
        begin, end, pad = self.specials
        real = rows >= 0
        rows_safe = rows.clamp(min=0)
        lengths = torch.where(real, self.lengths[rows_safe], 0)[:, None]  # [B, 1]
        place = torch.arange(length, device=rows.device)[None] - 1  # [1, T]: the piece at each position
        inside = (place >= 0) & (place < lengths)
        index = (self.starts[rows_safe][:, None] + place).clamp(min=0, max=max(len(self.pieces) - 1, 0))
        ids = torch.where(inside, self.pieces[index].long(), pad)
        ids = torch.where((place == -1) & real[:, None], begin, ids)
        ids = torch.where((place == lengths) & real[:, None], end, ids)
        language = torch.where(inside, self.languages[index], self.languages[self.starts[rows_safe]][:, None])
        return Batch(
            input_ids=ids,
            # an empty row keeps one visible position, because attention over nothing is not a number
            mask=((place <= lengths) & real[:, None]) | (place == -1),
            words=inside & self.first[index],
            languages=language,
            labels=torch.where(inside, self.labels[index], IGNORED),
            corpus=self.corpus[rows_safe],
            rows=rows,
        )

    def batches(
        self, max_tokens: int = 8192, multiple: int | None = None, rows: Tensor | None = None
    ) -> Iterator[Batch]:
        """All chunks (or these) once, longest first, in batches of at most about this many tokens, padding included.

        A GPU wants large batches whose lengths are a ``multiple`` of 8. Elsewhere nothing is gained beyond ``ENOUGH``
        tokens: a batch then takes only chunks that are nearly as long as its longest.
        """
        on_gpu = self.pieces.is_cuda
        multiple = multiple or (8 if on_gpu else 1)
        lengths_of = self.lengths.cpu()
        order = torch.arange(len(self)) if rows is None else rows.cpu()
        order = order[torch.argsort(lengths_of[order], descending=True, stable=True)]
        lengths = (lengths_of[order] + 2).numpy()
        at = 0
        while at < len(order):
            longest = int(lengths[at])
            length = -(-longest // multiple) * multiple
            count = max(1, max_tokens // length)
            if not on_gpu:
                near = int((lengths[at : at + count] >= NEAR * longest).sum())
                count = min(count, max(near, -(-ENOUGH // length)))
            yield self.batch(order[at : at + count].to(self.starts.device), length)
            at += count

    def scatter(self, into: Tensor, batch: Batch, values: Tensor) -> None:
        """Write values [B, T, ...] of a batch's words into ``into`` [P, ...], by piece."""
        place = torch.arange(values.shape[1], device=values.device)[None] - 1
        index = self.starts[batch.rows.clamp(min=0)][:, None] + place
        wanted = batch.words & (batch.rows >= 0)[:, None]
        into[index[wanted]] = values[wanted].to(into.dtype)

    def by_word(self, values: Tensor) -> Tensor:
        """Values [P, ...] per piece to those of the words [words, ...], sentence after sentence, off the device."""
        return values[self.first].cpu()

    def by_sentence(self, values: Tensor) -> list[Tensor]:
        """Values [P, ...] per piece to one tensor [words, ...] per sentence."""
        return list(torch.split(self.by_word(values), self.sentence_sizes.tolist()))


def _language_rows(
    sentences: Sequence[Sentence], sizes: NDArray[np.int64], languages: dict[str, int] | None
) -> NDArray[np.int64]:
    """The language row of every word."""
    if languages is None:
        return np.zeros(int(sizes.sum()), dtype=np.int64)
    rows: list[NDArray[np.int64]] = []
    for sentence, size in zip(sentences, sizes, strict=True):
        if sentence.word_languages is not None:
            # in training a foreign word may be in a language that is no source: it counts as the sentence's
            codes = [code if code in languages else sentence.language or code for code in sentence.word_languages]
            rows.append(np.array([_row(languages, code) for code in codes], dtype=np.int64))
        else:
            rows.append(np.full(int(size), _row(languages, sentence.language), dtype=np.int64))
    return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


def _check_characters(word: str) -> None:
    """Refuse half a character: Python's strings may hold what no text in UTF-8 can."""
    try:
        word.encode("utf-8")
    except UnicodeEncodeError as error:
        half = word[error.start : error.end]
        raise ZgulError(f"the word {word!r} is not text: {half!r} is half of a character") from error


def _row(languages: dict[str, int], code: str | None) -> int:
    if code is None or code not in languages:
        known = ", ".join(languages)
        raise ZgulError(f"a sentence is in {code!r}, which this model was not told of; it knows: {known}")
    return languages[code]


def _special(tokenizer: Any, *names: str) -> int:
    for name in names:
        value = getattr(tokenizer, name, None)
        if value is not None:
            return int(value)
    raise ZgulError(f"the tokenizer has no {names[0].removesuffix('_id')}; a BERT-like tokenizer is needed")

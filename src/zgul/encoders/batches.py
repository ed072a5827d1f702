"""Cut words into sub-word pieces, store corpora as flat arrays of pieces, and cut padded batches out of them.

Each distinct word is cut into pieces once, by itself. The rest is array arithmetic. A tag belongs to the first piece
of its word. Sentences longer than the encoder's limit are cut at word borders into chunks.

Letters that the vocabulary lacks, as in a fifth of the words of Old Church Slavonic, can be read as similar letters
(the paper does not do this). The Unicode standard defines what is similar: the canonical parts of a letter (``ǘ``:
``ü``, then ``u``), nothing for a combining mark, the other case, and the letter with a shorter name, without the part
after "WITH" or without its first words (``YERU WITH BACK YER``: ``YERU``, ``IOTIFIED BIG YUS``: ``BIG YUS``).

Marks of stress, length or tone that the vocabulary does not expect cut a word into many pieces that mean little. They
can be left out in sentences that are full of them (``docs/beyond.md``; the paper does not do this).
"""

import contextlib
import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from zgul.corpora.sentence import Sentence
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError

Integers = NDArray[np.int64]
IGNORED = -100  # the label of pieces that are not trained on: continuation pieces, padding, unannotated words
ENOUGH = 512  # tokens in a batch: fewer are not worth having less padding
MAX_TYPES = 50_000  # distinct words that are remembered; about 15 MB
LONGEST = 10_000  # characters of a word that are cut into pieces: more than any encoder reads
STEPS = 3  # how many times a letter may be replaced by a similar one
MARKED = 0.25  # share of a sentence's words with fewer pieces without marks; where an acute is a letter, it is smaller
# grave, acute, circumflex, macron, line, double grave and inverted breve: marks of stress, length and tone
STRESS_MARKS = "\u0300\u0301\u0302\u0304\u030d\u030f\u0311"


@dataclass(frozen=True)
class ModelLanguages:
    """The languages of a model's input. The language table has a row for each, with what the method knows about it."""

    rows: dict[str, int]  # language code -> row
    values: Tensor  # [M, ·]: URIEL features for ZGUL and CPG, adapter scores for MADX


@dataclass
class Batch:
    """Sentences, or chunks of long ones, padded to one length."""

    input_ids: Tensor  # [B, T]
    mask: Tensor  # [B, T] bool: a piece or a special, not padding
    words: Tensor  # [B, T] bool: first piece of a word
    languages: Tensor  # [B, T] row of the language table
    labels: Tensor  # [B, T] label index or IGNORED
    corpora: Tensor  # [B] the corpus of each sentence: corpora may annotate different label sets
    rows: Tensor  # [B] place in the encoded corpus; -1 for padding rows
    table: Tensor  # [M, ·] the language table

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, rows: Tensor | slice) -> Self:
        parts: dict[str, Any] = {name: value[rows] for name, value in vars(self).items() if name != "table"}
        return replace(self, **parts)

    def padded(self, rows: int, length: int, pad: int) -> Self:
        """Pad the batch to this many rows of this length. ``pad`` is the id of the padding piece."""
        count, width = self.input_ids.shape
        if rows < count or length < width:
            raise ValueError(f"{count} sentences of {width} pieces do not fit into {rows} of {length}")
        down, along = (0, rows - count), (0, length - width)
        if not (down[1] or along[1]):
            return self
        fills = {"input_ids": pad, "mask": False, "words": False, "labels": IGNORED}
        parts = {name: F.pad(getattr(self, name), along + down, value=fill) for name, fill in fills.items()}
        parts["mask"][count:, 0] = True  # attention over no position at all would give NaN
        longer = torch.cat([self.languages, self.languages[:, :1].expand(-1, along[1])], dim=1)
        parts |= {"languages": F.pad(longer, (0, 0) + down), "corpora": F.pad(self.corpora, down)}
        return replace(self, **parts, rows=F.pad(self.rows, down, value=-1))


@dataclass
class EncodedCorpus:
    """A corpus as flat arrays of pieces. `batch` cuts padded batches out of them, on any device."""

    pieces: Tensor  # [P]
    first: Tensor  # [P] bool: first piece of a word
    labels: Tensor  # [P]
    languages: Tensor  # [P] row of the language table
    table: Tensor  # [M, ·] the language table
    starts: Tensor  # [S] first piece of each chunk
    lengths: Tensor  # [S] pieces of each chunk, without specials
    corpora: Tensor  # [S]
    sentence_sizes: Integers  # words of each sentence, before cutting
    specials: tuple[int, int, int]  # begin, end, pad
    longest: int  # pieces that the encoder reads at once, specials included

    def __len__(self) -> int:
        return len(self.starts)

    def to(self, device: torch.device | str) -> Self:
        moved: dict[str, Any] = {name: v.to(device) for name, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def batch(self, rows: Tensor, length: int) -> Batch:
        """Make a batch of the chunks ``rows`` [B], padded to ``length``. -1 stands for an empty row."""
        begin, end, pad = self.specials
        real, rows_safe = rows >= 0, rows.clamp(min=0)
        lengths = torch.where(real, self.lengths[rows_safe], 0)[:, None]  # [B, 1]
        place = torch.arange(length, device=rows.device)[None] - 1  # [1, T]: the piece at each position
        inside = (place >= 0) & (place < lengths)
        index = (self.starts[rows_safe][:, None] + place).clamp(min=0, max=max(len(self.pieces) - 1, 0))
        ids = torch.where(inside, self.pieces[index].long(), pad)
        ids = torch.where((place == -1) & real[:, None], begin, ids)
        ids = torch.where((place == lengths) & real[:, None], end, ids)
        return Batch(
            input_ids=ids,
            # an empty row keeps one visible position, because attention over no position would give NaN
            mask=((place <= lengths) & real[:, None]) | (place == -1),
            words=inside & self.first[index],
            languages=torch.where(inside, self.languages[index], self.languages[self.starts[rows_safe]][:, None]),
            labels=torch.where(inside, self.labels[index], IGNORED),
            corpora=self.corpora[rows_safe],
            rows=rows,
            table=self.table,
        )

    def padded_length(self, length: int, multiple: int) -> int:
        """A length padded to a multiple, but not beyond what the encoder reads."""
        return min(-(-length // multiple) * multiple, self.longest)

    def batches(
        self, max_tokens: int, *, multiple: int = 1, alike: float = 0.0, rows: Tensor | None = None
    ) -> Iterator[Batch]:
        """Yield batches of all chunks, or of ``rows``, longest first. A batch has about ``max_tokens`` with padding.

        Lengths are padded to a ``multiple``, as far as the encoder reads. The chunks of a large batch are at least
        ``alike`` times as long as its longest.
        """
        all_lengths = self.lengths.cpu()
        order = torch.arange(len(self)) if rows is None else rows.cpu()
        order = order[torch.argsort(all_lengths[order], descending=True, stable=True)]
        lengths = (all_lengths[order] + 2).numpy()
        at = 0
        while at < len(order):
            longest = int(lengths[at])
            length = self.padded_length(longest, multiple)
            count = max(1, max_tokens // length)
            near = int((lengths[at : at + count] >= alike * longest).sum())
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
        """Pick the values of words [words, ...] from the values of pieces [P, ...], on the CPU."""
        return values[self.first].cpu()


class PieceEncoder:
    """Cuts words into pieces and remembers them. Several threads may use one at the same time."""

    def __init__(
        self, tokenizer: PieceTokenizer, max_pieces: int, *, related_letters: bool = False, max_types: int = MAX_TYPES
    ) -> None:
        """With ``related_letters``, letters that the vocabulary lacks are read as similar ones."""
        self.tokenizer, self.related_letters, self.max_types = tokenizer, related_letters, max_types
        self.max_pieces = max_pieces - 2  # of the encoder's input, without the two special pieces
        # Entries are complete when they are added and never change. A full table is replaced, not emptied.
        # So a thread that holds a table can continue to use it.
        self._table: dict[str, NDArray[np.int32]] = {}
        self._replacements: dict[int, str] = {}  # code point -> what it is read as, for str.translate

    def pieces(self, words: Sequence[str]) -> list[NDArray[np.int32]]:
        """The pieces of each word. Every word has at least one piece."""
        table = self._learn(words)
        return [table[word] for word in words]

    def unknown_share(self, words: Sequence[str]) -> float:
        """The share of the words' pieces that the vocabulary does not know."""
        pieces = np.concatenate([*self.pieces(words), np.zeros(0, np.int32)])
        return float((pieces == self.tokenizer.unknown).mean()) if len(pieces) else 0.0

    def replacements(self, letters: Iterable[str]) -> dict[str, str]:
        """Map each of these letters that is read as another letter to that letter."""
        letters = list(letters)
        self._learn_letters(letters)
        return {letter: other for letter in letters if (other := self._replacements[ord(letter)]) != letter}

    def without_marks(self, sentences: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """The words as they are read if marks of stress, length and tone are left out.

        Words that have fewer pieces without marks lose them, in sentences that have many such words (`MARKED`).
        """
        distinct = dict.fromkeys(word for words in sentences for word in words)
        bare = {word: other for word in distinct if (other := strip_marks(word)) != word}
        both = zip(bare.items(), self.pieces(list(bare)), self.pieces(list(bare.values())), strict=True)
        shorter = {word: other for (word, other), whole, rest in both if len(rest) < len(whole)}

        def read(words: Sequence[str]) -> Sequence[str]:
            marked = sum(word in shorter for word in words) >= MARKED * len(words)
            return [shorter.get(word, word) for word in words] if marked else words

        return list(map(read, sentences)) if shorter else list(sentences)

    def encode(
        self,
        sentences: Sequence[Sentence],
        *,
        languages: ModelLanguages,
        labels: dict[str, int] | None = None,
        corpora: Sequence[int] | None = None,
        words: Sequence[Sequence[str]] | None = None,
        strip_marks: bool = False,
    ) -> EncodedCorpus:
        """Encode sentences for a model that knows ``languages``.

        A tag that ``labels`` lacks is unannotated and stays out of the loss. ``corpora`` numbers the corpus of each
        sentence. ``words`` replaces the sentences' words, for example by words with spelling noise. ``strip_marks``
        reads words as `without_marks` does.
        """
        words = words if words is not None else [sentence.words for sentence in sentences]
        words = self.without_marks(words) if strip_marks else words
        running = [word for sentence in words for word in sentence]
        table, index = self._learn(running), {word: n for n, word in enumerate(dict.fromkeys(running))}
        types = np.fromiter((index[word] for word in running), np.int64, len(running))
        type_pieces = [table[word] for word in index]
        type_lengths = np.fromiter((len(pieces) for pieces in type_pieces), np.int64, len(type_pieces))
        lengths = np.minimum(type_lengths[types], self.max_pieces)  # the start of a word that is longer than a chunk
        sizes = np.fromiter((len(sentence) for sentence in words), np.int64, len(words))
        piece_ends = np.concatenate([[0], np.cumsum(lengths)])  # piece offset of each word border
        borders, owner = self._chunks(np.concatenate([[0], np.cumsum(sizes)]), piece_ends)
        starts = piece_ends[borders[:-1]]

        type_starts = np.cumsum(type_lengths) - type_lengths
        places = np.repeat(type_starts[types] - piece_ends[:-1], lengths) + np.arange(piece_ends[-1])
        pieces = np.concatenate([*type_pieces, np.zeros(0, np.int32)])[places]
        first = np.zeros(len(pieces), dtype=bool)
        first[piece_ends[:-1]] = True
        piece_labels = np.full(len(pieces), IGNORED, dtype=np.int64)
        if labels is not None:
            tags = (tag for sentence in sentences for tag in (sentence.tags or [""] * len(sentence)))
            piece_labels[first] = np.fromiter((labels.get(tag, IGNORED) for tag in tags), np.int64, len(types))
        return EncodedCorpus(
            pieces=torch.from_numpy(pieces),
            first=torch.from_numpy(first),
            labels=torch.from_numpy(piece_labels),
            languages=torch.from_numpy(np.repeat(_language_rows(sentences, sizes, languages.rows), lengths)),
            table=languages.values,
            starts=torch.from_numpy(starts),
            lengths=torch.from_numpy(np.diff(np.append(starts, len(pieces)))),
            corpora=torch.from_numpy(np.asarray(corpora, np.int64)[owner] if corpora is not None else owner * 0),
            sentence_sizes=sizes,
            specials=(self.tokenizer.begin, self.tokenizer.end, self.tokenizer.pad),
            longest=self.max_pieces + 2,
        )

    def _learn(self, words: Sequence[str]) -> dict[str, NDArray[np.int32]]:
        """Add these words to the table and return it. With ``related_letters``, unknown letters are replaced first."""
        if len(self._table) > self.max_types:
            self._table = {}
        table = self._table
        new = [word for word in dict.fromkeys(words) if word not in table]
        unknown = self.tokenizer.unknown
        cut = self.tokenizer.tokenise([word[:LONGEST] for word in new])
        strange = [n for n, ids in enumerate(cut) if unknown in ids] if self.related_letters else []
        if strange:
            self._learn_letters({letter for n in strange for letter in new[n][:LONGEST]})
            again = self.tokenizer.tokenise([new[n][:LONGEST].translate(self._replacements) for n in strange])
            for n, ids in zip(strange, again, strict=True):
                cut[n] = ids or cut[n]
        for word, ids in zip(new, cut, strict=True):
            # a word that the normaliser removes completely (such as a zero-width joiner) still needs a piece
            table[word] = np.array(ids or [unknown], dtype=np.int32)
        return table

    def _learn_letters(self, letters: Iterable[str]) -> None:
        """Find the most similar known letter for every unknown letter, if there is one."""
        new = sorted(letter for letter in letters if ord(letter) not in self._replacements)
        candidates = sorted({other for letter in new for other in (letter, *similar_letters(letter)) if other})
        unknown = self.tokenizer.unknown
        cut = zip(candidates, self.tokenizer.tokenise(candidates), strict=True)
        known = {letter for letter, ids in cut if unknown not in ids}
        for letter in new:
            choices = (other for other in (letter, *similar_letters(letter)) if other in known or not other)
            self._replacements[ord(letter)] = next(choices, letter)

    def _chunks(self, sentence_borders: Integers, piece_ends: Integers) -> tuple[Integers, Integers]:
        """Word borders of the chunks, and the sentence that each chunk belongs to."""
        spans = piece_ends[sentence_borders[1:]] - piece_ends[sentence_borders[:-1]]
        if (spans <= self.max_pieces).all():
            keep = np.diff(sentence_borders) > 0
            return np.concatenate([[0], sentence_borders[1:][keep]]), np.flatnonzero(keep)
        borders, owner = [0], []
        for index, (start, end) in enumerate(itertools.pairwise(sentence_borders.tolist())):
            while start < end:
                limit = piece_ends[start] + self.max_pieces
                stop = min(end, int(np.searchsorted(piece_ends, limit, side="right")) - 1)
                borders.append(stop)
                owner.append(index)
                start = stop
        return np.array(borders), np.array(owner, dtype=np.int64)


def _language_rows(sentences: Sequence[Sentence], sizes: Integers, rows: dict[str, int]) -> Integers:
    """The row of every word's language in the table."""
    codes: list[str | None] = []
    for sentence, size in zip(sentences, sizes.tolist(), strict=True):
        own, language = sentence.word_languages, sentence.language
        # in training, a foreign word may be in a language that is not a source: it gets the sentence's language
        codes += [language] * size if own is None else [code if code in rows else language or code for code in own]
    for code in set(codes) - rows.keys():
        raise ZgulError(f"A sentence is in {code!r}, but the model was prepared for: {', '.join(rows)}.")
    return np.fromiter((rows[str(code)] for code in codes), np.int64, len(codes))


def strip_marks(word: str) -> str:
    """A word without marks of stress, length and tone. Other marks make other letters (``č``, ``ü``), so they stay."""
    parts = unicodedata.normalize("NFD", word)
    bare = "".join(part for part in parts if part not in STRESS_MARKS)
    return word if len(bare) == len(parts) else unicodedata.normalize("NFC", bare)


@cache
def similar_letters(letter: str) -> tuple[str, ...]:
    """The letters that may replace a letter, the most similar first. An empty string means that it may be left out."""
    similar = dict.fromkeys([letter])
    newest = [letter]
    for _ in range(STEPS):
        newest = [other for one in newest for other in _one_step(one) if other not in similar]
        similar |= dict.fromkeys(newest)
    return tuple(similar)[1:]


def _one_step(letter: str) -> Iterator[str]:
    if len(letter) != 1:
        return
    parts = unicodedata.normalize("NFD", letter)
    for end in range(len(parts) - 1, 0, -1):
        yield unicodedata.normalize("NFC", parts[:end])
    if unicodedata.category(letter) == "Mn":
        yield ""
    if len(letter.swapcase()) == 1:
        yield letter.swapcase()
    whole = unicodedata.name(letter, "").partition(" WITH ")[0]
    kind, _, name = whole.partition(" LETTER ")
    words = name.split()
    for start in range(len(words)):
        with contextlib.suppress(KeyError):
            yield unicodedata.lookup(f"{kind} LETTER {' '.join(words[start:])}")

"""Words to sub-word pieces.

Each word is cut into pieces by itself, once however often it occurs; the rest is array arithmetic. A tag belongs to
the first piece of its word. Sentences longer than the encoder's limit are cut at word borders into chunks.

Letters that the vocabulary lacks can be read as similar ones: a fifth of the words of Old Church Slavonic contain
letters that an encoder has never seen. The Unicode standard says which letters are similar: the canonical parts of a
letter (``ǘ``: ``ü``, then ``u``), nothing for a combining mark, the other case, and the letter of the same name without
what it is "with" or what comes before it (``YERU WITH BACK YER``: ``YERU``, ``IOTIFIED BIG YUS``: ``BIG YUS``). Not in
the paper, and off in paper-faithful runs.
"""

import contextlib
import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import IGNORED, EncodedCorpus, ModelLanguages
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError

MAX_TYPES = 50_000  # word types that are remembered; about 15 MB
STEPS = 3  # from a letter to a similar one, to one similar to that, and so on


class PieceEncoder:
    """Cuts words into pieces and remembers them. Several threads may use one at the same time."""

    def __init__(
        self, tokenizer: PieceTokenizer, max_pieces: int, *, related_letters: bool = False, max_types: int = MAX_TYPES
    ) -> None:
        """With ``related_letters``, letters that the vocabulary lacks are read as similar ones."""
        self.tokenizer, self.related_letters, self.max_types = tokenizer, related_letters, max_types
        self.max_pieces = max_pieces - 2  # of the encoder's input, without the two special pieces
        # Entries are complete when they are added and never change, and a full table is replaced, not emptied:
        # whoever holds a table can go on using it.
        self._table: dict[str, NDArray[np.int32]] = {}
        self._replacements: dict[int, str] = {}  # code point -> what it is read as, for str.translate

    def pieces(self, words: Sequence[str]) -> list[NDArray[np.int32]]:
        """The pieces of each word. Every word has at least one."""
        table = self._learn(words)
        return [table[word] for word in words]

    def unknown_share(self, words: Sequence[str]) -> float:
        """The share of the words' pieces that the vocabulary does not know."""
        pieces = np.concatenate([*self.pieces(words), np.zeros(0, np.int32)])
        return float((pieces == self.tokenizer.unknown).mean()) if len(pieces) else 0.0

    def replacements(self, letters: Iterable[str]) -> dict[str, str]:
        """Which of these letters are read as another one, and as which."""
        letters = list(letters)
        self._learn_letters(letters)
        return {letter: other for letter in letters if (other := self._replacements[ord(letter)]) != letter}

    def encode(
        self,
        sentences: Sequence[Sentence],
        *,
        languages: ModelLanguages,
        labels: dict[str, int] | None = None,
        corpora: Sequence[int] | None = None,
        words: Sequence[Sequence[str]] | None = None,
    ) -> EncodedCorpus:
        """Encode sentences for a model that knows ``languages``.

        A tag that ``labels`` lacks is unannotated and stays out of the loss. ``corpora`` numbers the corpus of each
        sentence. ``words`` replaces the sentences' words, by noised ones for example.
        """
        words = words if words is not None else [sentence.words for sentence in sentences]
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
        )

    def _learn(self, words: Sequence[str]) -> dict[str, NDArray[np.int32]]:
        """The table with all of these words, those with unknown letters by related ones where that is asked for."""
        if len(self._table) > self.max_types:
            self._table = {}
        table = self._table
        new = [word for word in dict.fromkeys(words) if word not in table]
        unknown = self.tokenizer.unknown
        cut = self.tokenizer.tokenise(new)
        strange = [n for n, ids in enumerate(cut) if unknown in ids] if self.related_letters else []
        if strange:
            self._learn_letters({letter for n in strange for letter in new[n]})
            again = self.tokenizer.tokenise([new[n].translate(self._replacements) for n in strange])
            for n, ids in zip(strange, again, strict=True):
                cut[n] = ids or cut[n]
        for word, ids in zip(new, cut, strict=True):
            # a word that the normaliser removes altogether (a lone zero-width joiner, say) still needs a place
            table[word] = np.array(ids or [unknown], dtype=np.int32)
        return table

    def _learn_letters(self, letters: Iterable[str]) -> None:
        """Find for every unknown letter the nearest related one that is known, if there is one."""
        new = sorted(letter for letter in letters if ord(letter) not in self._replacements)
        candidates = sorted({other for letter in new for other in (letter, *similar_letters(letter)) if other})
        unknown = self.tokenizer.unknown
        cut = zip(candidates, self.tokenizer.tokenise(candidates), strict=True)
        known = {letter for letter, ids in cut if unknown not in ids}
        for letter in new:
            choices = (other for other in (letter, *similar_letters(letter)) if other in known or not other)
            self._replacements[ord(letter)] = next(choices, letter)

    def _chunks(
        self, sentence_borders: NDArray[np.int64], piece_ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def _language_rows(sentences: Sequence[Sentence], sizes: NDArray[np.int64], rows: dict[str, int]) -> NDArray[np.int64]:
    """The row of every word's language in the table."""
    codes: list[str | None] = []
    for sentence, size in zip(sentences, sizes.tolist(), strict=True):
        own, language = sentence.word_languages, sentence.language
        # in training, a foreign word may be in a language that is no source: it counts as the sentence's
        codes += [language] * size if own is None else [code if code in rows else language or code for code in own]
    for code in set(codes) - rows.keys():
        raise ZgulError(f"A sentence is in {code!r}, but the model was prepared for: {', '.join(rows)}.")
    return np.fromiter((rows[str(code)] for code in codes), np.int64, len(codes))


@cache
def similar_letters(letter: str) -> tuple[str, ...]:
    """List what may replace a letter, the most similar first. The empty string means that it may be left out."""
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

"""Encoded corpora as flat arrays, and the padded batches that are cut out of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100  # the label of what is not trained on: continuation pieces, padding, unannotated words
# On a CPU nothing is gained by batches of more than ENOUGH tokens, so they hold chunks of nearly the same length:
# at least NEAR times the longest.
NEAR, ENOUGH = 0.9, 512


@dataclass(frozen=True)
class ModelLanguages:
    """The languages that a model is to read: a row for each, with what the method knows of it."""

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
        """The same sentences among ``rows`` many, all of this length. ``pad`` is the piece that stands for none."""
        count, width = self.input_ids.shape
        if rows < count or length < width:
            raise ValueError(f"{count} sentences of {width} pieces do not fit into {rows} of {length}")
        down, along = (0, rows - count), (0, length - width)
        if not (down[1] or along[1]):
            return self
        fills = {"input_ids": pad, "mask": False, "words": False, "labels": IGNORED}
        parts = {name: F.pad(getattr(self, name), along + down, value=fill) for name, fill in fills.items()}
        parts["mask"][count:, 0] = True  # attention over nothing is not a number
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
    sentence_sizes: NDArray[np.int64]  # words of each sentence, before cutting
    specials: tuple[int, int, int]  # begin, end, pad

    def __len__(self) -> int:
        return len(self.starts)

    def to(self, device: torch.device | str) -> Self:
        moved: dict[str, Any] = {name: v.to(device) for name, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def batch(self, rows: Tensor, length: int) -> Batch:
        """The chunks ``rows`` [B] (-1: an empty row) as a batch padded to ``length``."""
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
            # an empty row keeps one visible position, because attention over nothing is not a number
            mask=((place <= lengths) & real[:, None]) | (place == -1),
            words=inside & self.first[index],
            languages=torch.where(inside, self.languages[index], self.languages[self.starts[rows_safe]][:, None]),
            labels=torch.where(inside, self.labels[index], IGNORED),
            corpora=self.corpora[rows_safe],
            rows=rows,
            table=self.table,
        )

    def batches(self, max_tokens: int, *, multiple: int = 1, rows: Tensor | None = None) -> Iterator[Batch]:
        """All chunks (or these) once, longest first, in batches of at most about ``max_tokens``, padding included."""
        all_lengths = self.lengths.cpu()
        order = torch.arange(len(self)) if rows is None else rows.cpu()
        order = order[torch.argsort(all_lengths[order], descending=True, stable=True)]
        lengths = (all_lengths[order] + 2).numpy()
        at = 0
        while at < len(order):
            longest = int(lengths[at])
            length = -(-longest // multiple) * multiple
            count = max(1, max_tokens // length)
            if not self.pieces.is_cuda:
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
        """Values [P, ...] of pieces to those of the words [words, ...], on the CPU."""
        return values[self.first].cpu()

"""The one model: an encoder whose layers end in a weighted bank and a task adapter, and a head.

With x the attention output of a layer, f its feed-forward output, LN the layer's own frozen norm,
``h = LN(f + x)`` and u_n the n-th language adapter without residual:

    z   = f + mix(Σ_n w_n u_n)        the weighting of the bank (the paper's o_LA)
    t   = z + TA(LN(z + x))           the task adapter (the paper's o_final)
    out = LN(t + x)

A model without a bank skips the first line, one without task adapters the second: plain fine-tuning is what is
left. CPG puts a generated adapter in place of the bank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zgul.adapters.bank import Bank, Inner
from zgul.adapters.bottleneck import Bottleneck
from zgul.corpora.encode import Batch
from zgul.encoders.encoder import Encoder
from zgul.encoders.packing import Packing
from zgul.ensemble.weighting import Weighting

INVERTIBLE = ("off", "first", "mixed")

# Given a layer and a function that computes the weighting's scores [B, T, K, N], gives the weights to use
Choose = Callable[[int, Callable[[], Tensor]], Tensor]


def softmax_scores(layer: int, compute: Callable[[], Tensor]) -> Tensor:
    """The model's own weights."""
    return compute().softmax(dim=-1)


class Generator(nn.Module):
    """Something that adds to the feed-forward output and is not a weighting of the bank (CPG)."""

    def forward(self, layer: int, f: Tensor, languages: Tensor) -> Tensor:
        raise NotImplementedError


@dataclass
class Prefix:
    """What no weight from a layer on can change: everything up to the mix of this layer."""

    layer: int
    total: Tensor  # f + x [B, T, d], or packed, as all
    h: Tensor
    inner: Inner

    def keep(self, tokens: Tensor) -> Prefix:
        """Of a packed prefix these tokens alone."""
        inner = replace(self.inner, a=self.inner.a[:, tokens])
        return replace(self, total=self.total[:, tokens], h=self.h[:, tokens], inner=inner)


@dataclass
class _Languages:
    """The languages of the tokens that a layer works on, and what the weighting makes of them."""

    languages: Tensor  # [B, T]
    packing: Packing | None
    last: int  # layer
    compute: Callable[[Tensor], Tensor]

    def rows(self, layer: int) -> Tensor:
        return self._at(layer, self._packed)

    def scores(self, layer: int) -> Tensor:
        """Computed once for all layers, and only if one asks."""
        return self._at(layer, self._scores)

    @cached_property
    def _packed(self) -> Tensor:
        return self.languages if self.packing is None else self.packing.pack(self.languages)

    @cached_property
    def _scores(self) -> Tensor:
        return self.compute(self._packed)

    def _at(self, layer: int, values: Tensor) -> Tensor:
        return values if self.packing is None or layer != self.last else self.packing.select(values)


class Model(nn.Module):
    """Encoder, bank, weighting, task adapters and head."""

    def __init__(
        self,
        encoder: Encoder,
        labels: list[str],
        *,
        bank: Bank | None = None,
        weighting: Weighting | None = None,
        generator: Generator | None = None,
        task_size: int | None = None,
        invertible: str = "off",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.labels = labels
        self.bank = bank
        self.weighting = weighting
        self.generator = generator
        self.invertible = invertible
        sizes = [task_size] * encoder.depth if task_size else []
        self.task = nn.ModuleList(Bottleneck(encoder.width, size) for size in sizes)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.width, len(labels))
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    @torch.no_grad()
    def start_at(self, shares: Tensor) -> None:
        """Let an untrained head say how often each label is [C] instead of learning it.

        Where one label is nearly everywhere (O in tweets), learning that first drives all tokens of a frozen encoder
        into one point, from which no adapter comes back.
        """
        self.head.bias.copy_(shares.clamp(min=1e-4).log())

    def forward(
        self,
        batch: Batch,
        choose: Choose = softmax_scores,
        prefix: Prefix | None = None,
        recompute: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        """Label scores [B, T, C]; meaningful at the first piece of each word.

        ``recompute`` keeps only the input of the encoder's layers for a backward pass, which computes them again.
        With ``packing`` padding is left out, and the scores are 0 where they are not wanted.
        """
        told = self._by_language(batch, packing)
        first = 0
        if prefix is None:
            hidden = self._start(batch, choose, packing)
        else:
            hidden, first = self._end(prefix.layer, prefix.total, told, choose, held=prefix), prefix.layer + 1
        for index in range(first, self.encoder.depth):
            x, f = self._layer(index, hidden, batch, packing, recompute)
            hidden = self._end(index, f + x, told, choose, f)
        logits: Tensor = self.head(self.dropout(hidden))
        return logits if packing is None else packing.spread(logits)

    def _start(self, batch: Batch, choose: Choose, packing: Packing | None) -> Tensor:
        hidden = self.embed(batch, choose)
        return hidden if packing is None else packing.pack(hidden)

    def _layer(
        self, index: int, hidden: Tensor, batch: Batch, packing: Packing | None, recompute: bool = False
    ) -> tuple[Tensor, Tensor]:
        arguments = index, hidden, batch.mask[:, None, None, :], packing
        if recompute and torch.is_grad_enabled():
            found: tuple[Tensor, Tensor] = checkpoint(self.encoder.layer, *arguments, use_reentrant=False)
            return found
        return self.encoder.layer(*arguments)

    def _end(
        self,
        index: int,
        total: Tensor,
        told: _Languages,
        choose: Choose,
        f: Tensor | None = None,
        held: Prefix | None = None,
    ) -> Tensor:
        """From ``f + x`` of a layer to what it hands on; every line of the formula adds to that sum."""
        if self.bank is not None and self.weighting is not None:
            total = self._ensemble(index, total, told, choose, held)
        elif self.generator is not None and f is not None:
            total = total + self.generator(index, f, told.rows(index))
        if self.task:
            total = total + self.task[index](self.encoder.norm(index, total))
        return self.encoder.norm(index, total)

    def embed(self, batch: Batch, choose: Choose) -> Tensor:
        """Embeddings [B, T, d], through the bank's invertible blocks where the model uses them."""
        hidden = self.encoder.embed(batch.input_ids)
        if self.bank is None or self.weighting is None or self.invertible == "off":
            return hidden
        if self.invertible == "first":
            return self.bank.invert(hidden, None)
        count = len(self.bank)
        weights = choose(-1, lambda: self._invertible_scores(hidden, batch.languages, count))
        return self.bank.invert(hidden, weights[:, :, 0].to(hidden.dtype))

    def prefix(
        self, batch: Batch, layer: int = 0, choose: Choose = softmax_scores, packing: Packing | None = None
    ) -> Prefix:
        """All layers below this one, and the part of it that comes before its weights."""
        assert self.bank is not None
        told = self._by_language(batch, packing)
        hidden = self._start(batch, choose, packing)
        for index in range(layer):
            x, f = self._layer(index, hidden, batch, packing)
            hidden = self._end(index, f + x, told, choose, f)
        x, f = self._layer(layer, hidden, batch, packing)
        total = f + x
        h = self.encoder.norm(layer, total)
        return Prefix(layer, total, h, self._inner(layer, h))

    def _ensemble(self, index: int, total: Tensor, told: _Languages, choose: Choose, prefix: Prefix | None) -> Tensor:
        """``f + x`` of a layer and the mix of its adapters."""
        assert self.bank is not None and self.weighting is not None
        weighting = self.weighting
        h = self.encoder.norm(index, total) if prefix is None else prefix.h
        inner = self._inner(index, h) if prefix is None else prefix.inner
        if choose is softmax_scores:
            mixed = weighting.at_once(index, h, inner, told.scores(index))
            if mixed is not None:
                return total + mixed
        weights = choose(index, lambda: weighting.scores(index, h, inner, told.scores(index)))
        return total + weighting.mix(index, inner, weights.to(inner.a.dtype))

    def _inner(self, index: int, h: Tensor) -> Inner:
        """What the adapters of a layer make of h, in the weighting's coordinates."""
        assert self.bank is not None and self.weighting is not None
        return self.weighting.turn(index, self.bank(index, h))

    def _by_language(self, batch: Batch, packing: Packing | None) -> _Languages:
        def compute(languages: Tensor) -> Tensor:
            assert self.bank is not None and self.weighting is not None
            return self.weighting.by_language(languages, len(self.bank))

        return _Languages(batch.languages, packing, self.encoder.depth - 1, compute)

    def _invertible_scores(self, hidden: Tensor, languages: Tensor, count: int) -> Tensor:
        """Scores for the invertible blocks: a one-hot weighting picks its own, any other starts uniform."""
        from zgul.ensemble.weighting import OneHot

        if isinstance(self.weighting, OneHot):
            return self.weighting.by_language(languages, count).to(hidden.dtype)
        return hidden.new_zeros(hidden.shape[0], 1, 1, count)

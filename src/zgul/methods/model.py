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
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zgul.adapters.bank import Bank, Inner
from zgul.adapters.bottleneck import Bottleneck
from zgul.corpora.encode import Batch
from zgul.encoders.encoder import Encoder
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
    x: Tensor  # [B, T, d]
    f: Tensor  # [B, T, d]
    h: Tensor  # [B, T, d]
    inner: Inner


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
    ) -> Tensor:
        """Label scores [B, T, C]; meaningful at the first piece of each word.

        ``recompute`` keeps only the input of the encoder's layers for a backward pass, which computes them again.
        """
        mask, told = batch.mask[:, None, None, :], self._by_language(batch)
        hidden = self.embed(batch, choose) if prefix is None else prefix.x
        for index in range(prefix.layer if prefix else 0, self.encoder.depth):
            held = prefix if prefix is not None and index == prefix.layer else None
            if held is not None:
                x, f = held.x, held.f
            elif recompute and torch.is_grad_enabled():
                x, f = checkpoint(self.encoder.layer, index, hidden, mask, use_reentrant=False)
            else:
                x, f = self.encoder.layer(index, hidden, mask)
            hidden = self._end(index, x, f, batch, told, choose, held)
        logits: Tensor = self.head(self.dropout(hidden))
        return logits

    def _end(
        self,
        index: int,
        x: Tensor,
        f: Tensor,
        batch: Batch,
        told: Callable[[], Tensor],
        choose: Choose,
        held: Prefix | None = None,
    ) -> Tensor:
        """From the attention and feed-forward outputs of a layer to what it hands on."""
        if self.bank is not None and self.weighting is not None:
            f = f + self._ensemble(index, x, f, told, choose, held)
        elif self.generator is not None:
            f = f + self.generator(index, f, batch.languages)
        if self.task:
            f = f + self.task[index](self.encoder.norm(index, f + x))
        return self.encoder.norm(index, f + x)

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

    def prefix(self, batch: Batch, layer: int = 0, choose: Choose = softmax_scores) -> Prefix:
        """All layers below this one, and the part of it that comes before its weights."""
        assert self.bank is not None
        mask, told = batch.mask[:, None, None, :], self._by_language(batch)
        hidden = self.embed(batch, choose)
        for index in range(layer):
            hidden = self._end(index, *self.encoder.layer(index, hidden, mask), batch, told, choose)
        x, f = self.encoder.layer(layer, hidden, mask)
        h = self.encoder.norm(layer, f + x)
        return Prefix(layer, x, f, h, self.bank(layer, h))

    def _ensemble(
        self, index: int, x: Tensor, f: Tensor, told: Callable[[], Tensor], choose: Choose, prefix: Prefix | None
    ) -> Tensor:
        assert self.bank is not None and self.weighting is not None
        weighting = self.weighting
        h = self.encoder.norm(index, f + x) if prefix is None else prefix.h
        inner = self.bank(index, h) if prefix is None else prefix.inner
        weights = choose(index, lambda: weighting.scores(index, h, inner, told()))
        return weighting.mix(index, inner, weights.to(inner.a.dtype))

    def _by_language(self, batch: Batch) -> Callable[[], Tensor]:
        """What the weighting makes of the languages: once for all layers, and only if a layer asks for its scores."""

        @cache
        def told() -> Tensor:
            assert self.bank is not None and self.weighting is not None
            return self.weighting.by_language(batch.languages, len(self.bank))

        return told

    def _invertible_scores(self, hidden: Tensor, languages: Tensor, count: int) -> Tensor:
        """Scores for the invertible blocks: a one-hot weighting picks its own, any other starts uniform."""
        from zgul.ensemble.weighting import OneHot

        if isinstance(self.weighting, OneHot):
            return self.weighting.by_language(languages, count).to(hidden.dtype)
        return hidden.new_zeros(hidden.shape[0], 1, 1, count)

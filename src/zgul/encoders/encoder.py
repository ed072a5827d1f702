"""The layer loop of a BERT-like encoder, opened at the one place where adapters plug in.

A Hugging Face BERT, RoBERTa or XLM-R model owns the weights; this class walks its layers so that the caller
gets, for each layer, the attention output ``x`` and the feed-forward output ``f`` *before* the residual. The
plain layer ends in ``LN(f + x)``; every adapter method replaces ``f`` by something else first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.encoders.packing import Packing
from zgul.products import by_columns, through

SHORT = 64  # pieces; see `attend`


class LowRankLinear(nn.Module):
    """A frozen linear map plus a trained difference of low rank, ``W + B A``: a little encoder training."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)  # [rank, in]
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))  # [out, rank]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + F.linear(F.linear(x, self.a), self.b)
        return out

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The same map as one plain matrix."""
        linear = copy.deepcopy(self.base)  # as frozen, and as precise, as it was
        linear.weight += self.b @ self.a
        return linear


class Encoder(nn.Module):
    """Embeddings and layers of a Hugging Face encoder, one layer at a time."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.width: int = model.config.hidden_size
        self.heads: int = model.config.num_attention_heads
        self.depth: int = model.config.num_hidden_layers
        # RoBERTa counts positions from pad + 1, so it holds two fewer words than its table has rows
        offset = 0 if model.config.model_type == "bert" else model.config.pad_token_id + 1
        self.max_pieces: int = model.config.max_position_embeddings - offset
        self.pad: int = model.config.pad_token_id or 0
        self.joined = nn.ModuleList()  # of each layer the projections to query, key and value in one; see `join`

    def embed(self, input_ids: Tensor) -> Tensor:
        """Piece ids [B, T] to the input of the first layer [B, T, d]."""
        embedded: Tensor = self.model.embeddings(input_ids=input_ids)
        return embedded

    def layer(
        self, index: int, hidden: Tensor, mask: Tensor | None, packing: Packing | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attention output x and feed-forward output f before the residual, both [B, T, d].

        ``mask`` is [B, 1, 1, T], true where there is a piece; None where every position holds one. With ``packing``
        hidden, x and f are [1, P, d], and x and f of the last layer [1, W, d].
        """
        layer = self.model.encoder.layer[index]
        attention, end = layer.attention.self, layer.attention.output
        parts = [self.joined[index]] if self.joined else [attention.query, attention.key, attention.value]
        projected = [through(project, hidden) for project in parts]  # [B, T, 3d], or three times [B, T, d]
        if packing is not None:
            projected = [packing.unpack(states) for states in projected]
        batch, length = projected[0].shape[:2]
        shape = batch, length, 3 // len(parts), self.heads, self.width // self.heads
        apart = [states.view(shape) for states in projected]
        query, key, value = (
            states.transpose(1, 2)  # [B, H, T, d/H]
            for together in apart
            for states in together.unbind(2)
        )
        dropout = attention.dropout.p if self.training else 0.0
        context = attend(query, key, value, mask, dropout)
        context = context.transpose(1, 2).reshape(batch, length, self.width)
        if packing is not None:
            context = packing.pack(context)
            if index == self.depth - 1:
                context, hidden = packing.select(context), packing.select(hidden)
        x = _norm(end.LayerNorm, end.dropout(through(end.dense, context)) + hidden)
        inner = through(layer.intermediate.dense, x, _activation(layer.intermediate.intermediate_act_fn))
        f: Tensor = layer.output.dropout(through(layer.output.dense, inner))
        return x, f

    def norm(self, index: int, y: Tensor) -> Tensor:
        """The layer's own output norm."""
        return _norm(self.model.encoder.layer[index].output.LayerNorm, y)

    def forward(self, input_ids: Tensor, mask: Tensor | None = None, packing: Packing | None = None) -> Tensor:
        """The plain encoder: piece ids [B, T] and their mask [B, T] to hidden states [B, T, d]."""
        attention_mask = None if mask is None else mask[:, None, None, :]
        hidden = self.embed(input_ids)
        hidden = hidden if packing is None else packing.pack(hidden)
        for index in range(self.depth):
            x, f = self.layer(index, hidden, attention_mask, packing)
            hidden = self.norm(index, f + x)
        return hidden if packing is None else packing.spread(hidden)

    def set_dropout(self, p: float) -> None:
        """Hidden and attention dropout of the whole encoder."""
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = p

    def add_low_rank(self, rank: int) -> None:
        """Give every matrix of every layer a trainable difference of this rank."""
        for parent, name in _matrices(self.model):
            setattr(parent, name, LowRankLinear(getattr(parent, name), rank))

    def merge_low_rank(self) -> None:
        """Add the trained differences into the matrices."""
        for parent, name in _matrices(self.model):
            linear = getattr(parent, name)
            if isinstance(linear, LowRankLinear):
                setattr(parent, name, linear.merged())

    @torch.no_grad()
    def join(self) -> None:
        """Make query, key and value one product a layer, for inference, and give every matrix the order it wants.

        The model's own matrices become parts of the joined one, until it is copied or moved; then join again.
        """
        self.joined = nn.ModuleList()
        for layer in self.model.encoder.layer:
            parts = [getattr(layer.attention.self, name) for name in ("query", "key", "value")]
            joined = nn.Linear(self.width, 3 * self.width, device="meta")
            for name in ("weight", "bias"):
                whole = torch.cat(
                    [getattr(part, name) for part in parts]
                )  # in rows, so that its parts are in one piece
                setattr(joined, name, nn.Parameter(whole, requires_grad=False))
                for part, share in zip(parts, whole.chunk(3), strict=True):
                    getattr(part, name).data = share
            self.joined.append(joined)
            for part in (layer.attention.output, layer.intermediate, layer.output):
                part.dense.weight.data = by_columns(part.dense.weight.data)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float = 0.0) -> Tensor:
    """``softmax(QKᵀ/√d) V`` for [B, H, T, d], where mask [B, 1, 1, T] is true.

    Over short sentences on a CPU three products take half the time of torch's own tiled kernel (in bf16 they round the
    scores, which that does not). What is exported has no length yet.
    """
    batch, heads, length, width = query.shape
    if query.device.type != "cpu" or dropout or torch.compiler.is_compiling() or length > SHORT:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    flat = [states.reshape(batch * heads, length, width) for states in (query, key, value)]
    bias = query.new_zeros(1, 1, 1)
    if mask is not None:
        least = torch.finfo(query.dtype).min  # not -inf: a sentence of nothing but padding is no number then
        bias = query.new_zeros(batch, 1, length).masked_fill_(~mask[:, 0], least)
        bias = bias.repeat_interleave(heads, dim=0)  # [B H, 1, T]
    scores = torch.baddbmm(bias, flat[0], flat[1].mT, alpha=width**-0.5)  # [B H, T, T]
    return torch.bmm(scores.softmax(dim=-1), flat[2]).view(batch, heads, length, width)


def _activation(module: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """An encoder's activation; the usual one as torch's function, with which a product can end."""
    return F.gelu if type(module).__name__ == "GELUActivation" and vars(module).get("act") is F.gelu else module


def _norm(module: nn.LayerNorm, y: Tensor) -> Tensor:
    """A layer norm; in bf16 where its weights are, which autocast alone would not do."""
    if module.weight.dtype != torch.bfloat16:
        normed: Tensor = module(y)
        return normed
    with torch.autocast(y.device.type, enabled=False):
        return F.layer_norm(y.bfloat16(), module.normalized_shape, module.weight, module.bias, module.eps)


def _matrices(model: Any) -> Iterator[tuple[nn.Module, str]]:
    """The six matrices of each layer, as (parent module, attribute)."""
    for layer in model.encoder.layer:
        yield from ((layer.attention.self, name) for name in ("query", "key", "value"))
        yield layer.attention.output, "dense"
        yield layer.intermediate, "dense"
        yield layer.output, "dense"

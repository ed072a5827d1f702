"""Entropy minimisation written straight from the paper's Algorithm 1: slow, one sentence, one token at a time.

An oracle for tests (``from em_oracle import slow_em``). It takes nothing but weights from the model: no batch, nothing
cached, no product of several adapters at once, and T + 2 forward passes. Padding is computed only where it is asked
for, as the authors' release does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
}


@dataclass
class SlowEM:
    """What Algorithm 1 leaves behind for one sentence of T pieces."""

    logits: Tensor  # [T, C]
    before: Tensor  # [L, T, K, N] weights: fusion's, lang2vec's
    after: Tensor
    entropy: list[float]  # before each update


@dataclass
class Sentence:
    """One sentence for the oracle."""

    pieces: list[int]  # with specials and, perhaps, padding
    words: list[int]  # the positions of first pieces
    features: Tensor  # [T, F] of each piece's language
    visible: int  # pieces that are no padding


def slow_em(
    model: Any,
    sentence: Sentence,
    steps: int,
    lr: float,
    *,
    tied: bool = False,
    start: str = "scores",
    positions: str = "words",
) -> SlowEM:
    """Tag one sentence. The options are those of `zgul.ensemble.em.EMConfig`."""
    scores = start_scores(model, sentence)  # α⁰ = (α_F⁰, α_L⁰), the model's own
    before = torch.stack([score.softmax(dim=-1) for score in scores])
    if start == "probabilities":  # the release takes probabilities for scores
        scores = list(before)
    moves = [torch.zeros_like(score[:1] if tied else score) for score in scores]

    def weights(t: int) -> list[Tensor]:
        alphas = [score + move for score, move in zip(scores, moves, strict=True)]
        return alphas if start == "probabilities" and t == 0 else [alpha.softmax(dim=-1) for alpha in alphas]

    entropies = []
    for t in range(steps):
        moves = [move.clone().requires_grad_() for move in moves]
        logits = forward(model, sentence, weights(t))
        counted = sentence.words if positions == "words" else list(range(len(sentence.pieces)))
        entropy = mean_entropy(logits, counted) * (1 if positions == "words" else len(counted))
        entropies.append(float(entropy.detach()))
        gradients = torch.autograd.grad(entropy, moves)
        moves = [move.detach() - lr * gradient for move, gradient in zip(moves, gradients, strict=True)]
    with torch.no_grad():
        final = weights(steps)
        return SlowEM(forward(model, sentence, final), before, torch.stack(final), entropies)


def mean_entropy(logits: Tensor, words: list[int]) -> Tensor:
    """Entropy of the label distribution, averaged over the words of the sentence."""
    total = logits.new_zeros(())
    for position in words:
        p = logits[position].softmax(dim=-1)
        total = total - (p * p.log()).sum()
    return total / len(words)


@torch.no_grad()
def start_scores(model: Any, sentence: Sentence) -> list[Tensor]:
    """The scores of each layer [T, K, N], by the model's own forward pass."""
    scores: list[Tensor] = []
    hidden = _embed(model, sentence.pieces)
    for index in range(len(model.encoder.layers)):
        x, f, h = _layer(model, index, hidden, sentence.visible)
        u = _adapters(model, index, h)
        rows = [_scores(model, index, h[t], u[t], sentence.features[t]) for t in range(len(h))]
        scores.append(torch.stack(rows))
        hidden = _finish(model, index, x, f, u, scores[-1].softmax(dim=-1))
    return scores


def forward(model: Any, sentence: Sentence, weights: list[Tensor]) -> Tensor:
    """Label scores [T, C] with these weights [T, K, N] in each layer."""
    hidden = _embed(model, sentence.pieces)
    for index, layer_weights in enumerate(weights):
        x, f, h = _layer(model, index, hidden, sentence.visible)
        hidden = _finish(model, index, x, f, _adapters(model, index, h), layer_weights)
    return model.head(hidden)


def _embed(model: Any, pieces: list[int]) -> Tensor:
    encoder, first = model.encoder, model.encoder.config.first_position
    rows = [
        encoder.words.weight[piece] + encoder.positions.weight[first + t] + encoder.types.weight[0]
        for t, piece in enumerate(pieces)
    ]
    return encoder.norm(torch.stack(rows))


def _layer(model: Any, index: int, hidden: Tensor, visible: int) -> tuple[Tensor, Tensor, Tensor]:
    """Attention output x, feed-forward output f before the residual, and h = LN(f + x), each [T, d]."""
    layer, heads = model.encoder.layers[index], model.encoder.config.heads
    query, key, value = layer.query(hidden), layer.key(hidden), layer.value(hidden)
    size = hidden.shape[1] // heads
    contexts = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        attention = (query[:, part] @ key[:visible, part].t() / size**0.5).softmax(dim=-1)  # [T, visible]
        contexts.append(attention @ value[:visible, part])
    x = layer.attention_norm(layer.attended(torch.cat(contexts, dim=1)) + hidden)
    f = layer.outer(ACTIVATIONS[model.encoder.config.activation](layer.inner(x)))
    return x, f, layer.norm(f + x)


def _adapters(model: Any, index: int, h: Tensor) -> Tensor:
    """u_n = U_n act(D_n h) of each token, [T, N, d]."""
    adapters = [model.bank.extract(language).layers[index] for language in model.bank.languages]
    rows = []
    for token in h:
        row = []
        for adapter in (adapter.to(token.dtype) for adapter in adapters):
            inner = adapter.down.weight @ token + adapter.down.bias
            row.append(adapter.up.weight @ ACTIVATIONS[adapter.activation](inner) + adapter.up.bias)
        rows.append(torch.stack(row))
    return torch.stack(rows)


def _scores(model: Any, index: int, h: Tensor, u: Tensor, features: Tensor) -> Tensor:
    """One token's scores [K, N]: (W_q h)·(W_k u_n) and l_langᵀ W_L l_n."""
    weighting = model.weighting
    views = []
    if "fusion" in weighting.views:
        fusion = weighting.fusion[index]
        views.append(torch.stack([fusion.query(h) @ fusion.key(u_n) for u_n in u]))
    if "lang2vec" in weighting.views:
        lang2vec, vectors = weighting.lang2vec[index], weighting.vectors

        def embed(lf: Tensor) -> Tensor:
            return F.relu(vectors.project.weight @ lf.to(h.dtype) + vectors.project.bias)

        own = embed(features)
        views.append(torch.stack([own @ lang2vec.bilinear @ embed(source) for source in vectors.bank_features]))
    return torch.stack(views)


def _finish(model: Any, index: int, x: Tensor, f: Tensor, u: Tensor, weights: Tensor) -> Tensor:
    """From the adapters' outputs to the layer's output: mix, combine, task adapter, residual and norm."""
    weighting, norm = model.weighting, model.encoder.layers[index].norm
    task = model.task[index]
    rows = []
    for t in range(len(x)):
        views = [
            weighting.value[index](sum(weights[t, view, n] * u[t, n] for n in range(u.shape[1])))
            for view in range(weights.shape[1])
        ]
        if len(views) == 1:
            joined = views[0]
        elif len(weighting.combine):
            joined = weighting.combine[index](torch.cat(views))
        else:
            joined = torch.maximum(*views)
        z = f[t] + joined
        inner = ACTIVATIONS[task.activation](task.down(norm(z + x[t])))
        rows.append(norm(z + task.up(inner) + x[t]))
    return torch.stack(rows)

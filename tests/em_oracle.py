"""Entropy minimisation written straight from the paper's Algorithm 1: slow, one sentence, one token at a time.

An oracle for tests (``from em_oracle import slow_em``). It takes nothing but weights from the model it checks: no batch,
no padding, no product of several adapters at once, nothing cached, and T + 2 forward passes.
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
    before: Tensor  # [L, T, 2, N] weights: fusion's, lang2vec's
    after: Tensor
    entropy: list[float]  # mean over the words, before each update


def slow_em(
    model: Any, features: Tensor, pieces: list[int], words: list[int], languages: list[int], steps: int, lr: float
) -> SlowEM:
    """Tag one sentence: ``pieces`` with specials, positions of its ``words``, and a row of ``features`` per piece."""
    scores = start_scores(model, features, pieces, languages)  # α⁰ = (α_F⁰, α_L⁰), the model's own
    before = torch.stack([score.softmax(dim=-1) for score in scores])
    entropies = []
    for _ in range(steps):
        leaves = [score.clone().requires_grad_() for score in scores]
        logits = forward(model, pieces, [leaf.softmax(dim=-1) for leaf in leaves])
        entropy = mean_entropy(logits, words)
        entropies.append(float(entropy.detach()))
        gradients = torch.autograd.grad(entropy, leaves)
        scores = [score - lr * gradient for score, gradient in zip(scores, gradients, strict=True)]
    weights = [score.softmax(dim=-1) for score in scores]
    with torch.no_grad():
        logits = forward(model, pieces, weights)
    return SlowEM(logits, before, torch.stack(weights), entropies)


def mean_entropy(logits: Tensor, words: list[int]) -> Tensor:
    """Entropy of the label distribution, averaged over the words of the sentence."""
    total = logits.new_zeros(())
    for position in words:
        p = logits[position].softmax(dim=-1)
        total = total - (p * p.log()).sum()
    return total / len(words)


@torch.no_grad()
def start_scores(model: Any, features: Tensor, pieces: list[int], languages: list[int]) -> list[Tensor]:
    """The scores of each layer [T, 2, N], found by the model's own forward pass."""
    found: list[Tensor] = []
    hidden = _embed(model, pieces)
    for index in range(len(model.encoder.layers)):
        x, f, h = _layer(model, index, hidden)
        u = _adapters(model, index, h)
        rows = [_scores(model, index, h[t], u[t], features[languages[t]]) for t in range(len(h))]
        found.append(torch.stack(rows))
        hidden = _finish(model, index, x, f, u, found[-1].softmax(dim=-1))
    return found


def forward(model: Any, pieces: list[int], weights: list[Tensor]) -> Tensor:
    """Label scores [T, C] with these weights [T, 2, N] in each layer."""
    hidden = _embed(model, pieces)
    for index, layer_weights in enumerate(weights):
        x, f, h = _layer(model, index, hidden)
        hidden = _finish(model, index, x, f, _adapters(model, index, h), layer_weights)
    return model.head(hidden)


def _embed(model: Any, pieces: list[int]) -> Tensor:
    encoder, first = model.encoder, model.encoder.config.first_position
    rows = [
        encoder.words.weight[piece] + encoder.positions.weight[first + t] + encoder.types.weight[0]
        for t, piece in enumerate(pieces)
    ]
    return encoder.norm(torch.stack(rows))


def _layer(model: Any, index: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention output x, feed-forward output f before the residual, and h = LN(f + x), each [T, d]."""
    layer, heads = model.encoder.layers[index], model.encoder.config.heads
    query, key, value = layer.query(hidden), layer.key(hidden), layer.value(hidden)
    size = hidden.shape[1] // heads
    contexts = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        attention = (query[:, part] @ key[:, part].t() / size**0.5).softmax(dim=-1)  # [T, T]
        contexts.append(attention @ value[:, part])
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
    """One token's scores [2, N]: (W_q h)·(W_k u_n) and l_langᵀ W_L l_n."""
    weighting = model.weighting
    fusion, lang2vec, vectors = weighting.fusion[index], weighting.lang2vec[index], weighting.vectors
    local = [fusion.query(h) @ fusion.key(u_n) for u_n in u]

    def embed(lf: Tensor) -> Tensor:
        return F.relu(vectors.project.weight @ lf.to(h.dtype) + vectors.project.bias)

    overall = [embed(features) @ lang2vec.bilinear @ embed(source) for source in vectors.bank_features]
    return torch.stack([torch.stack(local), torch.stack(overall)])


def _finish(model: Any, index: int, x: Tensor, f: Tensor, u: Tensor, weights: Tensor) -> Tensor:
    """From the adapters' outputs to the layer's output: mix, combine, task adapter, residual and norm."""
    weighting, norm = model.weighting, model.encoder.layers[index].norm
    task = model.task[index]
    rows = []
    for t in range(len(x)):
        views = [
            weighting.value[index](sum(weights[t, view, n] * u[t, n] for n in range(u.shape[1]))) for view in range(2)
        ]
        z = f[t] + weighting.combine[index](torch.cat(views))
        inner = ACTIVATIONS[task.activation](task.down(norm(z + x[t])))
        rows.append(norm(z + task.up(inner) + x[t]))
    return torch.stack(rows)

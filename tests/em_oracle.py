"""Entropy minimisation written straight from the paper's Algorithm 1: slow, one sentence, one token at a time.

An oracle for tests (``from em_oracle import slow_em``). It takes nothing but weights from the model it checks:
no batch, no padding, no folded product, nothing cached, and T + 2 forward passes.
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
    model: Any,
    pieces: list[int],
    words: list[int],
    languages: list[int],
    steps: int,
    lr: float,
    layers: int = 0,
) -> SlowEM:
    """Tag one sentence: ``pieces`` with specials, positions of its ``words``, and a language row per piece.

    With ``layers`` the scores of all but so many upper layers stay what they are at the start.
    """
    ids = torch.tensor([pieces])
    scores = start_scores(model, ids, languages)  # α⁰ = (α_F⁰, α_L⁰), the model's own
    before = torch.stack([score.softmax(dim=-1) for score in scores])
    entropies = []
    for _ in range(steps):
        leaves = [score.clone().requires_grad_() for score in scores]
        logits = forward(model, ids, [leaf.softmax(dim=-1) for leaf in leaves])
        entropy = mean_entropy(logits, words)
        entropies.append(float(entropy.detach()))
        gradients = torch.autograd.grad(entropy, leaves)
        moved = [score - lr * gradient for score, gradient in zip(scores, gradients, strict=True)]
        scores = scores[:-layers] + moved[-layers:] if layers else moved
    weights = [score.softmax(dim=-1) for score in scores]
    with torch.no_grad():
        logits = forward(model, ids, weights)
    return SlowEM(logits, before, torch.stack(weights), entropies)


def assert_same_em(fast: Any, row: int, words: list[int], expected: SlowEM, atol: float = 1e-9) -> None:
    """One sentence of a batch (an ``EMResult``) is what Algorithm 1 gives, wherever a number counts.

    In the last layer nothing counts but words: there is no layer in which they would be looked at.
    """
    length = len(expected.logits)
    torch.testing.assert_close(fast.logits[row, words], expected.logits[words], rtol=0, atol=atol)
    for got, want in ((fast.before, expected.before), (fast.after, expected.after)):
        torch.testing.assert_close(got[:-1, row, :length], want[:-1], rtol=0, atol=atol)
        torch.testing.assert_close(got[-1, row, words], want[-1, words], rtol=0, atol=atol)


def slow_adaptive_em(
    model: Any,
    pieces: list[int],
    words: list[int],
    languages: list[int],
    *,
    steps: int,
    lr: float,
    skip_below: float,
    patience: int,
    layers: int = 0,
) -> tuple[SlowEM, int]:
    """One sentence with the rules that stop it, each run of Algorithm 1 from its start; also how many steps it took."""
    found = slow_em(model, pieces, words, languages, 0, lr, layers)
    if mean_entropy(found.logits, words) < skip_below:
        return found, 0
    tags = [found.logits[words].argmax(dim=-1).tolist()]
    for count in range(1, steps if patience else 0):
        found = slow_em(model, pieces, words, languages, count, lr, layers)
        tags.append(found.logits[words].argmax(dim=-1).tolist())
        if count >= patience and all(row == tags[-1] for row in tags[-1 - patience :]):
            return found, count
    return slow_em(model, pieces, words, languages, steps, lr, layers), steps


def mean_entropy(logits: Tensor, words: list[int]) -> Tensor:
    """Entropy of the label distribution, averaged over the words of the sentence."""
    total = logits.new_zeros(())
    for position in words:
        p = logits[position].softmax(dim=-1)
        total = total - (p * p.log()).sum()
    return total / len(words)


@torch.no_grad()
def start_scores(model: Any, ids: Tensor, languages: list[int]) -> list[Tensor]:
    """The scores of each layer [T, 2, N], found by the model's own forward pass."""
    found: list[Tensor] = []
    hidden = model.encoder.model.embeddings(input_ids=ids)[0]
    for index in range(len(model.encoder.model.encoder.layer)):
        x, f, h = _layer(model, index, hidden)
        u = _adapters(model, index, h)
        found.append(torch.stack([_scores(model, index, h[t], u[t], languages[t]) for t in range(len(h))]))
        hidden = _finish(model, index, x, f, u, found[-1].softmax(dim=-1))
    return found


def forward(model: Any, ids: Tensor, weights: list[Tensor]) -> Tensor:
    """Label scores [T, C] with these weights [T, 2, N] in each layer."""
    hidden = model.encoder.model.embeddings(input_ids=ids)[0]
    for index, layer_weights in enumerate(weights):
        x, f, h = _layer(model, index, hidden)
        hidden = _finish(model, index, x, f, _adapters(model, index, h), layer_weights)
    return model.head(hidden)


def _layer(model: Any, index: int, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention output x, feed-forward output f before the residual, and h = LN(f + x), each [T, d]."""
    layer = model.encoder.model.encoder.layer[index]
    attended = layer.attention(hidden[None])
    x = (attended[0] if isinstance(attended, tuple) else attended)[0]
    f = layer.output.dense(layer.intermediate(x))
    return x, f, layer.output.LayerNorm(f + x)


def _adapters(model: Any, index: int, h: Tensor) -> Tensor:
    """u_n = U_n act(D_n h) of each token, [T, N, d]."""
    bank, rows = model.bank, []
    for token in h:
        row = []
        for n, adapter in enumerate(bank.adapters):
            inner = bank.down[index, n] @ token + bank.down_bias[index, n]
            row.append(bank.up[index, n].t() @ ACTIVATIONS[adapter.activation](inner) + bank.up_bias[index, n])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def _scores(model: Any, index: int, h: Tensor, u: Tensor, language: int) -> Tensor:
    """One token's scores [2, N]: (W_q h)·(W_k u_n) and l_langᵀ W_L l_n."""
    weighting = model.weighting
    fusion, lang2vec, vectors = weighting.fusion[index], weighting.lang2vec[index], weighting.vectors
    local = [fusion.query(h) @ fusion.key(u_n) for u_n in u]
    embed = [F.relu(vectors.project.weight @ lf + vectors.project.bias) for lf in vectors.features]
    overall = [embed[language] @ lang2vec.bilinear @ embed[n] for n in range(len(u))]
    return torch.stack([torch.stack(local), torch.stack(overall)])


def _finish(model: Any, index: int, x: Tensor, f: Tensor, u: Tensor, weights: Tensor) -> Tensor:
    """From the adapters' outputs to the layer's output: mix, combine, task adapter, residual and norm."""
    weighting, norm = model.weighting, model.encoder.model.encoder.layer[index].output.LayerNorm
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

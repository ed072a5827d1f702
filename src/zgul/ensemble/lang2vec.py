"""Lang2Vec, the paper's *global* weights: ``α_L[t] = softmax_n(l_lang[t]ᵀ W_L l_n)``.

``l = ReLU(W lf + b)`` turns a language's URIEL features into a short vector; it is shared by all layers, W_L is
each layer's own. The scores depend on the language alone, so they are computed once per language and looked up
per token. ``additive`` is the form the authors' release uses for its Germanic model:
``vᵀ tanh(W_1 l_lang + W_2 l_n)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

FORMS = ("bilinear", "additive")
SHARPNESS = 4.0  # before training: a source that agrees in every feature scores this much above one that agrees in half


class LanguageVectors(nn.Module):
    """The table of languages a model knows: the sources of the bank first, then any others it was asked for."""

    features: Tensor  # [M, F]

    def __init__(self, sources: Sequence[str], features: Tensor, size: int = 32) -> None:
        super().__init__()
        self.sources = list(sources)
        self.languages = list(sources)
        self.register_buffer("features", features.float(), persistent=False)
        self.project = nn.Linear(features.shape[1], size)
        self._start_as_likeness()

    def add(self, language: str, features: Tensor) -> int:
        """Make a language known; gives its row."""
        if language not in self.languages:
            self.languages.append(language)
            self.features = torch.cat([self.features, features.to(self.features)[None]])
        return self.languages.index(language)

    @torch.no_grad()
    def _start_as_likeness(self) -> None:
        """Before training, ``l_aᵀ l_n`` is the share of features in which a language agrees with a source.

        With features as signs g = ±1 and V an orthonormal basis whose first rows span those of the sources,
        ``(V g_a)·(V g_n) = g_a·g_n`` holds for any language a and any source n. ReLU would cut half of ``V g`` off, so
        each row stands twice, as ``c + v·g`` and ``c - v·g`` with c so large that neither is ever negative:
        ``l_aᵀ l_n = 2 g_a·g_n + constant``, and a softmax over n does not see the constant. A random projection of
        this size gets the order of the sources wrong for every third language.
        """
        count, half = self.features.shape[1], self.project.out_features // 2
        signs = 2 * self.features - 1  # [N, F]
        filled = torch.cat([signs, torch.randn(count, count, device=signs.device)])
        rows = torch.linalg.qr(filled.t()).Q.t()[:half]  # [up to half, F]
        scale = (SHARPNESS / (2 * count)) ** 0.5
        weight = torch.zeros_like(self.project.weight)
        weight[: len(rows)], weight[half : half + len(rows)] = scale * rows, -scale * rows
        self.project.weight.copy_(2 * weight)  # of 0 and 1 instead of signs
        self.project.bias.copy_(scale * count**0.5 - weight.sum(dim=1))

    def forward(self) -> Tensor:
        """Language vectors [M, size] of all known languages."""
        return torch.relu(self.project(self.features))


class Lang2Vec(nn.Module):
    """One layer's scores of every known language for every source."""

    def __init__(self, size: int, width: int, form: str = "bilinear") -> None:
        super().__init__()
        self.form = form
        if form == "bilinear":
            # the identity: before any training a language's scores are its likeness to the sources
            self.bilinear = nn.Parameter(torch.eye(size))
        else:
            self.query, self.key = nn.Linear(size, width), nn.Linear(size, width)
            self.value = nn.Linear(width, 1)

    def forward(self, vectors: Tensor, sources: int) -> Tensor:
        """Language vectors [M, size], of which the first N are the sources, to scores [M, N]."""
        if self.form == "bilinear":
            return vectors @ self.bilinear @ vectors[:sources].t()
        pair = torch.tanh(self.query(vectors)[:, None] + self.key(vectors[:sources]))  # [M, N, d]
        scores: Tensor = self.value(pair).squeeze(-1)
        return scores


def lookup(tables: Tensor, languages: Tensor) -> Tensor:
    """Every layer's table [L, M, N] at languages [B, T]: [B, T, L, N].

    While training as a product with one-hot vectors: its gradient is a sum, that of an index a slow scatter of many
    tokens to few rows.
    """
    rows = tables.transpose(0, 1)  # [M, L, N]
    if not tables.requires_grad:
        return rows[languages]
    chosen = nn.functional.one_hot(languages, len(rows)).to(tables.dtype)  # [B, T, M]
    return torch.einsum("btm,mln->btln", chosen, rows)

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


class LanguageVectors(nn.Module):
    """The table of languages a model knows: the sources of the bank first, then any others it was asked for."""

    features: Tensor  # [M, F]

    def __init__(self, sources: Sequence[str], features: Tensor, size: int = 32) -> None:
        super().__init__()
        self.sources = list(sources)
        self.languages = list(sources)
        self.register_buffer("features", features.float(), persistent=False)
        self.project = nn.Linear(features.shape[1], size)

    def add(self, language: str, features: Tensor) -> int:
        """Make a language known; gives its row."""
        if language not in self.languages:
            self.languages.append(language)
            self.features = torch.cat([self.features, features.to(self.features)[None]])
        return self.languages.index(language)

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

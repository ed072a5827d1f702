"""CPG: an adapter generated from the language's features (Conditional Parameter Generation; UDapter).

``l = MLP(lf)`` (one hidden layer, ReLU, dropout); in each layer the adapter's matrices are products of l with
trained tensors: ``D = W_D l`` [d, r], ``U = W_U l`` [r, d], ``z = f + U gelu(D f)``. The encoder is trained too. With
rank 32 and bottleneck 128 this is the paper's 253M parameters at mBERT's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.methods.base import Method, Parts
from zgul.methods.model import Generator, Model


class GeneratedAdapters(Generator):
    """One adapter per layer and language, generated when it is needed."""

    features: Tensor  # [M, F]

    def __init__(self, features: Tensor, *, width: int, depth: int, rank: int, size: int, dropout: float) -> None:
        super().__init__()
        inputs = features.shape[1]
        self.register_buffer("features", features, persistent=False)
        self.vector = nn.Sequential(nn.Linear(inputs, inputs), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inputs, rank))
        self.down = nn.Parameter(torch.randn(depth, rank, width, size) * 1e-2)
        self.down_bias = nn.Parameter(torch.zeros(depth, rank, size))
        self.up = nn.Parameter(torch.randn(depth, rank, size, width) * 1e-2)
        self.up_bias = nn.Parameter(torch.zeros(depth, rank, width))

    def forward(self, layer: int, f: Tensor, languages: Tensor) -> Tensor:
        """f [B, T, d] and language rows [B, T] to what is added to f."""
        vectors = self.vector(self.features)  # [M, rank]
        down = torch.einsum("mk,kdr->mdr", vectors, self.down[layer]).to(f.dtype)
        up = torch.einsum("mk,krd->mrd", vectors, self.up[layer]).to(f.dtype)
        down_bias, up_bias = vectors @ self.down_bias[layer], vectors @ self.up_bias[layer]  # [M, r], [M, d]
        out = torch.zeros_like(f)
        # few languages stand in a batch: run each one's adapter on everything and keep its own tokens
        for row in range(len(vectors)):
            inner = F.gelu(f @ down[row] + down_bias[row])
            own = (languages == row)[..., None]
            out = out + torch.where(own, inner @ up[row] + up_bias[row], 0.0).to(f.dtype)
        return out


@dataclass(frozen=True)
class CPG(Method):
    needs_bank: bool = False

    def build(self, parts: Parts) -> Model:
        parts.train_whole_encoder()
        generator = GeneratedAdapters(
            torch.stack([parts.language_features(source) for source in parts.sources]),
            width=parts.encoder.width,
            depth=parts.encoder.depth,
            rank=parts.options.cpg_rank,
            size=parts.options.cpg_bottleneck,
            dropout=parts.options.dropout,
        )
        return Model(parts.encoder, parts.labels, generator=generator, dropout=parts.options.dropout)

    def prepare(self, model: Model, strategy: str, languages: Sequence[str], parts: Parts) -> dict[str, int]:
        assert isinstance(model.generator, GeneratedAdapters)
        features = torch.stack([parts.language_features(language) for language in languages])
        model.generator.features = features.to(model.generator.features)
        return {language: row for row, language in enumerate(languages)}


METHODS = [CPG("cpg", "CPG")]

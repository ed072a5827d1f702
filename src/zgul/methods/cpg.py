"""CPG: an adapter generated from the language's features (Conditional Parameter Generation; UDapter).

``l = MLP(lf)`` has one hidden layer, ReLU and dropout. In each layer the adapter's matrices are products of l with
trained tensors: ``D = W_D l`` [d, r], ``U = W_U l`` [r, d], ``z = f + U gelu(D f)``. The encoder is trained, too.
With rank 32 and bottleneck 128 this has the paper's 253M parameters at mBERT's size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.methods.base import Method, MethodOptions, Parts
from zgul.methods.model import Generator, Model


class GeneratedAdapters(Generator):
    """One adapter for each layer and language, generated when it is needed."""

    def __init__(self, features: int, width: int, depth: int, options: MethodOptions) -> None:
        super().__init__()
        rank, size = options.cpg_rank, options.cpg_bottleneck
        hidden, out = nn.Linear(features, features), nn.Linear(features, rank)
        self.vector = nn.Sequential(hidden, nn.ReLU(), nn.Dropout(options.dropout), out)
        self.down = nn.Parameter(torch.randn(depth, rank, width, size) * 1e-2)
        self.down_bias = nn.Parameter(torch.zeros(depth, rank, size))
        self.up = nn.Parameter(torch.randn(depth, rank, size, width) * 1e-2)
        self.up_bias = nn.Parameter(torch.zeros(depth, rank, width))

    def by_language(self, table: Tensor) -> Tensor:
        vectors: Tensor = self.vector(table)  # [M, rank]
        return vectors

    def forward(self, layer: int, f: Tensor, spoken: Tensor, vectors: Tensor) -> Tensor:
        down = torch.einsum("mk,kdr->mdr", vectors, self.down[layer])
        up = torch.einsum("mk,krd->mrd", vectors, self.up[layer])
        down_bias, up_bias = vectors @ self.down_bias[layer], vectors @ self.up_bias[layer]  # [M, r], [M, d]
        out = torch.zeros_like(f)
        # a batch has few languages: apply the adapter of each to all tokens, and keep the result for its own tokens
        for m in range(len(vectors)):
            u = F.gelu(f @ down[m] + down_bias[m]) @ up[m] + up_bias[m]
            out = out + spoken[..., m, None] * u
        return out


@dataclass(frozen=True)
class CPG(Method):
    needs_bank: bool = False

    def build(self, parts: Parts) -> Model:
        parts.encoder.requires_grad_(True)
        encoder, features = parts.encoder, parts.language_features(parts.sources).shape[1]
        generator = GeneratedAdapters(features, encoder.width, encoder.depth, parts.options)
        return Model(encoder, len(parts.labels), generator=generator, dropout=parts.options.dropout)

    def table(self, parts: Parts, languages: Sequence[str], strategy: str, bank: Sequence[str]) -> Tensor:
        return parts.language_features(languages)


METHODS = [CPG("cpg", "CPG")]

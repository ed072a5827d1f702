"""The bank: the language adapters of all N sources, stacked, so that one matrix product computes all of them.

``bank(i, h)`` computes the bottlenecks ``a_n = act(D_n h)`` of layer i. The outputs ``u_n = U_n a_n + b_n`` are never
computed in full. The bottlenecks are narrower, and they are enough for what methods need:

    q · u_n           = (U_nᵀ q) · a_n + q · b_n                       `AdapterOutputs.dot`
    Σ_n w_n u_n       = [U_1 … U_N] [w_1 a_1 … w_N a_N] + Σ_n w_n b_n    `AdapterOutputs.mix`

Adapters may differ in bottleneck size and in activation. Narrow ones are padded with units whose weights are zero; they
add nothing, because every activation here maps 0 to 0.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.adapters.language_adapter import ACTIVATIONS, Bottleneck, LanguageAdapter
from zgul.errors import ZgulError


@dataclass
class AdapterOutputs:
    """The outputs ``u_n = U_n a_n + b_n`` of all adapters of one layer, in factored form."""

    a: Tensor  # [..., N, r]
    up: Tensor  # [N, r, d]: U_n transposed
    bias: Tensor  # [N, d]: b_n

    @cached_property
    def written(self) -> Tensor:
        """All outputs written out: [N, ..., d]."""
        a = self.a.movedim(-2, 0)  # [N, ..., r]
        return torch.baddbmm(self.bias[:, None], a.flatten(1, -2), self.up).view(*a.shape[:-1], -1)

    def dot(self, query: Tensor) -> Tensor:
        """``q · u_n`` for queries [..., d]: [..., N]."""
        inside = F.linear(query, self.up.flatten(0, 1)).view(self.a.shape)  # [..., N, r]
        return (inside * self.a).sum(dim=-1) + F.linear(query, self.bias)

    def mix(self, weights: Tensor) -> Tensor:
        """``Σ_n w_n u_n`` for weights [..., N]: [..., d]."""
        scaled = (weights[..., None] * self.a).flatten(-2)  # [..., N r]
        return scaled @ self.up.flatten(0, 1) + weights @ self.bias


class Bank(nn.Module):
    """N language adapters of one encoder. They are frozen unless ``requires_grad_`` says otherwise."""

    def __init__(self, adapters: Sequence[LanguageAdapter], *, width: int, depth: int) -> None:
        super().__init__()
        self.languages = [adapter.language for adapter in adapters]
        for adapter in adapters:
            if adapter.width != width or len(adapter.layers) != depth:
                made = f"was made for an encoder of {len(adapter.layers)} layers of width {adapter.width}"
                raise ZgulError(f"The adapter {adapter.language!r} {made}; this encoder has {depth} of width {width}.")
        if twice := sorted({language for language in self.languages if self.languages.count(language) > 1}):
            raise ZgulError(f"There are two language adapters for {', '.join(twice)}. Give one for each language.")
        without = [adapter.language for adapter in adapters if adapter.invertible is None]
        if 0 < len(without) < len(adapters):
            raise ZgulError(f"{', '.join(without)} have no invertible block, but others do. Use adapters of one kind.")
        self.sizes, self.about = [a.sizes for a in adapters], [a.about for a in adapters]
        self.activations, self.standardise = [a.activation for a in adapters], [a.standardise for a in adapters]
        count, size = len(adapters), max((max(adapter.sizes) for adapter in adapters), default=1)
        self.down = nn.Parameter(torch.zeros(depth, count, size, width), requires_grad=False)  # [L, N, r, d]
        self.down_bias = nn.Parameter(torch.zeros(depth, count, size), requires_grad=False)  # [L, N, r]
        self.up = nn.Parameter(torch.zeros(depth, count, size, width), requires_grad=False)  # [L, N, r, d]
        self.up_bias = nn.Parameter(torch.zeros(depth, count, width), requires_grad=False)  # [L, N, d]
        self.invertible = nn.ModuleList(deepcopy(a.invertible).cpu() for a in adapters if a.invertible)
        self.invertible.requires_grad_(False)
        # [N] bool: adapters that see h with mean 0 and variance 1; in graphs it must be on the bank's device
        self.standardised = nn.Buffer(torch.tensor(self.standardise), persistent=False)
        with torch.no_grad():
            for n, adapter in enumerate(adapters):
                for i, layer in enumerate(adapter.layers):
                    for name, place in self._places(i, n, layer.down.out_features).items():
                        place.copy_(layer.get_parameter(name))

    def __len__(self) -> int:
        return len(self.languages)

    def _places(self, i: int, n: int, r: int) -> dict[str, Tensor]:
        """The parts of the stacked tensors that belong to layer i of adapter n, whose bottleneck has r units."""
        down, down_bias, up = self.down[i, n, :r], self.down_bias[i, n, :r], self.up[i, n, :r].t()
        return {"down.weight": down, "down.bias": down_bias, "up.weight": up, "up.bias": self.up_bias[i, n]}

    @torch.no_grad()
    def extract(self, language: str) -> LanguageAdapter:
        """A copy of one language's adapter as it is now, on the CPU."""
        if language not in self.languages:
            raise ZgulError(f"The bank has no adapter for {language!r}. It holds: {', '.join(self.languages)}.")
        n, width = self.languages.index(language), self.up.shape[-1]
        layers = []
        for i, r in enumerate(self.sizes[n]):
            layer = Bottleneck(width, r, self.activations[n], self.standardise[n]).requires_grad_(False)
            layer.load_state_dict(self._places(i, n, r))
            layers.append(layer)
        block: Any = deepcopy(self.invertible[n]).cpu().requires_grad_(False) if len(self.invertible) else None
        return LanguageAdapter(language, layers, block, dict(self.about[n]))

    def forward(self, layer: int, h: Tensor) -> AdapterOutputs:
        """Compute the outputs of every adapter for hidden states [..., d]."""
        down, bias = self.down[layer], self.down_bias[layer]  # [N, r, d], [N, r]
        a = F.linear(h, down.flatten(0, 1), bias.flatten()).unflatten(-1, bias.shape)  # [..., N, r]
        if any(self.standardise):
            standard = F.layer_norm(h, h.shape[-1:])
            other = F.linear(standard, down.flatten(0, 1), bias.flatten()).unflatten(-1, bias.shape)
            a = torch.where(self.standardised[:, None], other, a)
        return AdapterOutputs(_activate(a, self.activations, dim=-2), self.up[layer], self.up_bias[layer])

    def grouped(self, layer: int, h: Tensor) -> Tensor:
        """Send N groups of hidden states [N, M, d] through the adapters, each group through its own."""
        if any(self.standardise):
            h = torch.where(self.standardised[:, None, None], F.layer_norm(h, h.shape[-1:]), h)
        inner = torch.baddbmm(self.down_bias[layer][:, None], h, self.down[layer].mT)  # [N, M, r]
        active = _activate(inner, self.activations, dim=0)
        return torch.baddbmm(self.up_bias[layer][:, None], active, self.up[layer])  # [N, M, d]

    def invert(self, x: Tensor, weights: Tensor | None) -> Tensor:
        """Send embeddings [B, T, d] through all blocks, mixed by weights [B, T or 1, N]; without weights, the first."""
        blocks = list(self.invertible)
        if not blocks:
            raise ZgulError("These language adapters have no invertible blocks. Use invertible='off'.")
        if weights is None:
            return blocks[0](x)  # type: ignore[no-any-return]
        full = weights.expand(x.shape[0], x.shape[1], -1)
        return torch.einsum("nbtd,btn->btd", torch.stack([block(x) for block in blocks]), full)


def _activate(inner: Tensor, activations: Sequence[str], dim: int) -> Tensor:
    """Apply each adapter's own activation to its slice along this dimension."""
    if len(set(activations)) == 1:
        return ACTIVATIONS[activations[0]](inner)
    parts = [ACTIVATIONS[name](part) for part, name in zip(inner.unbind(dim), activations, strict=True)]
    return torch.stack(parts, dim)

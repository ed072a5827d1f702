"""One adapter: the bottleneck of MAD-X (Pfeiffer placement) and the NICE invertible block.

Bottleneck, without its residual: ``u = U act(D h)``. The caller adds it to the feed-forward output.
Invertible block, after the embeddings: ``y1 = x1 + F(x2)``, ``y2 = x2 + G(y1)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.products import by_columns, through


def _gelu_new(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "gelu_new": _gelu_new}


class Bottleneck(nn.Module):
    """``U act(D h)``; U starts at zero, so that a new adapter changes nothing.

    ``standardise`` first gives h mean 0 and variance 1: AdapterHub's ``ln_before``, its scale and shift in D.
    """

    def __init__(self, width: int, size: int, activation: str = "relu", standardise: bool = False) -> None:
        super().__init__()
        self.standardise = standardise
        self.down = nn.Linear(width, size)
        self.up = nn.Linear(size, width)
        self.activation = activation
        nn.init.normal_(self.down.weight, std=0.02)
        nn.init.zeros_(self.down.bias)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, h: Tensor) -> Tensor:  # [..., d] -> [..., d]
        h = F.layer_norm(h, h.shape[-1:]) if self.standardise else h
        out: Tensor = through(self.up, through(self.down, h, ACTIVATIONS[self.activation]))
        return out

    def arrange(self) -> None:
        """Give both matrices the order that their products want, where they are now; their numbers stay."""
        for linear in (self.down, self.up):
            linear.weight.data = by_columns(linear.weight.data)


class Invertible(nn.Module):
    """NICE coupling of the two halves of the embedding, undone exactly by ``inverse``."""

    def __init__(self, width: int, reduction: float = 2, activation: str = "relu") -> None:
        super().__init__()
        half = width // 2
        size = max(1, int(half // reduction))
        self.f_down, self.f_up = nn.Linear(half, size), nn.Linear(size, half)
        self.g_down, self.g_up = nn.Linear(half, size), nn.Linear(size, half)
        self.activation = activation
        for linear in (self.f_down, self.g_down):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        for linear in (self.f_up, self.g_up):  # the identity at first
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)

    def _f(self, x: Tensor) -> Tensor:
        out: Tensor = self.f_up(ACTIVATIONS[self.activation](self.f_down(x)))
        return out

    def _g(self, x: Tensor) -> Tensor:
        out: Tensor = self.g_up(ACTIVATIONS[self.activation](self.g_down(x)))
        return out

    def forward(self, x: Tensor) -> Tensor:  # [..., d] -> [..., d]
        x1, x2 = x.chunk(2, dim=-1)
        y1 = x1 + self._f(x2)
        return torch.cat([y1, x2 + self._g(y1)], dim=-1)

    def inverse(self, y: Tensor) -> Tensor:  # [..., d] -> [..., d]
        y1, y2 = y.chunk(2, dim=-1)
        x2 = y2 - self._g(y1)
        return torch.cat([y1 - self._f(x2), x2], dim=-1)


def reduction_factor(width: int, size: int) -> float:
    """A factor with ``int(width // factor) == size``; a whole number where there is one."""
    if size <= width and width // (width // size) == size:
        return width // size
    factor = width / size
    while int(width // factor) < size:  # the division fell just short
        factor = math.nextafter(factor, 0)
    return factor

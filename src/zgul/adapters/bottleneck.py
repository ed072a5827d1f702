"""One adapter: the bottleneck of MAD-X in Pfeiffer's placement, and the invertible NICE block.

The bottleneck without its residual is ``u = U act(D h)``. The caller adds it to the feed-forward output.
The invertible block stands after the embeddings: ``y1 = x1 + F(x2)``, ``y2 = x2 + G(y1)``.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
}


class Bottleneck(nn.Module):
    """``U act(D h)``. U starts at zero, so that a new adapter changes nothing.

    ``standardise`` first gives h mean 0 and variance 1: AdapterHub's ``ln_before``, with its scale and shift in D.
    """

    def __init__(self, width: int, size: int, activation: str = "relu", standardise: bool = False) -> None:
        super().__init__()
        self.activation, self.standardise = activation, standardise
        self.down, self.up = nn.Linear(width, size), nn.Linear(size, width)
        _start_as_nothing(self.down, self.up)

    def forward(self, h: Tensor) -> Tensor:  # [..., d] -> [..., d]
        h = F.layer_norm(h, h.shape[-1:]) if self.standardise else h
        u: Tensor = self.up(ACTIVATIONS[self.activation](self.down(h)))
        return u


class Invertible(nn.Module):
    """NICE coupling of the two halves of the embedding. `inverse` undoes it exactly."""

    def __init__(self, width: int, size: int = 0, activation: str = "relu") -> None:
        """``size`` are the units of F and G. The default is half of what they read."""
        super().__init__()
        half = width // 2
        size = size or max(1, half // 2)
        self.activation = activation
        self.f_down, self.f_up = nn.Linear(half, size), nn.Linear(size, half)
        self.g_down, self.g_up = nn.Linear(half, size), nn.Linear(size, half)
        _start_as_nothing(self.f_down, self.f_up)
        _start_as_nothing(self.g_down, self.g_up)

    def _f(self, x: Tensor) -> Tensor:
        return self.f_up(ACTIVATIONS[self.activation](self.f_down(x)))  # type: ignore[no-any-return]

    def _g(self, x: Tensor) -> Tensor:
        return self.g_up(ACTIVATIONS[self.activation](self.g_down(x)))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:  # [..., d] -> [..., d]
        x1, x2 = x.chunk(2, dim=-1)
        y1 = x1 + self._f(x2)
        return torch.cat([y1, x2 + self._g(y1)], dim=-1)

    def inverse(self, y: Tensor) -> Tensor:  # [..., d] -> [..., d]
        y1, y2 = y.chunk(2, dim=-1)
        x2 = y2 - self._g(y1)
        return torch.cat([y1 - self._f(x2), x2], dim=-1)


def _start_as_nothing(down: nn.Linear, up: nn.Linear) -> None:
    """Small random values in D and zeros in U: the output is zero before training."""
    nn.init.normal_(down.weight, std=0.02)
    for parameter in (down.bias, up.weight, up.bias):
        nn.init.zeros_(parameter)

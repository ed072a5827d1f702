"""The adapter of one language: bottlenecks as in MAD-X, in Pfeiffer's placement, and the invertible NICE block.

The bottleneck without its residual is ``u = U act(D h)``. The caller adds it to the feed-forward output.
The invertible block comes after the embeddings: ``y1 = x1 + F(x2)``, ``y2 = x2 + G(y1)``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.encoders import encoder
from zgul.errors import ZgulError

ACTIVATIONS = encoder.ACTIVATIONS | {"gelu_new": partial(F.gelu, approximate="tanh")}


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
        return self.up(ACTIVATIONS[self.activation](self.down(h)))  # type: ignore[no-any-return]


class Invertible(nn.Module):
    """NICE coupling of the two halves of the embedding. F and G have ``size`` units; the default is a quarter of d."""

    def __init__(self, width: int, size: int = 0, activation: str = "relu") -> None:
        super().__init__()
        half = width // 2
        size = size or max(1, half // 2)
        self.activation = activation
        self.f_down, self.f_up = nn.Linear(half, size), nn.Linear(size, half)
        self.g_down, self.g_up = nn.Linear(half, size), nn.Linear(size, half)
        _start_as_nothing(self.f_down, self.f_up)
        _start_as_nothing(self.g_down, self.g_up)

    def _map(self, down: nn.Linear, up: nn.Linear, x: Tensor) -> Tensor:
        return up(ACTIVATIONS[self.activation](down(x)))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:  # [..., d] -> [..., d]
        x1, x2 = x.chunk(2, dim=-1)
        y1 = x1 + self._map(self.f_down, self.f_up, x2)
        return torch.cat([y1, x2 + self._map(self.g_down, self.g_up, y1)], dim=-1)

    def inverse(self, y: Tensor) -> Tensor:  # [..., d] -> [..., d]; exact
        y1, y2 = y.chunk(2, dim=-1)
        x2 = y2 - self._map(self.g_down, self.g_up, y1)
        return torch.cat([y1 - self._map(self.f_down, self.f_up, x2), x2], dim=-1)


def _start_as_nothing(down: nn.Linear, up: nn.Linear) -> None:
    """Small random values in D and zeros in U: the output is zero before training."""
    nn.init.normal_(down.weight, std=0.02)
    for parameter in (down.bias, up.weight, up.bias):
        nn.init.zeros_(parameter)


@dataclass
class LanguageAdapter:
    """A bottleneck for each layer of an encoder and, optionally, an invertible block."""

    language: str
    layers: list[Bottleneck]
    invertible: Invertible | None = None
    about: dict[str, object] = field(default_factory=dict)  # how it was made, for cards

    @classmethod
    def new(
        cls, language: str, width: int, depth: int, *, size: int = 0, activation: str = "relu", invertible: bool = False
    ) -> Self:
        """An adapter that changes nothing yet. Its bottleneck is half the encoder's width, or ``size``."""
        layers = [Bottleneck(width, size or max(1, width // 2), activation) for _ in range(depth)]
        return cls(language, layers, Invertible(width, activation=activation) if invertible else None)

    @property
    def width(self) -> int:
        return self.layers[0].down.in_features

    @property
    def sizes(self) -> list[int]:
        """The bottleneck's size in each layer. AdapterHub allows different sizes."""
        return [layer.down.out_features for layer in self.layers]

    @property
    def activation(self) -> str:
        return self.layers[0].activation

    @property
    def standardise(self) -> bool:
        return self.layers[0].standardise


def select_adapters(adapters: Iterable[LanguageAdapter], languages: Sequence[str]) -> list[LanguageAdapter]:
    """The adapters of these languages, in this order."""
    held = {adapter.language: adapter for adapter in adapters}
    if missing := [language for language in languages if language not in held]:
        there = ", ".join(held) or "none"
        raise ZgulError(f"There is no language adapter for {', '.join(missing)}, only for: {there}.")
    return [held[language] for language in languages]

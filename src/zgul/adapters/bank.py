"""The bank: the language adapters of all sources, held in stacked weights, one batched product for all N.

``bank(i, h)`` gives every adapter's output in layer i without residual, ``u_n = U_n act(D_n h)``. Adapters may
differ in bottleneck size (narrow ones are padded with zero units, which add nothing because every activation
here maps 0 to 0) and in activation (each is applied to its own slice).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from zgul.adapters.bottleneck import ACTIVATIONS, Bottleneck, Invertible
from zgul.errors import ZgulError


@dataclass
class LanguageAdapter:
    """One language's adapter outside a bank: a bottleneck per layer and, perhaps, an invertible block."""

    language: str
    layers: list[Bottleneck]
    invertible: Invertible | None = None
    about: dict[str, object] = field(default_factory=dict)  # how it was made, for cards

    @property
    def width(self) -> int:
        return self.layers[0].down.in_features

    @property
    def size(self) -> int:
        return self.layers[0].down.out_features

    @property
    def activation(self) -> str:
        return self.layers[0].activation

    @classmethod
    def new(
        cls,
        language: str,
        width: int,
        depth: int,
        *,
        reduction: float = 2,
        activation: str = "relu",
        invertible: bool = False,
    ) -> LanguageAdapter:
        """An adapter that changes nothing yet."""
        layers = [Bottleneck(width, max(1, int(width // reduction)), activation) for _ in range(depth)]
        return cls(language, layers, Invertible(width, activation=activation) if invertible else None)


class Bank(nn.Module):
    """N language adapters of one encoder. Frozen, unless ``requires_grad_`` says otherwise."""

    down: Tensor  # [L, N, r, d]
    down_bias: Tensor  # [L, N, r]
    up: Tensor  # [L, N, r, d]
    up_bias: Tensor  # [L, N, d]

    def __init__(self, adapters: Sequence[LanguageAdapter], *, width: int, depth: int) -> None:
        super().__init__()
        self.width, self.depth = width, depth
        self.adapters = list(adapters)
        self.invertible = nn.ModuleList()
        self._stack()

    @property
    def languages(self) -> list[str]:
        return [adapter.language for adapter in self.adapters]

    def __len__(self) -> int:
        return len(self.adapters)

    def add(self, adapter: LanguageAdapter) -> None:
        """Append one more language."""
        self._write_back()
        self.adapters.append(adapter)
        self._stack()

    def remove(self, language: str) -> None:
        """Drop one language."""
        self._write_back()
        self.adapters = [a for i, a in enumerate(self.adapters) if i != self.index(language)]
        self._stack()

    def index(self, language: str) -> int:
        """Where a language stands in the bank."""
        try:
            return self.languages.index(language)
        except ValueError:
            held = ", ".join(self.languages) or "none"
            raise ZgulError(f"the bank has no adapter for {language!r}; it holds: {held}") from None

    def extract(self, language: str) -> LanguageAdapter:
        """One language's adapter as it is now."""
        self._write_back()
        return self.adapters[self.index(language)]

    def forward(self, layer: int, h: Tensor) -> Tensor:
        """Hidden states [B, T, d] to every adapter's output [N, B, T, d]."""
        batch, length, width = h.shape
        count, size = self.down.shape[1:3]
        flat = h.reshape(batch * length, width)
        # one product for all down-projections: [BT, d] x [d, N r]
        inner = torch.addmm(self.down_bias[layer].reshape(-1), flat, self.down[layer].reshape(-1, width).t())
        inner = self._activate(inner.view(-1, count, size).transpose(0, 1))  # [N, BT, r]
        up = torch.baddbmm(self.up_bias[layer][:, None], inner, self.up[layer])  # [N, BT, d]
        return up.view(count, batch, length, width)

    def invert(self, x: Tensor, weights: Tensor | None) -> Tensor:
        """The invertible blocks mixed by weights [B, T or 1, N]; with None the first adapter's alone."""
        blocks = list(self.invertible)
        if not blocks:
            raise ZgulError("these language adapters have no invertible blocks; use invertible='off'")
        if weights is None:
            first: Tensor = blocks[0](x)
            return first
        return torch.einsum("nbtd,btn->btd", torch.stack([block(x) for block in blocks]), _full(weights, x))

    def _activate(self, inner: Tensor) -> Tensor:
        """Each adapter's own activation on its slice of [N, BT, r]."""
        names = {adapter.activation for adapter in self.adapters}
        if len(names) == 1:
            return ACTIVATIONS[names.pop()](inner)
        parts = [ACTIVATIONS[a.activation](inner[n]) for n, a in enumerate(self.adapters)]
        return torch.stack(parts)

    def _stack(self) -> None:
        """Copy the single adapters into stacked weights."""
        for adapter in self.adapters:
            _check_fit(adapter, self.width, self.depth)
        size = max((adapter.size for adapter in self.adapters), default=1)
        count = len(self.adapters)
        shapes = {
            "down": (count, size, self.width),
            "down_bias": (count, size),
            "up": (count, size, self.width),
            "up_bias": (count, self.width),
        }
        stacked = {name: torch.zeros(self.depth, *shape) for name, shape in shapes.items()}
        for n, adapter in enumerate(self.adapters):
            r = adapter.size
            for i, layer in enumerate(adapter.layers):
                stacked["down"][i, n, :r] = layer.down.weight.detach()
                stacked["down_bias"][i, n, :r] = layer.down.bias.detach()
                stacked["up"][i, n, :r] = layer.up.weight.detach().t()
                stacked["up_bias"][i, n] = layer.up.bias.detach()
        for name, value in stacked.items():
            old = getattr(self, name, None)
            value = value if old is None else value.to(old)
            setattr(self, name, nn.Parameter(value, requires_grad=False))
        self.invertible = nn.ModuleList(
            adapter.invertible for adapter in self.adapters if adapter.invertible is not None
        )
        if len(self.invertible) not in (0, count):
            raise ZgulError("some of these language adapters have an invertible block and some have none")
        self.invertible.requires_grad_(False)

    @torch.no_grad()
    def _write_back(self) -> None:
        """Copy the stacked weights, which may have been trained, into the single adapters."""
        for n, adapter in enumerate(self.adapters):
            for i, layer in enumerate(adapter.layers):
                layer.down.weight.copy_(self.down[i, n, : adapter.size])
                layer.down.bias.copy_(self.down_bias[i, n, : adapter.size])
                layer.up.weight.copy_(self.up[i, n, : adapter.size].t())
                layer.up.bias.copy_(self.up_bias[i, n])


def subset(adapters: Iterable[LanguageAdapter], languages: Sequence[str]) -> list[LanguageAdapter]:
    """The adapters of these languages, in this order."""
    held = {adapter.language: adapter for adapter in adapters}
    missing = [language for language in languages if language not in held]
    if missing:
        raise ZgulError(
            f"no language adapter for {', '.join(missing)}; there are: {', '.join(held) or 'none'}"
        )
    return [held[language] for language in languages]


def _check_fit(adapter: LanguageAdapter, width: int, depth: int) -> None:
    if adapter.width != width or len(adapter.layers) != depth:
        raise ZgulError(
            f"the language adapter {adapter.language!r} was made for an encoder of {len(adapter.layers)} layers of "
            f"width {adapter.width}; this encoder has {depth} of width {width}. Use the encoder it was trained on."
        )


def _full(weights: Tensor, x: Tensor) -> Tensor:
    """Weights tied over tokens [B, 1, N], spread to every token."""
    return weights.expand(x.shape[0], x.shape[1], -1)

"""The bank: the language adapters of all sources, held in stacked weights, one product for all N.

``bank(i, h)`` gives what all adapters of layer i make of h in their bottlenecks, ``a_n = act(D_n h)``. Their outputs
``u_n = U_n a_n + b_n`` (without residual) are rarely needed one by one: scores and mixtures of them can be computed in
the bottlenecks, where N adapters of a quarter of the width are as wide as one hidden state. Adapters may differ
in bottleneck size (narrow ones are padded with zero units, which add nothing because every activation here maps
0 to 0) and in activation (each is applied to its own slice).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.adapters.bottleneck import ACTIVATIONS, Bottleneck, Invertible
from zgul.errors import ZgulError
from zgul.products import by_columns, linear, plus_product, products


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
        """The bottleneck; of the widest layer where AdapterHub gave each layer its own."""
        return max(layer.down.out_features for layer in self.layers)

    @property
    def activation(self) -> str:
        return self.layers[0].activation

    @property
    def standardise(self) -> bool:
        return self.layers[0].standardise

    @classmethod
    def new(
        cls,
        language: str,
        width: int,
        depth: int,
        *,
        reduction: float = 2,
        size: int | None = None,
        activation: str = "relu",
        invertible: bool = False,
    ) -> LanguageAdapter:
        """An adapter that changes nothing yet."""
        size = size or max(1, int(width // reduction))
        layers = [Bottleneck(width, size, activation) for _ in range(depth)]
        return cls(language, layers, Invertible(width, activation=activation) if invertible else None)


@dataclass
class Inner:
    """All adapters of a layer up to their bottlenecks; ``u_n = U_n a_n + b_n`` is what each would add."""

    a: Tensor  # [B, T, N, r]
    up: Tensor  # [N, r, d], U_n transposed
    bias: Tensor  # [N, d], b_n

    def __len__(self) -> int:
        return len(self.up)

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """u, N times [B, T, d]: each adapter's own output."""
        batch, length, count, size = self.a.shape
        # kept for the mix, which may need a gradient, also where scores that need none ask first
        with torch.set_grad_enabled(torch.is_grad_enabled() or self.a.requires_grad):
            found = products(self.a.reshape(-1, count, size), self.up, self.bias)
            return tuple(u.view(batch, length, self.up.shape[-1]) for u in found)

    def dot(self, query: Tensor) -> Tensor:
        """``query·u_n`` for queries [B, T, d]: the query is taken into the bottlenecks. [B, T, N]"""
        inside = linear(query, self.up.flatten(0, 1)).view(self.a.shape)  # [B, T, N, r]
        return (inside * self.a).sum(dim=-1) + F.linear(query, self.bias)

    def mix(self, weights: Tensor, project: Tensor | None = None, shift: Tensor | None = None) -> Tensor:
        """``Σ_k P_k Σ_n w_kn u_n + s``: weights [B, T, K, N], P [K, d', d] (or none, K = 1), s [d'] to [B, T, d'].

        The weights scale the bottlenecks; then one product leaves them. While P is trained it is multiplied into U:
        that costs N r rows, applying it to the many tokens of a training batch more. (`Folded` does so once for all.)
        """
        batch, length, views, count = weights.shape
        size, width = self.up.shape[1:]
        scaled = weights[..., None] * self.a[:, :, None]  # [B, T, K, N, r]
        up, bias = self.up.view(1, count * size, width), self.bias[None]  # [1, N r, d], [1, N, d]
        if project is None or not project.requires_grad:
            mixed = plus_product(weights @ bias[0], scaled.reshape(batch, length, views, -1), up[0])  # [B, T, K, d]
            if project is None:
                return mixed.squeeze(2)
            return linear(mixed.flatten(2), project.transpose(0, 1).flatten(1), shift)
        out, out_bias = (up @ project.mT).flatten(0, 1), (bias @ project.mT).flatten(0, 1)  # [K N r, d'], [K N, d']
        return plus_product(F.linear(weights.flatten(2), out_bias.t(), shift), scaled.flatten(2), out)


class Bank(nn.Module):
    """N language adapters of one encoder. Frozen, unless ``requires_grad_`` says otherwise."""

    down: Tensor  # [L, N, r, d]
    down_bias: Tensor  # [L, N, r]
    up: Tensor  # [L, N, r, d]
    up_bias: Tensor  # [L, N, d]

    def __init__(self, adapters: Sequence[LanguageAdapter], *, width: int, depth: int) -> None:
        super().__init__()
        self.width, self.depth = width, depth
        self.adapters: list[LanguageAdapter] = []
        self.invertible = nn.ModuleList()
        self._stack(list(adapters))

    @property
    def languages(self) -> list[str]:
        return [adapter.language for adapter in self.adapters]

    def __len__(self) -> int:
        return len(self.adapters)

    def add(self, adapter: LanguageAdapter) -> None:
        """Append one more language."""
        self._write_back()
        self._stack([*self.adapters, adapter])

    def remove(self, language: str) -> None:
        """Drop one language."""
        gone = self.index(language)
        self._write_back()
        self._stack([adapter for n, adapter in enumerate(self.adapters) if n != gone])

    def index(self, language: str) -> int:
        """Where a language stands in the bank."""
        try:
            return self.languages.index(language)
        except ValueError:
            held = ", ".join(self.languages) or "none"
            raise ZgulError(f"the bank has no adapter for {language!r}; it holds: {held}") from None

    def extract(self, language: str) -> LanguageAdapter:
        """A copy of one language's adapter as it is now."""
        self._write_back()
        return copy.deepcopy(self.adapters[self.index(language)])

    def forward(self, layer: int, h: Tensor) -> Inner:
        """Hidden states [B, T, d] to every adapter's bottleneck."""
        batch, length, width = h.shape
        count, size = self.down.shape[1:3]
        down, bias = self.down[layer].flatten(0, 1), self.down_bias[layer].flatten()  # [N r, d], [N r]
        then = None
        if any(adapter.standardise for adapter in self.adapters):
            flat = h.reshape(-1, width)
            standard = F.layer_norm(flat, (width,))
            inputs = torch.stack([standard if adapter.standardise else flat for adapter in self.adapters])
            inner = torch.baddbmm(self.down_bias[layer][:, None], inputs, self.down[layer].mT).transpose(0, 1)
        else:
            names = {adapter.activation for adapter in self.adapters}
            then = ACTIVATIONS[names.pop()] if len(names) == 1 else None
            inner = linear(h, down, bias, then)  # one product for all down-projections
        inner = inner.reshape(batch, length, count, size)
        inner = self._activate(inner, self.adapters, dim=2) if then is None else inner
        return Inner(inner, self.up[layer], self.up_bias[layer])

    def arrange(self) -> None:
        """Give the down-projections the order that their product wants, where they are now; their numbers stay."""
        flat = by_columns(self.down.data.flatten(1, 2))  # [L, N r, d]
        self.down.data = flat.view(self.down.shape)

    def grouped(self, layer: int, h: Tensor, order: Tensor | None = None) -> Tensor:
        """Hidden states in N groups [N, M, d], each through its own adapter (or through adapter ``order[n]``)."""
        weights = [self.down[layer], self.down_bias[layer], self.up[layer], self.up_bias[layer]]
        down, down_bias, up, up_bias = weights if order is None else [value[order] for value in weights]
        adapters = self.adapters
        if order is not None and not self._alike():  # reads the order back from the device
            adapters = [self.adapters[n] for n in order.tolist()]
        if any(adapter.standardise for adapter in adapters):
            parts = zip(h, adapters, strict=True)
            h = torch.stack([F.layer_norm(part, (self.width,)) if a.standardise else part for part, a in parts])
        inner = self._activate(torch.baddbmm(down_bias[:, None], h, down.mT), adapters, dim=0)  # [N, M, r]
        return torch.baddbmm(up_bias[:, None], inner, up)  # [N, M, d]

    def invert(self, x: Tensor, weights: Tensor | None) -> Tensor:
        """The invertible blocks mixed by weights [B, T or 1, N]; with None the first adapter's alone."""
        blocks = list(self.invertible)
        if not blocks:
            raise ZgulError("these language adapters have no invertible blocks; use invertible='off'")
        if weights is None:
            first: Tensor = blocks[0](x)
            return first
        return torch.einsum("nbtd,btn->btd", torch.stack([block(x) for block in blocks]), _full(weights, x))

    def _alike(self) -> bool:
        """Whether all adapters are computed in the same way."""
        return len({(adapter.activation, adapter.standardise) for adapter in self.adapters}) <= 1

    @staticmethod
    def _activate(inner: Tensor, adapters: Sequence[LanguageAdapter], dim: int) -> Tensor:
        """Each adapter's own activation on its slice along this dimension."""
        names = {adapter.activation for adapter in adapters}
        if len(names) == 1:
            return ACTIVATIONS[names.pop()](inner)
        parts = [ACTIVATIONS[a.activation](part) for part, a in zip(inner.unbind(dim), adapters, strict=True)]
        return torch.stack(parts, dim)

    def _stack(self, adapters: list[LanguageAdapter]) -> None:
        """Copy single adapters into stacked weights; nothing has changed if they do not fit together."""
        _check_together(adapters, self.width, self.depth)
        self.adapters = copy.deepcopy(adapters)  # two banks made of one adapter must not train each other's
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
            for i, layer in enumerate(adapter.layers):
                r = layer.down.out_features
                stacked["down"][i, n, :r] = layer.down.weight.detach()
                stacked["down_bias"][i, n, :r] = layer.down.bias.detach()
                stacked["up"][i, n, :r] = layer.up.weight.detach().t()
                stacked["up_bias"][i, n] = layer.up.bias.detach()
        for name, value in stacked.items():
            old = getattr(self, name, None)
            value = value if old is None else value.to(old)
            setattr(self, name, nn.Parameter(value, requires_grad=False))
        blocks = [adapter.invertible for adapter in self.adapters if adapter.invertible is not None]
        self.invertible = nn.ModuleList(blocks).to(self.down).requires_grad_(False)

    @torch.no_grad()
    def _write_back(self) -> None:
        """Copy the stacked weights, which may have been trained, into the single adapters."""
        for n, adapter in enumerate(self.adapters):
            for i, layer in enumerate(adapter.layers):
                r = layer.down.out_features
                layer.down.weight.copy_(self.down[i, n, :r])
                layer.down.bias.copy_(self.down_bias[i, n, :r])
                layer.up.weight.copy_(self.up[i, n, :r].t())
                layer.up.bias.copy_(self.up_bias[i, n])


def subset(adapters: Iterable[LanguageAdapter], languages: Sequence[str]) -> list[LanguageAdapter]:
    """The adapters of these languages, in this order."""
    held = {adapter.language: adapter for adapter in adapters}
    missing = [language for language in languages if language not in held]
    if missing:
        raise ZgulError(f"no language adapter for {', '.join(missing)}; there are: {', '.join(held) or 'none'}")
    return [held[language] for language in languages]


def _check_together(adapters: Sequence[LanguageAdapter], width: int, depth: int) -> None:
    for adapter in adapters:
        _check_fit(adapter, width, depth)
    languages = [adapter.language for adapter in adapters]
    twice = sorted({language for language in languages if languages.count(language) > 1})
    if twice:
        raise ZgulError(f"two language adapters for {', '.join(twice)}; a bank holds one for each language")
    without = [adapter.language for adapter in adapters if adapter.invertible is None]
    if 0 < len(without) < len(adapters):
        raise ZgulError(
            f"{', '.join(without)} have no invertible block and the other language adapters have one; "
            "take adapters that were trained alike"
        )


def _check_fit(adapter: LanguageAdapter, width: int, depth: int) -> None:
    if adapter.width != width or len(adapter.layers) != depth:
        raise ZgulError(
            f"the language adapter {adapter.language!r} was made for an encoder of {len(adapter.layers)} "
            f"layers of width {adapter.width}; this encoder has {depth} of width {width}. "
            "Use the encoder it was trained on."
        )


def _full(weights: Tensor, x: Tensor) -> Tensor:
    """Weights tied over tokens [B, 1, N], spread to every token."""
    return weights.expand(x.shape[0], x.shape[1], -1)

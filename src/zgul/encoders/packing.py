"""Sentences of several lengths without their padding.

Only attention needs to know which pieces belong together. All else is done on the pieces of a batch in one row,
[1, P, ...] instead of [B, T, ...], so padding costs next to nothing; and after the attention of the last layer, where
no piece looks at another any more, only the pieces that carry a tag are left, [1, W, ...].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Pick(torch.autograd.Function):
    """``values[index]``; its gradient without the sum over equal indices that torch would have to make."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, places: Tensor, scattered: bool) -> Tensor:
        ctx.save_for_backward(places)
        ctx.size, ctx.scattered = len(values), scattered
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,), (places,) = gradients, ctx.saved_tensors
        if not ctx.scattered:
            return gradient.index_select(0, places), None, None, None
        whole = gradient.new_zeros(ctx.size, *gradient.shape[1:])
        return whole.index_copy_(0, places, gradient), None, None, None


def _pick(values: Tensor, index: Tensor, places: Tensor, scattered: bool = True) -> Tensor:
    """Rows of values; what comes back goes to these places (``scattered``), or is taken from them."""
    if not (torch.is_grad_enabled() and values.requires_grad):
        return values.index_select(0, index)
    picked: Tensor = _Pick.apply(values, index, places, scattered)  # type: ignore[no-untyped-call]
    return picked


class Packing:
    """Where the pieces of a padded batch [B, T] go, and which of them are wanted at the end."""

    def __init__(self, mask: Tensor, wanted: Tensor) -> None:
        """``mask`` [B, T] is true where there is a piece, ``wanted`` [B, T] where the last layer is."""
        self.shape = mask.shape
        self.mask = mask
        self.places = mask.flatten().nonzero().squeeze(1)  # [P] in the padded batch
        self.wanted = wanted.flatten()[self.places].nonzero().squeeze(1)  # [W] among the pieces
        self.rows = self.places // mask.shape[1]  # [P] the sentence of each piece
        self._back = torch.zeros(mask.numel(), dtype=torch.long, device=mask.device)  # [B T] padding: some piece
        self._back[self.places] = torch.arange(len(self.places), device=mask.device)
        self._full = len(self.places) == mask.numel()

    def pack(self, values: Tensor) -> Tensor:
        """[B, T, ...] to [1, P, ...]."""
        flat = values.flatten(0, 1)
        return (flat if self._full else _pick(flat, self.places, self.places))[None]

    def unpack(self, values: Tensor) -> Tensor:
        """[1, P, ...] to [B, T, ...]; what stands in the padding has no meaning, and no gradient may come from it."""
        flat = values[0] if self._full else _pick(values[0], self._back, self.places, scattered=False)
        return flat.view(*self.shape, *values.shape[2:])

    def select(self, values: Tensor) -> Tensor:
        """Of [1, P, ...] what is wanted at the end: [1, W, ...]."""
        return _pick(values[0], self.wanted, self.wanted)[None]

    def spread(self, values: Tensor) -> Tensor:
        """All pieces [1, P, ...], or the wanted alone [1, W, ...], to [B, T, ...] with zeros elsewhere."""
        places = self.places if values.shape[1] == len(self.places) else self.places[self.wanted]
        out = values.new_zeros(self.mask.numel(), *values.shape[2:])
        return out.index_copy(0, places, values[0]).view(*self.shape, *values.shape[2:])

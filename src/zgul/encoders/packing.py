"""Sentences of several lengths without their padding.

Only attention needs to know which pieces belong together. All else is done on the pieces of a batch in one row,
[1, P, ...] instead of [B, T, ...], so padding costs next to nothing; and after the attention of the last layer, where
no piece looks at another any more, only the pieces that carry a tag are left, [1, W, ...].

oneDNN compiles a product for every number of rows. Where it is used P and W are rounded up to one of few: rows at the
end that are copies of the first, from which nothing comes back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from zgul import products


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
        whole, count = gradient.new_zeros(ctx.size, *gradient.shape[1:]), len(places)
        if ctx.scattered:
            whole.index_copy_(0, places, gradient[:count])
        else:
            torch.index_select(gradient, 0, places, out=whole[:count])
        return whole, None, None, None


def _pick(values: Tensor, index: Tensor, places: Tensor, scattered: bool = True) -> Tensor:
    """Rows of values; what comes back goes to these places (``scattered``), or is taken from them."""
    if not (torch.is_grad_enabled() and values.requires_grad):
        return values.index_select(0, index)
    picked: Tensor = _Pick.apply(values, index, places, scattered)  # type: ignore[no-untyped-call]
    return picked


class Packing:
    """Where the pieces of a padded batch [B, T] go, and which of them are wanted at the end."""

    def __init__(self, mask: Tensor, wanted: Tensor, *, rounded: bool | None = None) -> None:
        """``mask`` [B, T] is true where there is a piece, ``wanted`` [B, T] where the last layer is.

        ``rounded``: to one of few numbers of pieces; where not told, if the products are compiled for each.
        """
        self.shape = mask.shape
        self.mask = mask
        self.places = mask.flatten().nonzero().squeeze(1)  # [P] in the padded batch
        self.wanted = wanted.flatten()[self.places].nonzero().squeeze(1)  # [W] among the pieces
        self.rows = self.places // mask.shape[1]  # [P] the sentence of each piece
        rounded = products.compiled(mask.device) if rounded is None else rounded
        self._all, self._end = self.places, self.wanted
        if rounded:  # coarsely at the end, which is one layer of many
            self._all, self._end = _round_up(self.places, 16), _round_up(self.wanted, 4)
        self._back = torch.zeros(mask.numel(), dtype=torch.long, device=mask.device)  # [B T] padding: some piece
        self._back[self.places] = torch.arange(len(self.places), device=mask.device)
        self._full = len(self.places) == mask.numel()

    def sentences(self, last: bool) -> Tensor:
        """The sentence of each row that the last layer, or one below it, works on."""
        rows = self._all // self.mask.shape[1]
        return rows[self._end] if last else rows

    def pack(self, values: Tensor) -> Tensor:
        """[B, T, ...] to [1, P, ...]."""
        flat = values.flatten(0, 1)
        return (flat if len(flat) == len(self._all) and self._full else _pick(flat, self._all, self.places))[None]

    def unpack(self, values: Tensor) -> Tensor:
        """[1, P, ...] to [B, T, ...]; what stands in the padding has no meaning, and no gradient may come from it."""
        kept = values[0, : len(self.places)]
        flat = kept if self._full else _pick(values[0], self._back, self.places, scattered=False)
        return flat.view(*self.shape, *values.shape[2:])

    def select(self, values: Tensor) -> Tensor:
        """Of [1, P, ...] what is wanted at the end: [1, W, ...]."""
        return _pick(values[0], self._end, self.wanted)[None]

    def spread(self, values: Tensor, *, last: bool = True) -> Tensor:
        """[1, W, ...], or [1, P, ...] where it is not of the ``last`` layer, to [B, T, ...] with zeros elsewhere."""
        places = self.places[self.wanted] if last else self.places
        out = values.new_zeros(self.mask.numel(), *values.shape[2:])
        return out.index_copy(0, places, values[0, : len(places)]).view(*self.shape, *values.shape[2:])


def _round_up(index: Tensor, parts: int) -> Tensor:
    """The same places and the first again, until they are a multiple of 8 and of a power of 2 over ``parts``."""
    count = len(index)
    step = max(8, (1 << max(0, count.bit_length() - 1)) // parts)  # so many steps from a power of 2 to the next
    return torch.cat([index, index[:1].expand(-count % step)])

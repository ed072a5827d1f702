"""AdamW with clipping, in float32 or with bfloat16 weights.

In bfloat16 the model's weights are bfloat16, and AdamW updates float32 copies of those that are trained. The copies
lie in one vector, so that an update takes a few kernels instead of a few hundred.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Optimiser:
    """Updates the trained parameters of a model. `close` leaves its weights in float32 again."""

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float,
        weight_decay: float = 0.0,
        clip: float = 1.0,
        precision: str = "auto",
        shares: Mapping[str, float] | None = None,
    ) -> None:
        """``shares``: parameters whose names begin so get this share of the learning rate."""
        self.clip, self.shares = clip, shares or {}
        named = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self._named = dict(named)
        self.weights: dict[str, Tensor] = dict(named)  # in float32, by name
        device = next(iter(named.values())).device
        on_gpu = device.type == "cuda"
        self._frozen = {value: value.data for value in model.parameters() if not value.requires_grad}
        self._copies: list[_Copies] = []
        half = precision == "bfloat16" or (precision == "auto" and on_gpu)
        for value in self._frozen if half else ():
            value.data = value.data.bfloat16()
        groups = []
        for share in sorted({self._share(name) for name in named}, reverse=True):
            own = {name: value for name, value in named.items() if self._share(name) == share}
            if half:
                self._copies.append(_Copies(own))
                self.weights |= self._copies[-1].weights
            optimised = [self._copies[-1].vector] if half else list(own.values())
            rate = torch.tensor(lr * share, device=device) if on_gpu else lr * share
            groups.append({"params": optimised, "lr": rate, "share": share})
        self.adamw = torch.optim.AdamW(groups, lr=lr, weight_decay=weight_decay, fused=on_gpu, capturable=on_gpu)

    def _share(self, name: str) -> float:
        return next((share for start, share in self.shares.items() if name.startswith(start)), 1.0)

    @property
    def optimised(self) -> list[Tensor]:
        """The tensors that AdamW updates."""
        return [value for group in self.adamw.param_groups for value in group["params"]]

    def set_lr(self, lr: float) -> None:
        """Change the learning rate. Captured graphs see the change."""
        for group in self.adamw.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr * group["share"])
            else:
                group["lr"] = lr * group["share"]

    def step(self) -> None:
        """Clip the gradients and update the weights."""
        for copies in self._copies:
            copies.take_gradients()
        nn.utils.clip_grad_norm_(self.optimised, self.clip)
        self.adamw.step()
        for copies in self._copies:
            copies.hand_back()

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set the trained weights."""
        for name, value in weights.items():
            self.weights[name].copy_(value)
        for copies in self._copies:
            copies.hand_back()

    def close(self) -> None:
        """Put float32 weights back into the model."""
        for value, before in self._frozen.items():
            value.data = before
        if self._copies:
            for name, value in self._named.items():
                value.data = self.weights[name].detach().clone()


class _Copies:
    """Float32 copies of parameters, in one vector. The parameters become parts of one bfloat16 vector."""

    def __init__(self, named: dict[str, nn.Parameter]) -> None:
        self.parameters = list(named.values())
        self.vector = nn.Parameter(torch.cat([value.detach().float().flatten() for value in self.parameters]))
        self.half = self.vector.detach().bfloat16()
        sizes = [value.numel() for value in self.parameters]
        parts = zip(self.vector.detach().split(sizes), self.parameters, strict=True)
        self.weights = dict(zip(named, (part.view(value.shape) for part, value in parts), strict=True))
        for value, part in zip(self.parameters, self.half.split(sizes), strict=True):
            value.data = part.view(value.shape)

    def take_gradients(self) -> None:
        """Collect the gradients of the parameters. One that took no part has none."""
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        self.vector.grad = torch.cat([part.flatten() for part in parts]).float()

    def hand_back(self) -> None:
        """Round the updated copies into the parameters."""
        self.half.copy_(self.vector.detach())

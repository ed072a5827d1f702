"""AdamW with clipping, a learning rate that captured graphs see, and a share of it for some parameters."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Optimiser:
    """Updates the trained parameters of a model."""

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float,
        weight_decay: float = 0.0,
        clip: float = 1.0,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        """``shares``: parameters whose names begin so get this share of the learning rate."""
        self.clip, self.shares = clip, shares or {}
        named = model.named_parameters()
        self.weights: dict[str, Tensor] = {name: value for name, value in named if value.requires_grad}
        device = next(iter(self.weights.values())).device
        on_gpu = device.type == "cuda"
        groups = []
        for share in sorted({self._share(name) for name in self.weights}, reverse=True):
            own = [value for name, value in self.weights.items() if self._share(name) == share]
            rate = torch.tensor(lr * share, device=device) if on_gpu else lr * share
            groups.append({"params": own, "lr": rate, "share": share})
        self.adamw = torch.optim.AdamW(groups, lr=lr, weight_decay=weight_decay, fused=on_gpu, capturable=on_gpu)

    def _share(self, name: str) -> float:
        return next((share for start, share in self.shares.items() if name.startswith(start)), 1.0)

    @property
    def optimised(self) -> list[Tensor]:
        """The parameters in the order that AdamW has them."""
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
        nn.utils.clip_grad_norm_(self.weights.values(), self.clip)
        self.adamw.step()

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set the trained weights."""
        for name, value in weights.items():
            self.weights[name].copy_(value)

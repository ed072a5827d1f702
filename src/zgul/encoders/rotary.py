"""Rotary positions (Su et al. 2021): queries and keys are rotated by an angle that grows with their position."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rotary:
    """Positions as rotations of queries and keys, in one layer. ``window`` limits how far its pieces see."""

    theta: float
    window: int | None = None

    def turn(self, x: Tensor) -> Tensor:
        """Rotate queries or keys [B, H, T, d/H] by their positions."""
        half = x.shape[-1] // 2
        rates = self.theta ** -(torch.arange(half, device=x.device, dtype=torch.float32) / half)
        angles = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * rates  # [T, d/2H]
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def limit(self, visible: Tensor) -> Tensor:
        """Limit what a piece sees, [B, 1, 1, T], to the window: [B, 1, T, T]. Every piece sees itself."""
        places = torch.arange(visible.shape[-1], device=visible.device)
        distance = (places[:, None] - places).abs()  # [T, T]
        return visible & (distance <= (self.window or len(places))) | (distance == 0)

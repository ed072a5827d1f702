"""Fusion, the paper's *local* weights: ``α_F[t] = softmax_n((W_q h_t) · (W_k u_n,t))``."""

from __future__ import annotations

from torch import Tensor, nn

from zgul.adapters.bank import Inner


class Fusion(nn.Module):
    """One layer's scores of every token for every adapter.

    ``(W_q h)·(W_k u_n) = (W_kᵀ W_q h)·u_n``: the key matrix is applied to the query once instead of to each of
    the N adapter outputs. The key bias adds the same to every n, which a softmax does not see: it is kept because
    AdapterFusion's files have one, and never used.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        nn.init.normal_(self.query.weight, std=0.02)
        nn.init.zeros_(self.query.bias)
        nn.init.normal_(self.key.weight, std=0.02)
        nn.init.zeros_(self.key.bias)

    def forward(self, h: Tensor, inner: Inner) -> Tensor:
        """Hidden states [B, T, d] and the adapters' bottlenecks to scores [B, T, N]."""
        return inner.dot(self.query(h) @ self.key.weight)

"""Fusion, the paper's token-based (local) weights: ``α_F[t] = softmax_n((W_q h_t) · (W_k u_n,t))``."""

from torch import Tensor, nn
from torch.nn import functional as F

from zgul.adapters.bank import AdapterOutputs


class Fusion(nn.Module):
    """The scores of one layer, before the softmax.

    ``(W_q h) · (W_k u_n) = (W_kᵀ W_q h) · u_n``, so W_k is applied to one query instead of to N adapter outputs. The
    bias of W_k adds the same number to all N scores, so it cancels in the softmax. It exists because AdapterFusion's
    files have one. It is not used.
    """

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = dropout  # of the scores, while training: only the authors' release has it
        for linear in (self.query, self.key):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)

    def forward(self, h: Tensor, outputs: AdapterOutputs) -> Tensor:
        """Map hidden states [..., d] and the adapters' outputs to scores [..., N]."""
        return F.dropout(outputs.dot(self.query(h) @ self.key.weight), self.dropout, self.training)

"""Folding: compute products of constant matrices once, before inference.

`ZGULWeighting` becomes two matrices for each layer. With ``S = W_kᵀ W_q`` and ``P_k`` the two halves of ``C`` times
W_v:

    scores of fusion   (S h) · u_n                      from h by ``[U_1 … U_N]ᵀ S`` and the bottlenecks
    mix                Σ_k P_k Σ_n w_kn u_n             from the weighted bottlenecks by ``P_k [U_1 … U_N]``

Low-rank updates of the encoder are added to its matrices.

Gain on a CPU (`make bench`): tagging 1.41× and EM 1.27× faster with the shipped tagger; 1.28× and 1.23× at mBERT's
width with four adapters.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from zgul.adapters.bank import AdapterOutputs, Bank
from zgul.devices import shared_copy
from zgul.ensemble.weighting import FUSION, LANG2VEC, Weighting, ZGULWeighting
from zgul.methods.model import Model


class FoldedWeighting(Weighting):
    """A trained `ZGULWeighting` multiplied into the adapters of a bank."""

    into: Tensor  # [L, N r + N, d]: h to its products with the columns of U_n, and with b_n
    into_bias: Tensor  # [L, N r + N]
    leave: Tensor  # [L, K N r, d]: weighted bottlenecks to the mix
    leave_bias: Tensor  # [L, K N, d]: what the weights add to the mix through b_n
    mix_bias: Tensor  # [L, d]

    by_language = ZGULWeighting.by_language  # it has the same parts

    @torch.no_grad()
    def __init__(self, source: ZGULWeighting, bank: Bank) -> None:
        super().__init__()
        self.views, self.vectors, self.lang2vec = source.views, source.vectors, source.lang2vec
        up = torch.cat([bank.up.flatten(1, 2), bank.up_bias], dim=1)  # [L, N r + N, d]
        split = [bank.up.shape[1] * bank.up.shape[2], len(bank)]
        buffers = {}
        if FUSION in self.views:
            key, query = _stacked(source.fusion, "key.weight"), _stacked(source.fusion, "query.weight")  # [L, d, d]
            buffers["into"] = up @ key.mT @ query
            buffers["into_bias"] = (up @ key.mT @ _stacked(source.fusion, "query.bias")[..., None]).squeeze(-1)
        value = _stacked(source.value, "weight")  # [L, d, d]
        parts = [value]
        buffers["mix_bias"] = value.new_zeros(value.shape[:2])
        if len(source.combine):
            parts = [half @ value for half in _stacked(source.combine, "weight").chunk(2, dim=2)]
            buffers["mix_bias"] = _stacked(source.combine, "bias")
        left = [(up @ part.mT).split(split, dim=1) for part in parts]
        buffers["leave"] = torch.cat([inner for inner, _ in left], dim=1)
        buffers["leave_bias"] = torch.cat([outer for _, outer in left], dim=1)
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)

    def scores(self, layer: int, h: Tensor, outputs: AdapterOutputs, by_language: Tensor) -> Tensor:
        views = []
        if FUSION in self.views:
            both = nn.functional.linear(h, self.into[layer], self.into_bias[layer])
            inner, outer = both.split([both.shape[-1] - len(outputs.up), len(outputs.up)], dim=-1)
            views.append((inner.reshape(outputs.a.shape) * outputs.a).sum(dim=-1) + outer)
        views += [by_language] if LANG2VEC in self.views else []
        return torch.stack(views, dim=-2)

    def mix(self, layer: int, outputs: AdapterOutputs, weights: Tensor) -> Tensor:
        scaled = (weights[..., None] * outputs.a[..., None, :, :]).flatten(-3)  # [..., K N r]
        bias = torch.addmm(self.mix_bias[layer], weights.flatten(-2).flatten(0, -2), self.leave_bias[layer])
        return torch.addmm(bias, scaled.flatten(0, -2), self.leave[layer]).view(*scaled.shape[:-1], -1)


def fold(model: Model) -> Model:
    """A copy of a model that computes the same with fewer products. It shares all other weights."""
    replaced: dict[nn.Module, nn.Module] = {model.encoder: model.encoder.merged()}
    weighting, bank = model.weighting, model.bank
    if isinstance(weighting, ZGULWeighting) and bank and (len(weighting.views) == 1 or len(weighting.combine)):
        replaced[weighting] = FoldedWeighting(weighting, bank)  # a mix that is a maximum cannot be folded
    return shared_copy(model, replaced)


def _stacked(modules: Iterable[nn.Module], name: str) -> Tensor:
    """The parameter of this name of each layer's module, in one tensor."""
    return torch.stack([module.get_parameter(name) for module in modules])

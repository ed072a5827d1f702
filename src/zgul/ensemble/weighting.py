"""Every adapter method of the paper is a weighting of the same bank.

A weighting has one or two *views* of the bank (ZGUL has two: fusion and lang2vec). It computes scores [..., K, N]. A
softmax over N turns them into weights. Then the weighting turns the K weighted sums of adapter outputs into the term
that is added to the feed-forward output: ``z = f + mix(Σ_n w_n u_n)``. EM moves the scores and nothing else.
"""

import torch
from torch import Tensor, nn

from zgul.adapters.bank import AdapterOutputs
from zgul.ensemble.fusion import Fusion
from zgul.ensemble.lang2vec import Lang2Vec, LanguageVectors

FUSION, LANG2VEC = "fusion", "lang2vec"
COMBINE = ("linear", "max")


class Weighting(nn.Module):
    """The interface of all weightings."""

    views: tuple[str, ...]

    def by_language(self, table: Tensor) -> Tensor:
        """Map the language table [M, ·] to the part of the scores that depends on it alone, [L or 1, M, N]."""
        raise NotImplementedError

    def scores(self, layer: int, h: Tensor, outputs: AdapterOutputs, by_language: Tensor) -> Tensor:
        """Map hidden states [..., d], adapter outputs and each token's `by_language` [..., N] to scores [..., K, N]."""
        raise NotImplementedError

    def mix(self, layer: int, outputs: AdapterOutputs, weights: Tensor) -> Tensor:
        """Map adapter outputs and weights [..., K, N] to the term that is added to f, [..., d]."""
        raise NotImplementedError


class ByLanguage(Weighting):
    """MADX and MADX^multi: the language table holds the scores. Zeros give the mean of all adapters, EMEA's start."""

    views = ("mix",)

    def by_language(self, table: Tensor) -> Tensor:
        return table[None]

    def scores(self, layer: int, h: Tensor, outputs: AdapterOutputs, by_language: Tensor) -> Tensor:
        return by_language[..., None, :]

    def mix(self, layer: int, outputs: AdapterOutputs, weights: Tensor) -> Tensor:
        return outputs.mix(weights[..., 0, :])


class ZGULWeighting(Weighting):
    """Fusion and lang2vec, each mixing the bank, joined by a linear layer: ``C [W_v Σ α_F u ; W_v Σ α_L u]``.

    If one view is left out (w/o L, w/o F), the mix is ``W_v Σ α u``. ``combine="max"`` is the element-wise maximum
    that the authors' release uses for its Slavic model.
    """

    def __init__(
        self,
        bank_features: Tensor,
        *,
        width: int,
        depth: int,
        views: tuple[str, ...] = (FUSION, LANG2VEC),
        form: str = "bilinear",
        start: str = "likeness",
        combine: str = "linear",
        fusion_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.views = views
        self.vectors = LanguageVectors(bank_features, start=start)
        size, layers = self.vectors.project.out_features, {view: range(depth) for view in views}
        self.fusion = nn.ModuleList(Fusion(width, fusion_dropout) for _ in layers.get(FUSION, ()))
        self.lang2vec = nn.ModuleList(Lang2Vec(size, width, form, start) for _ in layers.get(LANG2VEC, ()))
        self.value = nn.ModuleList(_mean_of_parts(width, 1, bias=False) for _ in range(depth))
        joined = len(views) == 2 and combine == "linear"
        self.combine = nn.ModuleList(_mean_of_parts(width, 2) for _ in range(depth if joined else 0))

    def by_language(self, table: Tensor) -> Tensor:
        if LANG2VEC not in self.views:
            return table.new_zeros(1, len(table), len(self.vectors.bank_features))
        languages, sources = self.vectors(table), self.vectors(self.vectors.bank_features.to(table.dtype))
        return torch.stack([layer(languages, sources) for layer in self.lang2vec])

    def scores(self, layer: int, h: Tensor, outputs: AdapterOutputs, by_language: Tensor) -> Tensor:
        views = [self.fusion[layer](h, outputs)] if FUSION in self.views else []
        views += [by_language] if LANG2VEC in self.views else []
        return torch.stack(views, dim=-2)

    def mix(self, layer: int, outputs: AdapterOutputs, weights: Tensor) -> Tensor:
        # W_v is linear, so it is applied to the mixtures instead of to the N outputs
        mixtures: list[Tensor] = [self.value[layer](outputs.mix(weights[..., k, :])) for k in range(len(self.views))]
        if len(mixtures) == 1:
            return mixtures[0]
        if len(self.combine) == 0:
            return torch.maximum(*mixtures)
        joined: Tensor = self.combine[layer](torch.cat(mixtures, dim=-1))
        return joined


def _mean_of_parts(width: int, parts: int, bias: bool = True) -> nn.Linear:
    """A linear map that starts as the mean of its ``parts`` inputs of this width."""
    linear = nn.Linear(width * parts, width, bias=bias)
    with torch.no_grad():
        linear.weight.copy_(torch.eye(width).repeat(1, parts) / parts)
        if bias:
            linear.bias.zero_()
    return linear

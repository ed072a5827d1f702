"""Every adapter method of the paper is a weighting of the same bank; each weighting is a class here.

A weighting looks at the bank through one or two *views* (ZGUL has two, fusion and lang2vec). It gives scores
[B, T, K, N], which a softmax over N turns into weights, and it turns the K weighted sums of adapter outputs into
what is added to the feed-forward output: ``z = f + mix(Σ_n w_n u_n)``. Scores are the only thing that entropy
minimisation moves. The adapters come as `Inner`: their bottlenecks, in which scores and mixtures are computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from zgul.adapters.bank import Bank, Inner
from zgul.ensemble.fusion import Fusion
from zgul.ensemble.lang2vec import Lang2Vec, LanguageVectors, lookup
from zgul.products import linear, plus_product

# condition of a matrix up to which its inverse is used, by the precision of the work: so much may an error grow
SAFE = {torch.float64: 100.0, torch.float32: 100.0, torch.bfloat16: 8.0, torch.float16: 8.0}


class Weighting(nn.Module):
    """What every way of weighting offers."""

    views: tuple[str, ...] = ("mix",)

    def by_language(self, languages: Tensor, count: int) -> Tensor:
        """What the scores of ``count`` adapters owe to the tokens' languages [B, T] alone: [B, T, L or 1, N]."""
        return torch.zeros(*languages.shape, 1, count, device=languages.device)

    def turn(self, layer: int, inner: Inner) -> Inner:
        """The bank's adapters in the coordinates in which this weighting works; usually their own."""
        return inner

    def scores(self, layer: int, h: Tensor, inner: Inner, told: Tensor) -> Tensor:
        """h [B, T, d], the adapters of N languages, and ``by_language`` to scores [B, T, K, N]."""
        return told.to(h.dtype)

    def mix(self, layer: int, inner: Inner, weights: Tensor) -> Tensor:
        """The adapters and their weights [B, T, K, N] to what is added to f [B, T, d]."""
        return inner.mix(weights)

    def at_once(self, layer: int, h: Tensor, inner: Inner, told: Tensor) -> Tensor | None:
        """``mix`` by the softmax of ``scores``, where there is a faster way to both."""
        return None


class Uniform(Weighting):
    """1/N for every adapter: MADX^multi-Uniform, and where EMEA starts."""


class OneHot(Weighting):
    """One adapter per token, by the token's language: MADX and MADX^multi."""

    choice: Tensor

    def __init__(self, choice: list[int]) -> None:
        """``choice[m]`` is the adapter for row m of the model's language table."""
        super().__init__()
        self.rows = choice
        self.register_buffer("choice", torch.tensor(choice), persistent=False)

    def by_language(self, languages: Tensor, count: int) -> Tensor:
        """0 and -inf: the softmax is exactly one-hot."""
        return nn.functional.one_hot(self.choice[languages], count).float().log()[:, :, None]


class ZGUL(Weighting):
    """Fusion and lang2vec, each mixing the bank, joined by a linear layer: ``C [W_v Σ α_F u ; W_v Σ α_L u]``.

    With one part left out (w/o L, w/o F) there is nothing to join and the mix is ``W_v Σ α u``. ``combine='max'``
    is the element-wise maximum that the authors' release uses for its Slavic model.
    """

    def __init__(
        self,
        vectors: LanguageVectors,
        *,
        width: int,
        depth: int,
        views: tuple[str, ...] = ("fusion", "lang2vec"),
        form: str = "bilinear",
        combine: str = "linear",
    ) -> None:
        super().__init__()
        self.views = views
        self.vectors = vectors
        self.fusion = nn.ModuleList(Fusion(width) for _ in range(depth if "fusion" in views else 0))
        size = vectors.project.out_features
        self.lang2vec = nn.ModuleList(Lang2Vec(size, width, form) for _ in range(depth if "lang2vec" in views else 0))
        self.value = nn.ModuleList(_identity(width, 1, bias=False) for _ in range(depth))
        joined = len(views) == 2 and combine == "linear"
        self.combine = nn.ModuleList(_identity(width, 2) for _ in range(depth if joined else 0))

    def by_language(self, languages: Tensor, count: int) -> Tensor:
        return _lang2vec(self, languages, count)

    def scores(self, layer: int, h: Tensor, inner: Inner, told: Tensor) -> Tensor:
        local = [self.fusion[layer](h, inner)] if "fusion" in self.views else []
        return _views(local, told[:, :, layer] if "lang2vec" in self.views else None)

    @property
    def foldable(self) -> bool:
        """Whether the mix is linear, so that it can be multiplied out."""
        return len(self.views) == 1 or len(self.combine) > 0

    def mix(self, layer: int, inner: Inner, weights: Tensor) -> Tensor:
        value = self.value[layer].get_parameter("weight")  # [d, d]
        if self.combine:
            joined = self.combine[layer]
            parts = torch.stack(joined.get_parameter("weight").chunk(2, dim=1)) @ value  # C[:, :d] W_v and C[:, d:] W_v
            return inner.mix(weights, parts, joined.get_parameter("bias"))
        outputs = [inner.mix(weights[:, :, k : k + 1], value[None]) for k in range(len(self.views))]
        return outputs[0] if len(outputs) == 1 else torch.maximum(*outputs)


class Folded(Weighting):
    """A trained ZGUL with its products of matrices multiplied out; the same numbers with fewer products.

    ``W_kᵀ W_q`` becomes one matrix, ``C[:, :d] W_v`` and ``C[:, d:] W_v`` (P_1 and P_2) one each. ``multiply`` takes
    them into the adapters of a bank where that saves work: one product leads from h to fusion's scores then, and one
    from the bottlenecks to the mix, 4 N r d in all. Adapters that are wide together (N r > 1.5 d) are cheaper one by
    one, by their outputs: 2 N r d + 3 d². In the coordinates ``u' = P_1 u`` the first view's matrix is the identity,
    ``z = f + Σ α_F u' + P_2 P_1⁻¹ Σ α_L u'``, so it is 2 N r d + 2 d² where P_1 can be inverted without harm.
    """

    wide: bool = False
    condition: float = math.inf  # of P_1, the largest of all layers
    into: Tensor  # [L, N r + N, d]: h to its products with the columns of U_n, and with b_n
    into_bias: Tensor  # [L, N r + N]
    leave: Tensor  # [L, K N r, d]: weighted bottlenecks to the mix
    leave_bias: Tensor  # [L, d, K N]: what the weights add to it by b_n
    up: Tensor  # [L, N, r, d]: P_1 U_n, of wide adapters, as all below
    up_bias: Tensor  # [L, N, d]: P_1 b_n
    query: Tensor  # [L, d, d]: h to what is multiplied with P_1 u_n
    query_bias: Tensor  # [L, d]
    rest: Tensor  # [L, d, d]: P_2 P_1⁻¹; of one view, empty

    def __init__(self, source: ZGUL) -> None:
        super().__init__()
        self.views = source.views
        with torch.no_grad():
            if "fusion" in self.views:
                key, query = _stacked(source.fusion, "key.weight"), _stacked(source.fusion, "query.weight")  # [L, d, d]
                bias = _stacked(source.fusion, "query.bias")  # [L, d]
                self.score = nn.Parameter(query.mT @ key)  # [L, d, d]: h @ score = W_kᵀ W_q h
                self.score_bias = nn.Parameter((bias[:, None] @ key).squeeze(1))  # [L, d]
            value = _stacked(source.value, "weight")  # [L, d, d]
            depth, width, _ = value.shape
            if source.combine:
                joined = _stacked(source.combine, "weight")  # [L, d, 2d]
                parts = torch.stack([joined[..., :width] @ value, joined[..., width:] @ value], dim=1)
                self.mix_bias = nn.Parameter(_stacked(source.combine, "bias"))
            elif len(self.views) == 1:
                parts = value[:, None]
                self.mix_bias = nn.Parameter(value.new_zeros(depth, width))
            else:
                raise ValueError("a maximum is not linear: check `foldable` first")
            self.project = nn.Parameter(parts.transpose(1, 2).reshape(depth, width, -1))  # [L, d, K d]
        self.vectors, self.lang2vec = source.vectors, source.lang2vec

    @torch.no_grad()
    def multiply(self, bank: Bank) -> None:
        """Take the matrices into the adapters of a bank, which must stay as they are from then on."""
        up, bias = bank.up.flatten(1, 2), bank.up_bias  # [L, N r, d], [L, N, d]
        self.wide, self.condition = up.shape[1] > 1.5 * up.shape[2], math.inf
        made = self._turned(bank) if self.wide else self._inside(up, bias)
        for name, value in made.items():
            self.register_buffer(name, value, persistent=False)

    def _turned(self, bank: Bank) -> dict[str, Tensor]:
        """All in the coordinates ``u' = P_1 u``; nothing where a rounding error would grow too much in them."""
        first, *others = _exact(self.project).chunk(len(self.views), dim=2)  # P_1, P_2 [L, d, d]
        self.condition = float(torch.linalg.cond(first).max())
        if not self.condition < max(SAFE.values()):
            return {}
        # one at a time: after torch.set_num_threads, torch 2.13 with MKL never comes back from a stack of large ones
        back = torch.stack([torch.linalg.inv(layer) for layer in first])
        made = {"up": _exact(bank.up) @ first.mT[:, None], "up_bias": _exact(bank.up_bias) @ first.mT}
        if "fusion" in self.views:
            made["query"] = _exact(self.score) @ back
            made["query_bias"] = (_exact(self.score_bias)[:, None] @ back).squeeze(1)
        made["rest"] = others[0] @ back if others else first.new_zeros(len(first), 0, 0)
        return {name: value.to(self.project) for name, value in made.items()}

    def _inside(self, up: Tensor, bias: Tensor) -> dict[str, Tensor]:
        made = {}
        if "fusion" in self.views:
            out = torch.cat([up, bias], dim=1)  # [L, N r + N, d]
            made["into"] = (self.score @ out.mT).mT  # in memory column by column, as `linear` wants it on a CPU
            made["into_bias"] = (out @ self.score_bias[..., None]).squeeze(-1)
        parts = self.project.chunk(len(self.views), dim=2)  # K times [L, d, d]
        made["leave"] = torch.cat([up @ part.mT for part in parts], dim=1)
        made["leave_bias"] = torch.cat([bias @ part.mT for part in parts], dim=1).mT.contiguous()
        return made

    def by_language(self, languages: Tensor, count: int) -> Tensor:
        return _lang2vec(self, languages, count)

    def turn(self, layer: int, inner: Inner) -> Inner:
        return replace(inner, up=self.up[layer], bias=self.up_bias[layer]) if self.turns(inner) else inner

    def turns(self, inner: Inner) -> bool:
        """Whether the work is done in the coordinates ``u' = P_1 u``."""
        return self.condition < SAFE.get(inner.a.dtype, 0.0)

    def scores(self, layer: int, h: Tensor, inner: Inner, told: Tensor) -> Tensor:
        local = []
        if "fusion" in self.views and self.wide:
            query = self._query(layer, h, inner)
            local.append(torch.stack([(query * u).sum(dim=-1) for u in inner.outputs], dim=-1))
        elif "fusion" in self.views:
            both = linear(h, self.into[layer], self.into_bias[layer])
            inside, outside = both[..., : -len(inner)], both[..., -len(inner) :]
            local.append((inside.reshape(inner.a.shape) * inner.a).sum(dim=-1) + outside)
        return _views(local, told[:, :, layer] if "lang2vec" in self.views else None)

    def mix(self, layer: int, inner: Inner, weights: Tensor) -> Tensor:
        if self.wide:
            mixed = [_weighted_sum(inner.outputs, weights[:, :, k]) for k in range(len(self.views))]
            if self.turns(inner):
                mixed[0] = mixed[0] + self.mix_bias[layer]
                return mixed[0] if len(mixed) == 1 else plus_product(mixed[0], mixed[1], self.rest[layer].mT)
            return linear(torch.cat(mixed, dim=-1), self.project[layer], self.mix_bias[layer])
        scaled = (weights[..., None] * inner.a[:, :, None]).flatten(2)  # [B, T, K N r]
        bias = linear(weights.flatten(2), self.leave_bias[layer], self.mix_bias[layer])
        return plus_product(bias, scaled, self.leave[layer])

    def at_once(self, layer: int, h: Tensor, inner: Inner, told: Tensor) -> Tensor | None:
        fit = h.is_cuda and self.turns(inner) and len(self.views) == 2 and inner.a.dtype != torch.float64
        if not fit or torch.is_grad_enabled():
            return None
        from zgul.ensemble import kernels

        query = self._query(layer, h, inner)
        mixed = kernels.weigh_and_mix(query, inner, told[:, :, layer], self.mix_bias[layer])
        return None if mixed is None else plus_product(*mixed, self.rest[layer].mT)

    def _query(self, layer: int, h: Tensor, inner: Inner) -> Tensor:
        """h to what is multiplied with the adapters' outputs for fusion's scores, [B, T, d]."""
        if self.turns(inner):
            return linear(h, self.query[layer].mT, self.query_bias[layer])
        return linear(h, self.score[layer].mT, self.score_bias[layer])


def _exact(matrix: Tensor) -> Tensor:
    """In float64, which not every device has."""
    return matrix.detach().cpu().double()


def _lang2vec(weighting: ZGUL | Folded, languages: Tensor, count: int) -> Tensor:
    """Lang2vec's scores of all layers [B, T, L, N]; of none where the weighting does without."""
    if "lang2vec" not in weighting.views:
        return torch.zeros(*languages.shape, 0, count, device=languages.device)
    vectors = weighting.vectors()  # [M, size]
    return lookup(torch.stack([layer(vectors, count) for layer in weighting.lang2vec]), languages)


def _views(local: list[Tensor], told: Tensor | None) -> Tensor:
    """Fusion's scores and lang2vec's, those there are, in this order: [B, T, K, N]."""
    if told is not None:
        local = [*local, told.to(local[0].dtype) if local else told]
    return torch.stack(local, dim=2)


def _weighted_sum(u: tuple[Tensor, ...], weights: Tensor) -> Tensor:
    """``Σ_n w_n u_n``: N times u [B, T, d] and weights [B, T, N] to [B, T, d]."""
    total = u[0] * weights[..., :1]
    for n in range(1, len(u)):
        total = torch.addcmul(total, u[n], weights[..., n : n + 1])
    return total


def _stacked(modules: Iterable[nn.Module], name: str) -> Tensor:
    """The parameter of this name of each layer's module, in one tensor."""
    return torch.stack([module.get_parameter(name) for module in modules])


def _identity(width: int, parts: int, bias: bool = True) -> nn.Linear:
    """A linear map that starts as the mean of its ``parts`` inputs of this width."""
    linear = nn.Linear(width * parts, width, bias=bias)
    with torch.no_grad():
        linear.weight.copy_(torch.eye(width).repeat(1, parts) / parts)
        if bias:
            linear.bias.zero_()
    return linear

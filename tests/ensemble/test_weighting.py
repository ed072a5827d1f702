"""Every weighting against loops over tokens and adapters."""

import pytest
import torch
from torch import Tensor

from zgul.adapters.bank import AdapterOutputs
from zgul.ensemble.weighting import ByLanguage, ZGULWeighting
from zgul.methods.madx import RULED_OUT

N, B, T, D, DEPTH = 3, 2, 4, 6, 2
VIEWS = [("fusion", "lang2vec"), ("fusion",), ("lang2vec",)]


@pytest.fixture
def outputs() -> AdapterOutputs:
    torch.manual_seed(0)
    shapes = (B, T, N, 5), (N, 5, D), (N, D)
    return AdapterOutputs(*(torch.randn(*shape, dtype=torch.float64) for shape in shapes))


def written_out(outputs: AdapterOutputs) -> Tensor:
    """u_n of every adapter [N, B, T, D]."""
    return torch.einsum("btnr,nrd->nbtd", outputs.a, outputs.up) + outputs.bias[:, None, None]


def zgul(views: tuple[str, ...] = VIEWS[0], form: str = "bilinear", combine: str = "linear") -> ZGULWeighting:
    torch.manual_seed(1)
    features = (torch.rand(N, 8) > 0.5).float()
    weighting = ZGULWeighting(features, width=D, depth=DEPTH, views=views, form=form, combine=combine).double()
    for weight in weighting.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return weighting


def literal_mix(weighting: ZGULWeighting, layer: int, u: Tensor, weights: Tensor, combine: str) -> Tensor:
    """C [W_v Σ α_F,n u_n ; W_v Σ α_L,n u_n], token by token."""
    out = torch.empty(B, T, D, dtype=torch.float64)
    value = weighting.value[layer].weight
    for b in range(B):
        for t in range(T):
            views = []
            for k in range(weights.shape[2]):
                total = torch.zeros(D, dtype=torch.float64)
                for n in range(N):
                    total = total + weights[b, t, k, n] * u[n, b, t]
                views.append(value @ total)
            if len(views) == 1:
                out[b, t] = views[0]
            elif combine == "max":
                out[b, t] = torch.stack(views).amax(dim=0)
            else:
                joined = weighting.combine[layer]
                out[b, t] = joined.weight @ torch.cat(views) + joined.bias
    return out


@torch.no_grad()
@pytest.mark.parametrize("combine", ["linear", "max"])
@pytest.mark.parametrize("views", VIEWS)
def test_zgul_mixes_as_the_paper_writes_it(outputs: AdapterOutputs, views: tuple[str, ...], combine: str) -> None:
    weighting = zgul(views, combine=combine)
    weights = torch.randn(B, T, len(views), N, dtype=torch.float64).softmax(dim=-1)
    for layer in range(DEPTH):
        expected = literal_mix(weighting, layer, written_out(outputs), weights, combine)
        torch.testing.assert_close(weighting.mix(layer, outputs, weights), expected, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("form", ["bilinear", "additive"])
@pytest.mark.parametrize("views", VIEWS)
def test_zgul_scores_come_from_its_two_parts(outputs: AdapterOutputs, views: tuple[str, ...], form: str) -> None:
    weighting = zgul(views, form)
    h, table = torch.randn(B, T, D, dtype=torch.float64), torch.rand(5, 8, dtype=torch.float64)
    by_language = weighting.by_language(table)
    own = by_language[-1][torch.randint(5, (B, T))]  # [B, T, N]
    scores = weighting.scores(1, h, outputs, own)
    assert scores.shape == (B, T, len(views), N)
    if "fusion" in views:
        torch.testing.assert_close(scores[:, :, 0], weighting.fusion[1](h, outputs))
    if "lang2vec" in views:
        sources = weighting.vectors(weighting.vectors.bank_features)
        torch.testing.assert_close(by_language[1], weighting.lang2vec[1](weighting.vectors(table), sources))
        assert torch.equal(scores[:, :, -1], own), "each token by its own language"
        assert by_language.shape == (DEPTH, 5, N)
    else:
        assert by_language.shape == (1, 5, N) and not by_language.any()


@torch.no_grad()
def test_a_new_zgul_starts_as_the_mean_of_its_two_mixes(outputs: AdapterOutputs) -> None:
    weighting = ZGULWeighting(torch.ones(N, 2), width=D, depth=1).double()
    weights = torch.randn(B, T, 2, N, dtype=torch.float64).softmax(dim=-1)
    expected = torch.einsum("nbtd,btn->btd", written_out(outputs), weights.mean(dim=2))
    torch.testing.assert_close(weighting.mix(0, outputs, weights), expected)


def test_one_adapter_for_each_language_is_exactly_that_one(outputs: AdapterOutputs) -> None:
    weighting, languages, choice = ByLanguage(), torch.randint(5, (B, T)), [2, 0, 1, 1, 2]
    table = torch.full((5, N), RULED_OUT, dtype=torch.float64)
    table[range(5), choice] = 0
    by_language = weighting.by_language(table)
    assert by_language.shape == (1, 5, N)
    weights = weighting.scores(0, outputs.a, outputs, by_language[0][languages]).softmax(dim=-1)
    mixed, u = weighting.mix(0, outputs, weights), written_out(outputs)
    for b in range(B):
        for t in range(T):
            chosen = choice[int(languages[b, t])]
            assert weights[b, t, 0].tolist() == [float(n == chosen) for n in range(N)]
            torch.testing.assert_close(mixed[b, t], u[chosen, b, t], rtol=0, atol=1e-14)


def test_equal_scores_are_the_mean(outputs: AdapterOutputs) -> None:
    weighting = ByLanguage()
    weights = weighting.scores(0, outputs.a, outputs, torch.zeros(B, T, N, dtype=torch.float64)).softmax(dim=-1)
    assert weights.shape == (B, T, 1, N)
    mixed = weighting.mix(0, outputs, weights)
    torch.testing.assert_close(mixed, written_out(outputs).mean(dim=0), rtol=0, atol=1e-14)

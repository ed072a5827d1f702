"""Every weighting against loops over tokens and adapters; folding changes nothing."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from zgul.adapters.bank import Inner
from zgul.ensemble.lang2vec import LanguageVectors
from zgul.ensemble.weighting import ZGUL, Folded, OneHot, Uniform

N, B, T, D, DEPTH = 3, 2, 4, 6, 2
VIEWS = [("fusion", "lang2vec"), ("fusion",), ("lang2vec",)]


@pytest.fixture(params=[2, 5], ids=["narrow", "wide"])
def tensors(request: pytest.FixtureRequest) -> tuple[Tensor, Inner, Tensor]:
    """Hidden states, adapters on either side of N r = 1.5 d, languages."""
    torch.manual_seed(0)
    size = request.param
    h, a = torch.randn(B, T, D, dtype=torch.float64), torch.randn(B, T, N, size, dtype=torch.float64)
    up, bias = torch.randn(N, size, D, dtype=torch.float64), torch.randn(N, D, dtype=torch.float64)
    return h, Inner(a, up, bias), torch.randint(5, (B, T))


def zgul(views: tuple[str, ...] = VIEWS[0], form: str = "bilinear", combine: str = "linear") -> ZGUL:
    torch.manual_seed(1)
    table = (torch.rand(N, 8) > 0.5).float()
    made = LanguageVectors([f"l{n}" for n in range(N)], table, 5)
    for extra in range(2):
        made.add(f"t{extra}", torch.rand(8))
    weighting = ZGUL(made, width=D, depth=DEPTH, views=views, form=form, combine=combine).double()
    for weight in weighting.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return weighting


def literal_mix(weighting: ZGUL, layer: int, u: Tensor, weights: Tensor, combine: str) -> Tensor:
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


@pytest.mark.parametrize("training", [True, False], ids=["multiplied into the adapters", "applied to the tokens"])
@pytest.mark.parametrize("combine", ["linear", "max"])
@pytest.mark.parametrize("views", VIEWS)
def test_zgul_mixes_as_the_paper_writes_it(tensors, views, combine: str, training: bool) -> None:
    _, inner, _ = tensors
    u = torch.stack(inner.outputs)
    weighting = zgul(views, combine=combine).requires_grad_(training)
    weights = torch.randn(B, T, len(views), N, dtype=torch.float64).softmax(dim=-1)
    for layer in range(DEPTH):
        expected = literal_mix(weighting, layer, u, weights, combine)
        torch.testing.assert_close(weighting.mix(layer, inner, weights), expected, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("form", ["bilinear", "additive"])
def test_zgul_scores_come_from_its_two_parts(tensors, form: str) -> None:
    h, inner, languages = tensors
    weighting = zgul(form=form)
    scores = weighting.scores(1, h, inner, weighting.by_language(languages, N))
    assert scores.shape == (B, T, 2, N)
    torch.testing.assert_close(scores[:, :, 0], weighting.fusion[1](h, inner))
    table = weighting.lang2vec[1](weighting.vectors(), N)
    for b in range(B):
        for t in range(T):
            assert torch.equal(scores[b, t, 1], table[languages[b, t]]), "each token by its own language"


@torch.no_grad()
@pytest.mark.parametrize("views", VIEWS)
@pytest.mark.parametrize("form", ["bilinear", "additive"])
@pytest.mark.parametrize("safe", [1e6, 0.0], ids=["P_1 is inverted", "P_1 is not"])
def test_folding_changes_nothing(tensors, views, form: str, safe: float, monkeypatch) -> None:
    monkeypatch.setattr("zgul.ensemble.weighting.SAFE", {torch.float64: safe})
    h, inner, languages = tensors
    whole = zgul(views, form)
    folded = Folded(whole)
    bank = SimpleNamespace(up=inner.up.expand(DEPTH, -1, -1, -1), up_bias=inner.bias.expand(DEPTH, -1, -1))
    folded.multiply(bank)
    assert folded.wide == (inner.up.shape[1] == 5)
    assert folded.turns(inner) == (folded.wide and safe > 0)
    for layer in range(DEPTH):
        scores = whole.scores(layer, h, inner, whole.by_language(languages, N))
        weights = scores.softmax(dim=-1)
        turned = folded.turn(layer, inner)
        got = folded.scores(layer, h, turned, folded.by_language(languages, N)).softmax(dim=-1)
        torch.testing.assert_close(got, weights, rtol=0, atol=1e-10)
        torch.testing.assert_close(
            folded.mix(layer, turned, weights), whole.mix(layer, inner, weights), rtol=0, atol=1e-10
        )


def test_a_maximum_cannot_be_folded() -> None:
    assert zgul().foldable and zgul(("fusion",), combine="max").foldable
    assert not zgul(combine="max").foldable
    with pytest.raises(ValueError, match="not linear"):
        Folded(zgul(combine="max"))


def test_a_new_zgul_starts_as_the_mean_of_its_two_mixes(tensors) -> None:
    _, inner, _ = tensors
    weighting = ZGUL(LanguageVectors(["a"], torch.ones(1, 2)), width=D, depth=1).double()
    weights = torch.randn(B, T, 2, N, dtype=torch.float64).softmax(dim=-1)
    expected = torch.einsum("nbtd,btn->btd", torch.stack(inner.outputs), weights.mean(dim=2))
    torch.testing.assert_close(weighting.mix(0, inner, weights), expected)


def test_one_hot_is_exactly_one_adapter(tensors) -> None:
    h, inner, languages = tensors
    choice = [2, 0, 1, 1, 2]
    weighting = OneHot(choice)
    weights = weighting.scores(0, h, inner, weighting.by_language(languages, N)).softmax(dim=-1)
    mixed, u = weighting.mix(0, inner, weights), torch.stack(inner.outputs)
    for b in range(B):
        for t in range(T):
            chosen = choice[int(languages[b, t])]
            assert weights[b, t, 0].tolist() == [float(n == chosen) for n in range(N)]
            torch.testing.assert_close(mixed[b, t], u[chosen, b, t], rtol=0, atol=1e-14)


def test_uniform_is_the_mean(tensors) -> None:
    h, inner, languages = tensors
    weights = Uniform().scores(0, h, inner, Uniform().by_language(languages, N)).softmax(dim=-1)
    assert weights.shape == (B, T, 1, N)
    torch.testing.assert_close(
        Uniform().mix(0, inner, weights), torch.stack(inner.outputs).mean(dim=0), rtol=0, atol=1e-14
    )


def test_rounded_numbers_are_turned_only_where_errors_stay_small() -> None:
    folded = Folded(zgul())
    for dtype, expected in ((torch.float32, [True, True, False]), (torch.bfloat16, [True, False, False])):
        inner = Inner(torch.zeros(1, 1, N, 2, dtype=dtype), torch.zeros(N, 2, D), torch.zeros(N, D))
        found = []
        for condition in (5.0, 50.0, 500.0):
            folded.condition = condition
            found.append(folded.turns(inner))
        assert found == expected

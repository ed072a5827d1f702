"""Lang2Vec: language vectors, the paper's bilinear scores and the release's additive ones, written out."""

import math

import pytest
import torch

from zgul.ensemble.lang2vec import Lang2Vec, LanguageVectors


def vectors(languages: int = 3, features: int = 7) -> LanguageVectors:
    torch.manual_seed(0)
    table = (torch.rand(languages, features) > 0.5).float()
    return LanguageVectors(table).double()


@torch.no_grad()
def test_language_vectors_are_relu_of_a_projection() -> None:
    made, others = vectors(), torch.rand(4, 7, dtype=torch.float64)
    for row, lf in enumerate(others):
        for k in range(32):
            total = float(made.project.bias[k]) + sum(
                float(made.project.weight[k, j]) * float(lf[j]) for j in range(len(lf))
            )
            assert float(made(others)[row, k]) == pytest.approx(max(0.0, total), abs=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("form", ["bilinear", "additive"])
def test_scores_are_those_of_the_formula(form: str) -> None:
    torch.manual_seed(1)
    layer = Lang2Vec(5, 6, form).double()
    for weight in layer.parameters():
        torch.nn.init.normal_(weight)
    l, sources = torch.randn(4, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    scores = layer(l, sources)
    assert scores.shape == (4, 3)
    for m in range(4):
        for n in range(3):
            if form == "bilinear":
                expected = sum(
                    float(l[m, i] * layer.bilinear[i, j] * sources[n, j]) for i in range(5) for j in range(5)
                )
            else:
                expected = float(layer.value.bias)
                for k in range(6):
                    inner = float(layer.query.weight[k] @ l[m] + layer.query.bias[k])
                    inner += float(layer.key.weight[k] @ sources[n] + layer.key.bias[k])
                    expected += float(layer.value.weight[0, k]) * math.tanh(inner)
            assert float(scores[m, n]) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("features", [103, 12, 40])
def test_before_training_scores_are_the_features_that_agree(features: int) -> None:
    """W_L starts as the identity and the vectors as signs: a score is the share of agreeing features, times 8."""
    torch.manual_seed(2)
    table = (torch.rand(6, features) > 0.5).float()
    made = LanguageVectors(table[:3])
    scores = Lang2Vec(32, 6)(made(table), made(made.bank_features))
    agree = (table[:, None] == table[None, :3]).float().mean(dim=-1)  # [6, 3]
    expected = 8 * agree
    torch.testing.assert_close((scores - scores[:, :1]), (expected - expected[:, :1]), rtol=0, atol=1e-3)


def test_sources_with_the_same_features_get_the_same_scores() -> None:
    made = LanguageVectors(torch.ones(2, 9))
    scores = Lang2Vec(32, 6)(made(torch.rand(3, 9)), made(made.bank_features))
    torch.testing.assert_close(scores[:, 0], scores[:, 1])


def test_a_random_start_knows_nothing_of_likeness() -> None:
    torch.manual_seed(0)
    random = LanguageVectors(torch.ones(2, 9), start="random")
    assert not torch.equal(random.project.weight, LanguageVectors(torch.ones(2, 9)).project.weight)
    bilinear = Lang2Vec(32, 6, start="random").bilinear
    assert bilinear.std().item() == pytest.approx(0.02, rel=0.1)


def test_the_features_of_the_bank_are_not_saved() -> None:
    assert "bank_features" not in vectors().state_dict(), "the configuration of a tagger has them"

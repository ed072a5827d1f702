"""Lang2Vec: language vectors, the paper's bilinear scores and the release's additive ones, written out."""

import math

import pytest
import torch

from zgul.ensemble.lang2vec import Lang2Vec, LanguageVectors


def vectors(languages: int = 3, features: int = 7, size: int = 5) -> LanguageVectors:
    torch.manual_seed(0)
    table = (torch.rand(languages, features) > 0.5).float()
    return LanguageVectors([f"l{n}" for n in range(languages)], table, size).double()


@torch.no_grad()
def test_language_vectors_are_relu_of_a_projection() -> None:
    made = vectors()
    for row, lf in enumerate(made.features):
        for k in range(5):
            total = float(made.project.bias[k]) + sum(
                float(made.project.weight[k, j]) * float(lf[j]) for j in range(len(lf))
            )
            assert float(made()[row, k]) == pytest.approx(max(0.0, total), abs=1e-12)


def test_languages_are_added_once_and_behind_the_sources() -> None:
    made = vectors()
    before = made()
    assert made.add("l1", torch.zeros(7)) == 1, "a known language keeps its row and its features"
    assert made.add("new", torch.ones(7)) == 3 and made.add("new", torch.zeros(7)) == 3
    assert made.languages == ["l0", "l1", "l2", "new"] and made.sources == ["l0", "l1", "l2"]
    torch.testing.assert_close(made()[:3], before, rtol=0, atol=0)
    assert torch.equal(made.features[3], torch.ones(7, dtype=torch.float64))


@torch.no_grad()
@pytest.mark.parametrize("form", ["bilinear", "additive"])
def test_scores_are_those_of_the_formula(form: str) -> None:
    torch.manual_seed(1)
    layer = Lang2Vec(5, 6, form).double()
    for weight in layer.parameters():
        torch.nn.init.normal_(weight)
    l = torch.randn(4, 5, dtype=torch.float64)
    scores = layer(l, 3)
    assert scores.shape == (4, 3)
    for m in range(4):
        for n in range(3):
            if form == "bilinear":
                expected = sum(float(l[m, i] * layer.bilinear[i, j] * l[n, j]) for i in range(5) for j in range(5))
            else:
                expected = float(layer.value.bias)
                for k in range(6):
                    inner = float(layer.query.weight[k] @ l[m] + layer.query.bias[k])
                    inner += float(layer.key.weight[k] @ l[n] + layer.key.bias[k])
                    expected += float(layer.value.weight[0, k]) * math.tanh(inner)
            assert float(scores[m, n]) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("features", "size"), [(103, 32), (12, 32), (40, 7)])
def test_before_training_scores_are_the_features_that_agree(features: int, size: int) -> None:
    """W_L starts as the identity and the vectors as signs: a score is the share of agreeing features, times 8."""
    torch.manual_seed(2)
    table = (torch.rand(6, features) > 0.5).float()
    made = LanguageVectors(["a", "b", "c"], table[:3], size)
    for n in range(3, 6):
        made.add(f"t{n}", table[n])
    scores = Lang2Vec(size, 6)(made(), 3)
    agree = (table[:, None] == table[None, :3]).float().mean(dim=-1)  # [6, 3]
    expected = 8 * agree
    torch.testing.assert_close((scores - scores[:, :1]), (expected - expected[:, :1]), rtol=0, atol=1e-3)


def test_sources_with_the_same_features_get_the_same_scores() -> None:
    made = LanguageVectors(["a", "b"], torch.ones(2, 9))
    scores = Lang2Vec(32, 6)(made(), 2)
    torch.testing.assert_close(scores[:, 0], scores[:, 1])

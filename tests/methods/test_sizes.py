"""The numbers of trained parameters at mBERT's size are those that the paper and the authors' release have."""

import pytest

from zgul.methods import METHODS, MethodOptions
from zgul.methods.sizes import PARTS, RELEASE_FORMS, count_parameters


@pytest.mark.parametrize(("name", "millions"), [("sft-m", 177), ("cpg", 253)])
def test_the_papers_counts(name: str, millions: int) -> None:
    assert count_parameters(METHODS[name]).trainable / 1e6 == pytest.approx(millions, abs=1)


@pytest.mark.parametrize(("form", "millions"), [("Germanic", 40.8), ("African, Indo-Aryan", 40.2), ("Slavic", 26.0)])
def test_the_releases_counts(form: str, millions: float) -> None:
    counted = count_parameters(METHODS["zgul"], RELEASE_FORMS[form]).trainable / 1e6
    assert counted == pytest.approx(millions, abs=0.05)


def test_every_part_is_counted_once() -> None:
    sizes = count_parameters(METHODS["zgul"])
    assert sizes.trainable == sum(sizes.trained.values())
    assert set(sizes.trained) == {"W_q, W_k", "W_v", "W_L", "language vectors", "C", "task adapter", "head"}
    assert sizes.trained["W_q, W_k"] == 12 * 2 * (768 * 768 + 768) and sizes.trained["W_v"] == 12 * 768 * 768
    assert sizes.trained["W_L"] == 12 * 32 * 32 and sizes.trained["C"] == 12 * (2 * 768 * 768 + 768)
    assert set(sizes.frozen) == {"encoder", "language adapters"}
    assert sizes.frozen["encoder"] == count_parameters(METHODS["sft-m"]).trained["encoder"]
    for name in METHODS:
        counted = count_parameters(METHODS[name])
        assert set(counted.trained) | set(counted.frozen) <= set(PARTS.values())


def test_what_is_left_out_is_not_counted() -> None:
    assert "W_L" not in count_parameters(METHODS["zgul-no-l"]).trained
    assert "language vectors" not in count_parameters(METHODS["zgul-no-l"]).trained
    assert "W_q, W_k" not in count_parameters(METHODS["zgul-no-f"]).trained
    low_rank = count_parameters(METHODS["zgul"], MethodOptions(encoder_rank=8))
    assert 0 < low_rank.trained["encoder"] < 10e6


def test_the_papers_equations_counted_by_hand() -> None:
    """What we train by default has 40.18M: nothing that the equations name is left out."""
    d, layers, labels, features, vector = 768, 12, 17, 103, 32
    fusion = 2 * (d * d + d) + d * d  # W_q and W_k with bias, W_v without, as the release has them
    combine = 2 * d * d + d
    task = 2 * d * (d // 3) + d + d // 3
    layer = fusion + vector * vector + combine + task
    by_hand = layers * layer + (features + 1) * vector + (d + 1) * labels
    assert count_parameters(METHODS["zgul"]).trainable == by_hand == 40_176_657

"""Products in parts against float64; needs Triton, and a GPU or its interpreter (TRITON_INTERPRET=1)."""

import os

import pytest
import torch

from zgul import devices, graphs, products

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(
    not devices.TRITON or not (torch.cuda.is_available() or INTERPRETED),
    reason="needs Triton (it comes with torch for CUDA) and a GPU, or TRITON_INTERPRET=1",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("matrix", [False, True])
def test_the_parts_are_tf32_and_together_nearly_everything(matrix):
    from zgul import tf32

    x = random(6, 40) * 10 ** random(6, 40, seed=1)
    parts = tf32.split(x, 40, matrix=matrix).view(6, 3, 40)
    assert not (parts.view(torch.int32) & 0x1FFF).any()
    high, low = parts[:, 2], parts[:, 1 if matrix else 0]
    assert torch.equal(parts[:, 0 if matrix else 1], high)
    assert ((high.double() + low.double() - x.double()).abs() <= 2.0**-22 * x.abs().double()).all()


def test_what_is_no_number_stays_none():
    from zgul import tf32

    x = torch.tensor([0x7FFFFFFF, 0x7FC00000, -1], dtype=torch.int32).view(torch.float32).to(DEVICE)
    assert tf32.split(x, 3, matrix=False).isnan().all()


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("k", [64, 768, 3072, 1031])
def test_a_product_is_as_good_as_one_in_float32(k, by_columns):
    from zgul import tf32

    x, matrix, bias = random(3, 200, k), random(96, k, seed=1), random(96, seed=2)
    exact = torch.nn.functional.linear(x.double(), matrix.double(), bias.double())
    laid = matrix.t().contiguous().t() if by_columns else matrix
    plain = torch.nn.functional.linear(x, matrix, bias)
    assert error(tf32.linear(x, laid, bias), exact) <= max(4 * error(plain, exact), 4e-6)
    torch.testing.assert_close(tf32.linear(x, laid, None), tf32.linear(x, laid, bias) - bias, rtol=1e-4, atol=1e-3)


def test_stacked_products_are_as_good_as_in_float32():
    from zgul import tf32

    x, matrices, bias = random(300, 4, 96), random(4, 96, 72, seed=1), random(4, 72, seed=2)
    exact = torch.einsum("mjk,jkn->jmn", x.double(), matrices.double())
    assert error(tf32.stacked(x, matrices, None), exact) <= 4e-6
    assert error(tf32.stacked(x, matrices, bias), exact + bias.double()[:, None]) <= 4e-6


@ON_GPU
def test_large_products_are_made_in_parts_and_small_ones_by_torch(monkeypatch):
    from zgul import tf32

    calls = []
    monkeypatch.setattr(tf32, "linear", lambda x, matrix, bias: calls.append(len(x)) or x @ matrix.t())
    matrix = random(128, 64)
    launched, replayed = products.LARGE >> 13, products.LARGE_IN_GRAPH >> 13
    for rows in (launched, launched - 1, replayed):
        products.linear(random(rows, 64), matrix)
    with graphs.recording():
        for rows in (replayed, replayed - 1):
            products.linear(random(rows, 64), matrix)
        products.linear(random(1 << 20, 16), random(1024, 16))
        with products.plain():
            products.linear(random(replayed, 64), matrix)
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            products.linear(random(replayed, 64), matrix)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
    assert calls == [launched, replayed]


@ON_GPU
def test_the_gradient_is_as_good_as_in_float32():
    matrix, matrices, bias = random(96, 80), random(4, 80, 96, seed=1), random(4, 96, seed=2)
    gradients = []
    for plainly in (False, True):
        x = random(products.LARGE_IN_GRAPH >> 12, 4, 80, seed=3).requires_grad_()
        with products.plain() if plainly else graphs.recording():
            total = products.linear(x, matrix).square().sum()
            total = total + sum(u.square().sum() for u in products.products(x, matrices, bias))
            gradients.append(torch.autograd.grad(total, x)[0])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=2e-2)
    assert not torch.backends.cuda.matmul.allow_tf32

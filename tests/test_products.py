"""Fast products against torch's own, which are the reference: the same numbers, the same gradients."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

from small_tagger import MADE, small_tagger
from zgul import products
from zgul.ensemble.em import EMConfig


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """oneDNN also on an Intel CPU."""
    monkeypatch.setattr(products, "_vendor", lambda: "AuthenticAMD")
    products._prefers_onednn.cache_clear()
    if not products._prefers_onednn():
        pytest.skip("oneDNN is not in this torch, or this is no x86 CPU")
    yield
    products._prefers_onednn.cache_clear()


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(0, 40),
    k=st.integers(1, 70),
    n=st.integers(1, 70),
    biased=st.booleans(),
    by_columns=st.booleans(),
    batched=st.booleans(),
    strided=st.booleans(),
)
def test_a_product_is_that_of_torch(rows, k, n, biased, by_columns, batched, strided):
    x = random(rows, 2 * k)[:, :k] if strided else random(rows, k)
    x = x[None] if batched else x
    matrix, bias = random(n, k, seed=1), random(n, seed=2) if biased else None
    found = products.linear(x, products.by_columns(matrix) if by_columns else matrix, bias)
    close(found, F.linear(x, matrix, bias))
    assert found.is_contiguous()


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 5, 7), (0, 5, 7)])
def test_sums_and_stacks_of_products_are_those_of_torch(shape):
    rows, k, n = shape
    base, x, matrix = random(2, rows, n), random(2, rows, k, seed=1), random(k, n, seed=2)
    close(products.plus_product(base, x, matrix), base + x @ matrix)
    stacked, matrices, bias = random(rows, 4, k), random(4, k, n, seed=1), random(4, n, seed=2)
    found = products.products(stacked, matrices, bias)
    assert len(found) == 4
    close(torch.stack(found), torch.einsum("mjk,jkn->jmn", stacked, matrices) + bias[:, None])


def test_the_gradient_is_that_of_torch():
    matrix, bias, matrices = random(7, 5), random(7, seed=1), random(3, 5, 7, seed=2)
    gradients = []
    for plainly in (False, True):
        x = random(6, 3, 5, seed=3).requires_grad_()
        with products.plain() if plainly else torch.enable_grad():
            total = products.linear(x, matrix, bias).square().sum()
            total = total + products.plus_product(x.sum(dim=-1, keepdim=True).expand(-1, -1, 7), x, matrix.t()).sum()
            total = total + sum(u.square().sum() for u in products.products(x, matrices, random(3, 7)))
            gradients.append(torch.autograd.grad(total, x)[0])
    close(*gradients)


@pytest.mark.parametrize("then", [F.relu, F.gelu, torch.tanh])
@pytest.mark.parametrize("wanted", [False, True], ids=["", "gradient"])
def test_an_activation_inside_of_a_product_is_that_of_torch(then, wanted):
    x, matrix, bias = random(6, 5).requires_grad_(wanted), random(7, 5, seed=1), random(7, seed=2)
    close(products.linear(x, matrix, bias, then), then(F.linear(x, matrix, bias)))
    module = nn.Linear(5, 7).requires_grad_(False)
    close(products.through(module, x, then), then(module(x)))
    close(products.through(nn.Sequential(module), x, then), then(module(x)))


def test_what_is_trained_gets_its_gradient():
    """From torch, which has one for the matrix."""
    for trained in ("weight", "bias"):
        module = nn.Linear(5, 7).requires_grad_(False)
        getattr(module, trained).requires_grad_()
        products.through(module, random(6, 5)).sum().backward()
        assert getattr(module, trained).grad.abs().sum() > 0


def test_other_types_and_autocast_are_left_to_torch(monkeypatch):
    def refused(*_):
        raise LookupError

    monkeypatch.setattr(products, "_onednn", refused)
    x, matrix = random(6, 5), random(7, 5)
    assert products.linear(x.double(), matrix.double()).dtype == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert products.linear(x, matrix).dtype == torch.bfloat16
    with products.plain():
        assert torch.equal(products.linear(x, matrix), F.linear(x, matrix))
    with pytest.raises(LookupError):
        products.linear(x, matrix)


def test_plain_ends_with_its_block_whatever_happens():
    with pytest.raises(KeyError), products.plain():
        raise KeyError
    x = random(6, 5)
    assert products._way(x, x, None) is not None


def test_a_module_that_only_looks_linear_is_asked_itself():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    module = Doubled(5, 7).requires_grad_(False)
    x = random(6, 5)
    close(products.through(module, x), 2 * F.linear(x, module.weight, module.bias))


def test_a_module_that_was_changed_is_asked_itself():
    x, seen = random(6, 5), []
    heard, pruned, patched = (nn.Linear(5, 7).requires_grad_(False) for _ in range(3))
    heard.register_forward_hook(lambda *_: seen.append(1))
    products.through(heard, x)
    assert seen == [1]
    prune.l1_unstructured(pruned, "weight", 0.5)
    close(products.through(pruned, x), pruned(x))
    patched.forward = lambda x: x + 1
    assert torch.equal(products.through(patched, x), x + 1)


def test_a_bias_may_lie_anywhere():
    x, matrix = random(6, 5), random(7, 5, seed=1)
    for bias in (random(14)[::2], torch.zeros(1).expand(7)):
        close(products.linear(x, matrix, bias), x @ matrix.t() + bias)


def test_what_is_traced_or_has_no_numbers_is_left_to_torch():
    matrix = random(7, 5, seed=1)
    traced = torch.jit.trace(lambda x: products.linear(x, matrix), random(6, 5))
    close(traced(random(3, 5)), F.linear(random(3, 5), matrix))
    assert products.linear(torch.empty(6, 5, device="meta"), matrix.to("meta")).shape == (6, 7)


def test_plain_batches_are_not_rounded():
    assert products.compiled(torch.device("cpu")) and not products.compiled(torch.device("cuda"))
    with products.plain():
        assert not products.compiled(torch.device("cpu"))


@pytest.mark.parametrize("vendor", ["GenuineIntel", "AuthenticAMD"])
def test_intel_keeps_its_own_library(monkeypatch, vendor):
    monkeypatch.setattr(products, "_vendor", lambda: vendor)
    products._prefers_onednn.cache_clear()
    x = random(6, 5)
    assert (products._way(x, x, None) is None) == (vendor == "GenuineIntel")


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_a_torch_without_this_door_to_onednn_goes_on_with_its_own(monkeypatch, error):
    def closed(*_):
        raise error

    monkeypatch.setattr(products, "_onednn", closed)
    products._prefers_onednn.cache_clear()
    x = random(6, 5)
    close(products.linear(x, x), x @ x.t())


def test_matrices_in_columns_are_the_same_matrices():
    matrices = random(3, 4, 5)
    turned = products.by_columns(matrices)
    assert torch.equal(turned, matrices) and turned[0].stride() == (1, 4)


@pytest.mark.parametrize("size", [2, 16], ids=["narrow", "wide"])
@pytest.mark.parametrize("steps", [0, 3])
def test_a_tagger_says_the_same_with_and_without(size, steps):
    tagger = small_tagger(size=size).fold()
    sentences = [sentence for source in MADE.sources for sentence in MADE.sentences(source, 4)]
    found = [tagger.predict(sentences, em=EMConfig(steps=steps, lr=0.5), weights=True)]
    with products.plain():
        found.append(tagger.predict(sentences, em=EMConfig(steps=steps, lr=0.5), weights=True))
    for fast, plain in zip(*found, strict=True):
        torch.testing.assert_close(fast.probabilities, plain.probabilities, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(fast.weights, plain.weights, rtol=1e-4, atol=1e-5)


def test_threads_may_be_chosen_before_a_tagger_is_folded():
    """MKL never came back from inverting a stack of large matrices after torch.set_num_threads."""
    code = """
import torch
torch.set_num_threads(2)
from zgul.adapters.bank import Bank, LanguageAdapter
from zgul.ensemble.lang2vec import LanguageVectors
from zgul.ensemble.weighting import ZGUL, Folded
adapters = [LanguageAdapter.new(language, 768, 2) for language in ("a", "b", "c", "d")]
source = ZGUL(LanguageVectors("abcd", torch.ones(4, 3), 2), width=768, depth=2)
folded = Folded(source)
folded.multiply(Bank(adapters, width=768, depth=2))
print(folded.wide, folded.condition < 100)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["True", "True"], done.stderr

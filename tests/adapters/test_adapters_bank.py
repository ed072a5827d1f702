"""The bank against slow loops over single adapters."""

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from zgul.adapters.bank import AdapterOutputs, Bank
from zgul.adapters.language_adapter import ACTIVATIONS, Bottleneck, Invertible, LanguageAdapter, select_adapters
from zgul.errors import ZgulError

WIDTH, DEPTH = 12, 3


def random_adapter(
    language: str,
    sizes: list[int] | int = 6,
    activation: str = "relu",
    *,
    seed: int = 0,
    invertible: bool = False,
    standardise: bool = False,
    width: int = WIDTH,
) -> LanguageAdapter:
    sizes = [sizes] * DEPTH if isinstance(sizes, int) else sizes
    layers = [Bottleneck(width, size, activation, standardise) for size in sizes]
    block = Invertible(width, activation=activation) if invertible else None
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in [*layers, *([block] if block else [])]:
            for parameter in module.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return LanguageAdapter(language, layers, block)


@st.composite
def adapters(draw: st.DrawFn) -> list[LanguageAdapter]:
    """One to four adapters of mixed sizes, activations, norms, even of other sizes in each layer."""
    invertible = draw(st.booleans())
    return [
        random_adapter(
            f"l{n}",
            draw(st.lists(st.integers(1, 9), min_size=DEPTH, max_size=DEPTH)),
            draw(st.sampled_from(sorted(ACTIVATIONS))),
            seed=draw(st.integers(0, 99)),
            invertible=invertible,
            standardise=draw(st.booleans()),
        )
        for n in range(draw(st.integers(1, 4)))
    ]


def hidden(batch: int = 2, length: int = 5, seed: int = 7) -> torch.Tensor:
    return torch.randn(batch, length, WIDTH, generator=torch.Generator().manual_seed(seed))


def outputs(found: AdapterOutputs) -> torch.Tensor:
    """u_n of every adapter [N, ..., d], by mixtures of one."""
    count = len(found.up)
    chosen = torch.eye(count, dtype=found.a.dtype).expand(*found.a.shape[:-2], count, count)
    return torch.stack([found.mix(chosen[..., n, :]) for n in range(count)])


def assert_is(bank: Bank, expected: list[LanguageAdapter]) -> None:
    """Every layer of the bank computes what the single adapters do, one by one."""
    assert bank.languages == [adapter.language for adapter in expected] and len(bank) == len(expected)
    h, query = hidden(), hidden(seed=8)
    for i in range(DEPTH):
        u = outputs(bank(i, h))
        assert u.shape == (len(expected), *h.shape)
        assert_close(bank(i, h).dot(query), torch.einsum("btd,nbtd->btn", query, u), rtol=1e-4, atol=1e-3)
        for n, adapter in enumerate(expected):
            layer = adapter.layers[i]
            for b in range(h.shape[0]):
                for t in range(h.shape[1]):
                    x = h[b, t]
                    if layer.standardise:
                        x = (x - x.mean()) / (x.var(unbiased=False) + 1e-5).sqrt()
                    inner = ACTIVATIONS[layer.activation](layer.down.weight @ x + layer.down.bias)
                    assert_close(u[n, b, t], layer.up.weight @ inner + layer.up.bias, rtol=1e-4, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(adapters())
def test_a_mixed_bank_equals_its_adapters_one_by_one(members: list[LanguageAdapter]) -> None:
    assert_is(Bank(members, width=WIDTH, depth=DEPTH), members)


@settings(max_examples=25, deadline=None)
@given(adapters(), st.integers(0, 99))
def test_mixtures_are_weighted_sums(members: list[LanguageAdapter], seed: int) -> None:
    found = Bank(members, width=WIDTH, depth=DEPTH)(1, hidden())
    weights = torch.rand(2, 5, len(members), generator=torch.Generator().manual_seed(seed)).softmax(dim=-1)
    expected = torch.einsum("btn,nbtd->btd", weights, outputs(found))
    assert_close(found.mix(weights), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(adapters())
def test_groups_go_through_their_own_adapter(members: list[LanguageAdapter]) -> None:
    bank = Bank(members, width=WIDTH, depth=DEPTH)
    h = hidden(len(members), 4)
    for i in range(DEPTH):
        own = bank.grouped(i, h)
        for n in range(len(members)):
            assert_close(own[n], members[n].layers[i](h[n]), rtol=1e-4, atol=1e-4)


def test_extract_gives_the_weights_as_trained_and_a_copy() -> None:
    narrow = random_adapter("sw", 2, "gelu", invertible=True)
    members = [random_adapter("en", 6, invertible=True), narrow]
    bank = Bank(members, width=WIDTH, depth=DEPTH).requires_grad_(True)
    optimiser = torch.optim.SGD(bank.parameters(), lr=0.1)
    h = hidden()
    losses = [outputs(bank(i, bank.invert(h, None))).square().mean() for i in range(DEPTH)]
    torch.stack(losses).sum().backward()
    optimiser.step()
    trained = [bank.extract(language) for language in bank.languages]
    assert_is(bank, trained)
    assert not torch.equal(trained[1].layers[0].down.weight, narrow.layers[0].down.weight)
    assert not torch.equal(trained[0].invertible.f_up.weight, members[0].invertible.f_up.weight)
    before = outputs(bank(0, h))
    with torch.no_grad():
        trained[0].layers[0].up.weight.zero_()
    assert torch.equal(outputs(bank(0, h)), before)


def test_padding_of_narrow_adapters_stays_zero_in_training() -> None:
    bank = Bank([random_adapter("en", 6), random_adapter("am", 2, "gelu")], width=WIDTH, depth=DEPTH)
    bank.requires_grad_(True)
    outputs(bank(0, hidden())).square().sum().backward()
    assert bank.down.grad is not None and bank.up.grad is not None
    assert not bank.down.grad[0, 1, 2:].any() and not bank.up.grad[0, 1, 2:].any()
    assert bank.down.grad[0, 1, :2].any() and bank.up.grad[0, 1, :2].any()


def test_two_banks_made_of_one_adapter_are_apart() -> None:
    shared = random_adapter("en", invertible=True)
    first, second = (Bank([shared], width=WIDTH, depth=DEPTH) for _ in range(2))
    kept = copy.deepcopy(second.state_dict())
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.zero_()
    first.extract("en")
    for name, value in second.state_dict().items():
        assert torch.equal(value, kept[name])


def test_a_bank_in_double_precision() -> None:
    members = [
        random_adapter("en", 2, "gelu", invertible=True),
        random_adapter("de", 5, standardise=True, invertible=True),
    ]
    bank = Bank(members, width=WIDTH, depth=DEPTH).double()
    x = hidden().double()
    assert outputs(bank(0, x)).dtype == torch.float64 == bank.invert(x, None).dtype
    assert_close(outputs(bank(0, x))[1], members[1].layers[0].double()(x), rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.sampled_from(sorted(ACTIVATIONS)), st.integers(0, 12))
def test_the_invertible_block_is_undone(half: int, activation: str, size: int) -> None:
    block = Invertible(2 * half, size, activation).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(std=0.5)
    x = torch.randn(2, 3, 2 * half, dtype=torch.float64)
    y = block(x)
    assert not torch.allclose(y, x)
    assert_close(block.inverse(y), x, rtol=1e-9, atol=1e-9)


def test_the_invertible_block_by_its_formula() -> None:
    block = random_adapter("en", invertible=True).invertible
    assert block is not None
    x = hidden()
    x1, x2 = x[..., : WIDTH // 2], x[..., WIDTH // 2 :]
    y1 = x1 + block.f_up(torch.relu(block.f_down(x2)))
    y2 = x2 + block.g_up(torch.relu(block.g_down(y1)))
    assert_close(block(x), torch.cat([y1, y2], dim=-1))


def test_invertible_blocks_first_and_mixed() -> None:
    members = [random_adapter(code, seed=n, invertible=True) for n, code in enumerate("abc")]
    bank = Bank(members, width=WIDTH, depth=DEPTH)
    x = hidden()
    assert_close(bank.invert(x, None), members[0].invertible(x))
    weights = torch.rand(2, 5, 3).softmax(dim=-1)
    slow = sum(weights[..., n, None] * members[n].invertible(x) for n in range(3))
    assert_close(bank.invert(x, weights), slow)
    tied = weights[:, :1]
    assert_close(bank.invert(x, tied), bank.invert(x, tied.expand(2, 5, 3)))


def test_a_new_adapter_changes_nothing() -> None:
    new = LanguageAdapter.new("fo", WIDTH, DEPTH, size=2, activation="gelu_new", invertible=True)
    assert (new.sizes, new.width, new.activation, new.standardise) == ([2] * DEPTH, WIDTH, "gelu_new", False)
    assert LanguageAdapter.new("fo", WIDTH, DEPTH).sizes == [WIDTH // 2] * DEPTH, "half the width by default"
    bank = Bank([new], width=WIDTH, depth=DEPTH)
    x = hidden()
    assert not outputs(bank(1, x)).any()
    assert torch.equal(bank.invert(x, None), x)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: random_adapter("fo", width=WIDTH + 2, invertible=True), "width 14; this encoder has 3 of width 12"),
        (lambda: random_adapter("fo", [6, 6], invertible=True), "an encoder of 2 layers of width 12"),
        (lambda: random_adapter("en", invertible=True), "There are two language adapters for en"),
        (lambda: random_adapter("fo"), "fo have no invertible block"),
    ],
)
def test_what_does_not_fit_together_is_refused(other: Callable[[], LanguageAdapter], message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        Bank([random_adapter("en", invertible=True), other()], width=WIDTH, depth=DEPTH)


def test_an_adapter_that_is_not_in_the_bank() -> None:
    bank = Bank([random_adapter("en"), random_adapter("de", 2)], width=WIDTH, depth=DEPTH)
    with pytest.raises(ZgulError, match=r"no adapter for 'fo'\. It holds: en, de\."):
        bank.extract("fo")


def test_without_invertible_blocks_invert_says_so() -> None:
    bank = Bank([random_adapter("en")], width=WIDTH, depth=DEPTH)
    with pytest.raises(ZgulError, match="invertible='off'"):
        bank.invert(hidden(), None)


def test_selected_adapters_keep_the_order_asked_for() -> None:
    members = [random_adapter(code) for code in ("en", "de", "is")]
    assert [adapter.language for adapter in select_adapters(members, ["is", "en"])] == ["is", "en"]
    with pytest.raises(ZgulError, match="no language adapter for fo, sv, only for: en, de, is"):
        select_adapters(members, ["fo", "en", "sv"])

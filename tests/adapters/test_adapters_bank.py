"""The bank against slow loops over single adapters."""

import copy
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from zgul.adapters.bank import Bank, LanguageAdapter, subset
from zgul.adapters.bottleneck import ACTIVATIONS, Bottleneck, Invertible
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


def assert_is(bank: Bank, expected: list[LanguageAdapter]) -> None:
    """Every layer of the bank computes what the single adapters do, one by one."""
    assert bank.languages == [adapter.language for adapter in expected]
    h = hidden()
    for i in range(DEPTH):
        u = torch.stack(bank(i, h).outputs)
        assert u.shape == (len(expected), *h.shape)
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
@given(adapters(), st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=6))
def test_adding_and_removing_in_any_order(members: list[LanguageAdapter], moves: list[tuple[bool, int]]) -> None:
    bank = Bank(members, width=WIDTH, depth=DEPTH)
    expected = list(members)
    for step, (add, pick) in enumerate(moves):
        if add:
            new = random_adapter(
                f"new{step}",
                1 + pick,
                sorted(ACTIVATIONS)[pick % 3],
                invertible=members[0].invertible is not None,
            )
            bank.add(new)
            expected.append(new)
        elif len(expected) > 1:
            bank.remove(expected.pop(pick % len(expected)).language)
    assert_is(bank, expected)
    assert all(not parameter.requires_grad for parameter in bank.parameters())


@settings(max_examples=25, deadline=None)
@given(adapters(), st.randoms())
def test_groups_go_through_their_own_adapter_or_through_a_given_one(
    members: list[LanguageAdapter], random: Random
) -> None:
    bank = Bank(members, width=WIDTH, depth=DEPTH)
    h = hidden(len(members), 4)
    order = list(range(len(members)))
    random.shuffle(order)
    for i in range(DEPTH):
        own, other = bank.grouped(i, h), bank.grouped(i, h, torch.tensor(order))
        for n in range(len(members)):
            assert_close(own[n], members[n].layers[i](h[n]), rtol=1e-4, atol=1e-4)
            assert_close(other[n], members[order[n]].layers[i](h[n]), rtol=1e-4, atol=1e-4)


def test_extract_gives_the_weights_as_trained_and_a_copy() -> None:
    narrow = random_adapter("sw", 2, "gelu", invertible=True)
    members = [random_adapter("en", 6, invertible=True), narrow]
    bank = Bank(members, width=WIDTH, depth=DEPTH).requires_grad_(True)
    optimiser = torch.optim.SGD(bank.parameters(), lr=0.1)
    h = hidden()
    sum(torch.stack(bank(i, bank.invert(h, None)).outputs).square().mean() for i in range(DEPTH)).backward()  # type: ignore[union-attr]
    optimiser.step()
    trained = [bank.extract(language) for language in bank.languages]
    assert_is(bank, trained)
    assert not torch.equal(trained[1].layers[0].down.weight, narrow.layers[0].down.weight)
    assert not torch.equal(trained[0].invertible.f_up.weight, members[0].invertible.f_up.weight)
    before = torch.stack(bank(0, h).outputs)
    with torch.no_grad():
        trained[0].layers[0].up.weight.zero_()
    assert torch.equal(torch.stack(bank(0, h).outputs), before)


def test_padding_of_narrow_adapters_stays_zero_in_training() -> None:
    bank = Bank([random_adapter("en", 6), random_adapter("am", 2, "gelu")], width=WIDTH, depth=DEPTH)
    bank.requires_grad_(True)
    torch.stack(bank(0, hidden()).outputs).square().sum().backward()
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


def test_a_bank_keeps_its_precision_when_it_grows() -> None:
    bank = Bank([random_adapter("en", invertible=True)], width=WIDTH, depth=DEPTH).double()
    bank.add(random_adapter("de", 3, invertible=True))
    assert {parameter.dtype for parameter in bank.parameters()} == {torch.float64}
    assert bank(0, hidden().double()).outputs[0].dtype == torch.float64


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.sampled_from(sorted(ACTIVATIONS)), st.sampled_from([1, 1.5, 2, 3]))
def test_the_invertible_block_is_undone(half: int, activation: str, reduction: float) -> None:
    block = Invertible(2 * half, reduction, activation).double()
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
    new = LanguageAdapter.new("fo", WIDTH, DEPTH, reduction=5, activation="gelu_new", invertible=True)
    assert (new.size, new.width, new.activation) == (2, WIDTH, "gelu_new")
    bank = Bank([new], width=WIDTH, depth=DEPTH)
    x = hidden()
    assert not torch.stack(bank(1, x).outputs).any()
    assert torch.equal(bank.invert(x, None), x)


def test_what_does_not_fit_is_refused_and_the_bank_stays_as_it_was() -> None:
    members = [random_adapter("en", invertible=True), random_adapter("de", 2, invertible=True)]
    bank = Bank(members, width=WIDTH, depth=DEPTH)
    wide = random_adapter("fo", width=WIDTH + 2, invertible=True)
    with pytest.raises(ZgulError, match="width 14; this encoder has 3 of width 12"):
        bank.add(wide)
    with pytest.raises(ZgulError, match="two language adapters for en"):
        bank.add(random_adapter("en", invertible=True))
    with pytest.raises(ZgulError, match="fo have no invertible block"):
        bank.add(random_adapter("fo"))
    with pytest.raises(ZgulError, match="no adapter for 'fo'; it holds: en, de"):
        bank.remove("fo")
    assert_is(bank, members)


def test_without_invertible_blocks_invert_says_so() -> None:
    bank = Bank([random_adapter("en")], width=WIDTH, depth=DEPTH)
    with pytest.raises(ZgulError, match="invertible='off'"):
        bank.invert(hidden(), None)


def test_subset_keeps_the_order_and_names_what_is_missing() -> None:
    members = [random_adapter(code) for code in ("en", "de", "is")]
    assert [adapter.language for adapter in subset(members, ["is", "en"])] == ["is", "en"]
    with pytest.raises(ZgulError, match="no language adapter for fo, sv; there are: en, de, is"):
        subset(members, ["fo", "en", "sv"])

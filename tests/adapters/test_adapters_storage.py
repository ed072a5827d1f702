"""Several language adapters in one file of our own."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from zgul import tensors
from zgul.adapters.bank import LanguageAdapter
from zgul.adapters.bottleneck import ACTIVATIONS, Bottleneck, Invertible
from zgul.adapters.storage import load_adapters, save_adapters
from zgul.errors import ZgulError

WIDTH = 14


def make(language: str, sizes: list[int], activation: str, standardise: bool, inverse: float | None) -> LanguageAdapter:
    layers = [Bottleneck(WIDTH, size, activation, standardise) for size in sizes]
    block = Invertible(WIDTH, inverse, activation) if inverse else None
    with torch.no_grad():
        for module in [*layers, *([block] if block else [])]:
            for parameter in module.parameters():
                parameter.normal_()
    return LanguageAdapter(language, layers, block, {"made": "here"})


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 9), min_size=2, max_size=2),
            st.sampled_from(sorted(ACTIVATIONS)),
            st.booleans(),
            st.sampled_from([None, 1.2, 2, 3]),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_every_kind_of_adapter_comes_back(tmp_path_factory: pytest.TempPathFactory, kinds: list) -> None:  # type: ignore[type-arg]
    saved = [make(f"l{n}", *kind) for n, kind in enumerate(kinds)]
    path = tmp_path_factory.mktemp("bank") / "bank.safetensors"
    save_adapters(path, saved)
    x = torch.randn(3, WIDTH)
    for before, after in zip(saved, load_adapters(path), strict=True):
        assert (after.language, after.about) == (before.language, before.about)
        for a, b in zip(before.layers, after.layers, strict=True):
            assert torch.equal(a(x), b(x))
        assert (before.invertible is None) == (after.invertible is None)
        if before.invertible is not None and after.invertible is not None:
            assert torch.equal(before.invertible(x), after.invertible(x))


@pytest.mark.parametrize(("bits", "tolerance"), [(16, 2e-2), (8, 4e-2)])
def test_fewer_bits_are_near(tmp_path: Path, bits: int, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "SMALL", 0)  # its matrices are
    torch.manual_seed(0)
    adapter = make("en", [4, 4], "relu", False, 2)
    sizes = []
    for kept in (32, bits):
        save_adapters(tmp_path / "bank.safetensors", [adapter], bits=kept)
        sizes.append((tmp_path / "bank.safetensors").stat().st_size)
    assert sizes[1] < sizes[0] or bits == 8, "coded matrices as small as these are not smaller"
    x = torch.randn(3, WIDTH)
    assert_close(
        load_adapters(tmp_path / "bank.safetensors")[0].layers[0](x), adapter.layers[0](x), rtol=0.1, atol=tolerance
    )


def test_files_that_hold_none_or_half(tmp_path: Path) -> None:
    path = tmp_path / "bank.safetensors"
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ZgulError, match="holds no language adapters"):
        load_adapters(path)
    save_adapters(path, [make("en", [4, 4], "relu", False, 2)])
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    whole = load_file(path)
    for change in ("en.1.down.bias", "en.0.up.weight", "en.invertible.f_down.bias"):
        save_file({key: value for key, value in whole.items() if key != change}, path, metadata=metadata)
        with pytest.raises(ZgulError, match="the language adapter 'en' is incomplete"):
            load_adapters(path)
    save_file({**whole, "en.0.up.weight": torch.zeros(3, 3)}, path, metadata=metadata)
    with pytest.raises(ZgulError, match="the language adapter 'en' is incomplete"):
        load_adapters(path)

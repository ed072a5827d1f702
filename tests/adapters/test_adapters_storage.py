"""Several language adapters in one file of our own, and the places where adapters are looked for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from family import family, tiny_encoder
from zgul import tensors
from zgul.adapters.adapterhub import write_adapter
from zgul.adapters.language_adapter import ACTIVATIONS, Bottleneck, Invertible, LanguageAdapter
from zgul.adapters.storage import checksum, find_adapters, load_adapters, save_adapters, shipped_adapters
from zgul.errors import ZgulError

WIDTH = 14


def make(language: str, sizes: list[int], activation: str, standardise: bool, inverse: int) -> LanguageAdapter:
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
            st.sampled_from([0, 1, 3, 5]),
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
        assert (after.language, after.about, after.sizes) == (before.language, before.about, before.sizes)
        assert (before.invertible is None) == (after.invertible is None)
        blocks = [(before.invertible, after.invertible)] if before.invertible is not None else []
        for a, b in [*zip(before.layers, after.layers, strict=True), *blocks]:
            assert all(torch.equal(value, b.state_dict()[name]) for name, value in a.state_dict().items())
            assert_close(a(x), b(x))


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


def test_files_that_hold_none(tmp_path: Path) -> None:
    path = tmp_path / "bank.safetensors"
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ZgulError, match="holds no language adapters"):
        load_adapters(path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bank") / "bank.safetensors"
    save_adapters(path, [make("en", [4, 4], "relu", False, 2)])
    return path


Damage = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: {name: value for name, value in whole.items() if name != "en.1.down.bias"},
        lambda whole: {name: value for name, value in whole.items() if name != "en.0.up.weight"},
        lambda whole: {name: value for name, value in whole.items() if name != "en.invertible.f_down.bias"},
        lambda whole: whole | {"en.0.up.weight": torch.zeros(3, 3)},
        lambda whole: whole | {"en.0.up.bias": torch.zeros(WIDTH + 1)},
        lambda whole: whole | {"en.0.more": torch.zeros(1)},
        lambda whole: whole | {"en.0.down.bias": torch.zeros(())},
    ],
)
def test_tensors_that_do_not_fit(saved: Path, tmp_path: Path, damage: Damage) -> None:
    with safe_open(saved, "pt") as file:
        notes = file.metadata()
    save_file(damage(load_file(saved)), tmp_path / "bank.safetensors", metadata=notes)
    with pytest.raises(ZgulError, match=r"bank\.safetensors is damaged: its language adapters cannot be read"):
        load_adapters(tmp_path / "bank.safetensors")


def described(saved: Path, **values: Any) -> str:
    with safe_open(saved, "pt") as file:
        (info,) = json.loads(file.metadata()["adapters"])
    return json.dumps([{name: value for name, value in (info | values).items() if value != "gone"}])


@pytest.mark.parametrize(
    "notes",
    [
        lambda saved: "null",
        lambda saved: "{",
        lambda saved: "3",
        lambda saved: "[{}]",
        lambda saved: "[3]",
        lambda saved: '{"en": {}}',
        lambda saved: "[" * 100_000,
        lambda saved: described(saved, language="gone"),
        lambda saved: described(saved, about="gone"),
        lambda saved: described(saved, language=5),
        lambda saved: described(saved, language="de"),
        lambda saved: described(saved, width="14"),
        lambda saved: described(saved, width=10**9),
        lambda saved: described(saved, depth=3),
        lambda saved: described(saved, depth=10**12),
        lambda saved: described(saved, depth=0),
        lambda saved: described(saved, depth=-1),
        lambda saved: described(saved, activation="swish"),
        lambda saved: described(saved, standardise=1),
        lambda saved: described(saved, invertible=None),
        lambda saved: described(saved, about=[]),
    ],
)
def test_descriptions_that_do_not_fit(saved: Path, tmp_path: Path, notes: Callable[[Path], str]) -> None:
    save_file(load_file(saved), tmp_path / "bank.safetensors", metadata={"adapters": notes(saved)})
    with pytest.raises(ZgulError, match=r"bank\.safetensors is damaged: its language adapters cannot be read"):
        load_adapters(tmp_path / "bank.safetensors")


def test_a_small_file_asks_for_little_memory(saved: Path, tmp_path: Path) -> None:
    """Two vectors that together stand for a matrix of ten gigabytes, which is not there."""
    vectors = {"en.0.up.bias": torch.zeros(50_000), "en.0.down.bias": torch.zeros(50_000)}
    save_file(load_file(saved) | vectors, tmp_path / "bank", metadata={"adapters": described(saved, width=50_000)})
    with pytest.raises(ZgulError, match="cannot be read"):
        load_adapters(tmp_path / "bank")


# --- checksums


def test_the_checksum_is_of_everything_that_is_computed_with() -> None:
    torch.manual_seed(0)
    adapters = [make("en", [4, 4], "relu", False, 2), make("de", [3, 3], "gelu", True, 2)]
    first = checksum(adapters)
    assert checksum(adapters[::-1]) == first, "the order does not matter"
    adapters[0].about["made"] = "there"
    assert checksum(adapters) == first, "nor does what is said about them"
    adapters[0].language = "is"
    assert checksum(adapters) != first
    adapters[0].language = "en"
    with torch.no_grad():
        adapters[1].layers[1].up.weight[0, 0] += 1e-6
    assert checksum(adapters) != first


# --- finding


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, LanguageAdapter]]:
    """A folder with our own file, AdapterHub's folders and others; and what was put there."""
    folder = tmp_path_factory.mktemp("places")
    torch.manual_seed(1)
    made = {language: make(language, [4, 4], "relu", False, None) for language in ("en", "is", "de", "fo")}
    save_adapters(folder / "mixed" / "two.safetensors", [made["en"], made["fo"]])
    tensors.save_tensors(folder / "mixed" / "head.safetensors", {"w": torch.zeros(2)})
    write_adapter(made["is"], folder / "mixed" / "is", model_type="bert")
    write_adapter(made["de"], folder / "alone", model_type="bert")
    (folder / "empty").mkdir()
    return folder, made


def test_adapters_are_found_wherever_they_lie(places: tuple[Path, dict[str, LanguageAdapter]]) -> None:
    folder, made = places
    encoder = tiny_encoder(family(0), width=16)[0]
    found = find_adapters(f"{folder / 'mixed'}, {folder / 'alone'}", ["is", "de", "en"], encoder, "")
    assert [adapter.language for adapter in found] == ["is", "de", "en"], "fo was not asked for"
    for adapter in found:
        assert torch.equal(adapter.layers[1].up.weight, made[adapter.language].layers[1].up.weight)
    file = find_adapters(str(folder / "mixed" / "two.safetensors"), ["fo"], encoder, "")
    assert file[0].language == "fo"
    new = find_adapters(f"{folder / 'alone'},new", ["sw", "de"], encoder, "")
    assert new[0].width == 16 and torch.equal(new[1].layers[0].up.weight, made["de"].layers[0].up.weight)


@pytest.mark.parametrize(
    ("place", "languages", "message"),
    [
        ("mixed", ["en", "cs"], "There is no language adapter for cs, only for: en"),
        ("empty", ["en"], r"holds no language adapters of en\. Train one with: zgul adapter train"),
        ("nowhere", ["en"], r"No language adapters at '.*nowhere'\. Give shipped, new, a file or folder"),
    ],
)
def test_adapters_that_are_nowhere(
    places: tuple[Path, dict[str, LanguageAdapter]], place: str, languages: list[str], message: str
) -> None:
    with pytest.raises(ZgulError, match=message):
        find_adapters(str(places[0] / place), languages, tiny_encoder(family(0), width=16)[0], "")


def test_shipped_adapters_come_from_a_folder_that_may_be_chosen(
    places: tuple[Path, dict[str, LanguageAdapter]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = places[1]
    save_adapters(tmp_path / "adapters.safetensors", [made["en"], made["is"]])
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))
    assert [adapter.language for adapter in shipped_adapters()] == ["en", "is"]
    assert [adapter.language for adapter in shipped_adapters(["is"])] == ["is"]
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path / "nowhere"))
    with pytest.raises(ZgulError, match=r"adapters are missing\. Install the package again"):
        shipped_adapters()

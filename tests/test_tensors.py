"""Tensors on disk: full, 16-bit and 8-bit; whatever is broken is refused with its name."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from zgul.errors import ZgulError
from zgul.tensors import load_tensors, load_with_metadata, read_json, save_tensors, write_json


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([32, 16, 8]),
    st.lists(st.integers(1, 6), min_size=0, max_size=4),
    st.floats(-4, 4),
    st.integers(0, 1000),
)
def test_values_come_back_within_their_precision(tmp_path_factory, bits: int, shape: list[int], size: float, seed: int):
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 10**size
    path = tmp_path_factory.mktemp("t") / "t.safetensors"
    save_tensors(path, {"t": tensor}, bits=bits)
    (loaded,) = load_tensors(path).values()
    assert loaded.dtype == torch.float32 and loaded.shape == tensor.shape
    error = (loaded - tensor).abs()
    if bits == 32:
        assert torch.equal(loaded, tensor)
    elif bits == 16 or tensor.dim() < 2:
        assert (error <= tensor.abs() * 2**-11 + 2**-25).all()
    else:  # half a step of 1/127 of the row's largest, and what the 16-bit scale of 127 steps rounds
        largest = tensor.abs().amax(dim=-1, keepdim=True)
        assert (error <= largest * (0.5 / 127 + 2**-10) + 1e-5).all()


def test_zeros_integers_and_other_tensors_are_exact_in_every_form(tmp_path: Path) -> None:
    tensors = {"zero": torch.zeros(3, 4), "ids": torch.arange(10), "mask": torch.tensor([True, False])}
    for bits in (32, 16, 8):
        save_tensors(tmp_path / "t", tensors, bits=bits)
        for name, value in load_tensors(tmp_path / "t").items():
            assert torch.equal(value, tensors[name]), (bits, name)


def test_fewer_bits_take_less_room_and_notes_are_kept(tmp_path: Path) -> None:
    tensor = torch.randn(200, 200)
    for bits in (32, 16, 8):
        save_tensors(tmp_path / str(bits), {"t": tensor}, bits=bits, metadata={"by": "test"})
    sizes = [(tmp_path / str(bits)).stat().st_size for bits in (32, 16, 8)]
    assert sizes[0] > 1.9 * sizes[1] > 3.6 * sizes[2]
    assert load_with_metadata(tmp_path / "8")[1] == {"by": "test"}


def test_numbers_too_large_for_16_bits_are_noticed(tmp_path: Path) -> None:
    """Not silently turned into infinity: the file cannot be loaded, and says why."""
    save_tensors(tmp_path / "t", {"big": torch.tensor([1e6])}, bits=16)
    with pytest.raises(ZgulError, match="big holds numbers that are not finite"):
        load_tensors(tmp_path / "t")


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_refused(tmp_path: Path, bad: float) -> None:
    save_file({"fine": torch.zeros(2), "w": torch.tensor([[0.0, bad]])}, tmp_path / "t")
    with pytest.raises(ZgulError, match="w holds numbers that are not finite; this file is damaged"):
        load_tensors(tmp_path / "t")


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save_tensors(path, {"t": torch.randn(5, 5)})
    whole = path.read_bytes()
    for length in range(0, len(whole), 17):
        path.write_bytes(whole[:length])
        with pytest.raises(ZgulError, match="is not a complete safetensors file"):
            load_tensors(path)
    path.unlink()
    with pytest.raises(ZgulError, match="no such file"):
        load_tensors(path)


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"é": [1, 2.5]})
    assert read_json(path) == {"é": [1, 2.5]} and "é" in path.read_text(encoding="utf-8")
    for content, message in (
        (b"{", "not valid JSON"),
        (b"[1]", "must hold a JSON object"),
        (b"\xff", "not valid JSON"),
    ):
        path.write_bytes(content)
        with pytest.raises(ZgulError, match=message):
            read_json(path)
    path.unlink()
    with pytest.raises(ZgulError, match="no such file"):
        read_json(path)

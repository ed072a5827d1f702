"""Tensors on disk: full, 16-bit and coded; whatever is broken is refused with its name."""

import json
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from zgul.errors import ZgulError
from zgul.tensors import CODED, Coded, load_coded, load_tensors, load_with_metadata, quantise, save_tensors

FORMS = [32, 16, *CODED]


def steps(rows: torch.Tensor, bits: int) -> torch.Tensor:
    """The largest step that a row may have: by its root mean square or, where an outlier needs it, by its largest."""
    rms = rows.double().square().mean(dim=-1, keepdim=True).sqrt() * 4.14 * 2.0**-bits
    return torch.maximum(rms, rows.double().abs().amax(dim=-1, keepdim=True) * 1.01 / (2 ** (bits + 2) - 1)) * 1.005


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(FORMS),
    st.lists(st.integers(1, 6), min_size=0, max_size=4),
    st.sampled_from([0, 1, 10**9]),
    st.floats(-4, 4),
    st.integers(0, 1000),
)
def test_values_come_back_within_their_precision(
    tmp_path_factory: pytest.TempPathFactory, bits: int, shape: list[int], small: int, size: float, seed: int
) -> None:
    """Odd shapes, one row, one column; with ``small`` 0 or 1 everything that may be coded is."""
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 10**size
    path = tmp_path_factory.mktemp("t") / "t.safetensors"
    save_tensors(path, {"t": tensor}, bits=bits, small=small)
    (loaded,) = load_tensors(path).values()
    assert loaded.dtype == torch.float32 and loaded.shape == tensor.shape
    error = (loaded - tensor).abs()
    if bits == 32:
        assert torch.equal(loaded, tensor)
    elif bits == 16 or tensor.dim() < 2 or tensor.numel() < small:
        assert (error <= tensor.abs() * 2**-11 + 2**-25).all()
    else:
        assert (error <= 0.5 * steps(tensor, bits) * (1 + 1e-6)).all()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(CODED), st.floats(-30, 34), st.integers(0, 300), st.integers(0, 99))
def test_coded_rows_stand_alone_and_bear_outliers(
    tmp_path_factory: pytest.TempPathFactory, bits: int, size: float, ratio: int, seed: int
) -> None:
    """Rows of any size, a row of zeros, and one number that is far larger than the others of its row."""
    rows = torch.randn(4, 1500, generator=torch.Generator().manual_seed(seed))
    rows[0] *= 10**size
    rows[1] = 0
    rows[2, 7] = ratio
    path = tmp_path_factory.mktemp("t") / "t.safetensors"
    save_tensors(path, {"t": rows}, bits=bits)
    loaded = load_tensors(path)["t"]
    assert ((loaded - rows).abs() <= 0.5 * steps(rows, bits) * (1 + 1e-6) + 1e-30).all()
    assert torch.equal(loaded[1], rows[1])
    alone = path.with_name("alone")
    save_tensors(alone, {"t": rows[3:].repeat(4, 1)}, bits=bits)
    assert torch.equal(load_tensors(alone)["t"][:1], loaded[3:]), "other rows do not matter"


@pytest.mark.parametrize("bits", CODED)
def test_coded_numbers_take_the_bits_they_say(tmp_path: Path, bits: int) -> None:
    rows = torch.randn(300, 1000, generator=torch.Generator().manual_seed(0))
    save_tensors(tmp_path / "t", {"t": rows}, bits=bits)
    # with few bits, Huffman's codes of whole bits cost a little
    assert (tmp_path / "t").stat().st_size * 8 / rows.numel() == pytest.approx(bits, abs=0.2 if bits < 5 else 0.1)
    assert (load_tensors(tmp_path / "t")["t"] - rows).square().mean().sqrt() == pytest.approx(
        4.13 * 2.0**-bits / 12**0.5, rel=0.02
    )


def test_an_identity_with_noise_is_coded_finer_than_by_its_largest_number(tmp_path: Path) -> None:
    """What folded matrices look like: a scale by the largest number of a row wastes its 8 bits on the diagonal."""
    rows = torch.eye(300) + 0.01 * torch.randn(300, 300, generator=torch.Generator().manual_seed(0))
    scale = rows.abs().amax(dim=-1, keepdim=True) / 127
    save_tensors(tmp_path / "t", {"t": rows}, bits=8)
    assert (tmp_path / "t").stat().st_size < rows.numel() * 1.02
    ours = (load_tensors(tmp_path / "t")["t"] - rows).square().mean().sqrt()
    assert ours < 0.2 * ((rows / scale).round() * scale - rows).square().mean().sqrt()


def test_zeros_integers_and_other_tensors_are_exact_in_every_form(tmp_path: Path) -> None:
    tensors = {
        "zero": torch.zeros(3, 4),
        "zeros": torch.zeros(80, 90),
        "none": torch.zeros(0, 7),
        "ids": torch.arange(10),
        "mask": torch.tensor([True, False]),
        "w.step": torch.ones(2),  # named like a part of a coded tensor
    }
    for bits in FORMS:
        save_tensors(tmp_path / "t", tensors, bits=bits)
        loaded = load_tensors(tmp_path / "t")
        assert set(loaded) == set(tensors)
        for name, value in loaded.items():
            assert torch.equal(value, tensors[name]), (bits, name)


def test_fewer_bits_take_less_room_and_notes_are_kept(tmp_path: Path) -> None:
    tensor = torch.randn(200, 200)
    for bits in (32, 16, 8):
        save_tensors(tmp_path / str(bits), {"t": tensor}, bits=bits, metadata={"by": "test"})
    sizes = [(tmp_path / str(bits)).stat().st_size for bits in (32, 16, 8)]
    assert sizes[0] > 1.9 * sizes[1] > 3.6 * sizes[2]
    assert load_with_metadata(tmp_path / "8")[1] == {"by": "test"}


def test_forms_that_are_not() -> None:
    with pytest.raises(ZgulError, match="32 or 16 bits, or coded in 2 to 12, not in 1"):
        save_tensors(Path("t"), {}, bits=1)


@pytest.mark.parametrize("bits", [16, 9])
def test_numbers_too_large_for_16_bits_are_refused(tmp_path: Path, bits: int) -> None:
    """Not silently turned into infinity."""
    with pytest.raises(ZgulError, match=r"big holds numbers too large for 16 bits\. Save .* in 32"):
        save_tensors(tmp_path / "t", {"big": torch.tensor([1e6])}, bits=bits)
    assert not (tmp_path / "t").exists()
    save_tensors(tmp_path / "t", {"big": torch.tensor([1e6])})
    assert load_tensors(tmp_path / "t")["big"] == 1e6


def test_only_what_shares_its_memory_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, alone = torch.randn(6, 4), torch.arange(5)
    tensors = {"whole": whole, "same": whole, "part": whole[2:4], "turned": whole.t(), "alone": alone}
    copied: list[int] = []
    clone = torch.Tensor.clone
    monkeypatch.setattr(torch.Tensor, "clone", lambda self: copied.append(self.numel()) or clone(self))
    save_tensors(tmp_path / "t", tensors)
    assert copied == [24, 8]
    loaded = load_tensors(tmp_path / "t")
    assert all(torch.equal(loaded[name], value) for name, value in tensors.items())


@pytest.mark.parametrize("bits", [32, 16, 9])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_not_saved(tmp_path: Path, bits: int, bad: float) -> None:
    (tmp_path / "t").write_text("before")
    tensor = torch.zeros(80, 90)
    tensor[3, 4] = bad
    with pytest.raises(ZgulError, match=r"w holds numbers that are not finite\. .* was not written"):
        save_tensors(tmp_path / "t", {"w": tensor}, bits=bits)
    assert (tmp_path / "t").read_text() == "before"


def _without(parts: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key: value for key, value in parts.items() if key != name}


@pytest.mark.parametrize(
    ("damage", "note"),
    [
        (lambda parts: _without(parts, "w.step"), None),
        (lambda parts: _without(parts, "w.high"), None),
        (lambda parts: parts | {"w.high": parts["w.high"][:-100]}, None),
        (lambda parts: parts | {"w.high": torch.full_like(parts["w.high"], 7)}, None),
        (lambda parts: parts | {"w.low": parts["w.low"][:-1]}, None),
        (lambda parts: parts | {"w.step": parts["w.step"][:-1]}, None),
        (lambda parts: parts | {"w.low": parts["w.low"].float()}, None),
        (lambda parts: parts | {"w.high": parts["w.high"].int()}, None),
        (lambda parts: parts | {"w.step": parts["w.step"].float() * torch.nan}, None),
        (lambda parts: parts, '{"w": [9, 91]}'),
        (lambda parts: parts, '{"w": [13, 90]}'),
        (lambda parts: parts, '{"w": ["9", 90]}'),
        (lambda parts: parts, '{"w": [9, 0]}'),
        (lambda parts: parts, '{"w": [9, -90]}'),
        (lambda parts: parts, '{"w": [9, 90.0]}'),
        (lambda parts: parts, '{"w": [9, 1000000000000]}'),
        (lambda parts: parts, '{"v": [9, 90]}'),
        (lambda parts: parts, "null"),
        (lambda parts: parts, "[" * 100_000),
        (lambda parts: parts, '{"w": 9}'),
        (lambda parts: parts, "[1]"),
        (lambda parts: parts, "{"),
    ],
)
def test_coded_tensors_that_are_damaged(
    tmp_path: Path, damage: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], note: str | None
) -> None:
    save_tensors(tmp_path / "t", {"w": torch.randn(80, 90)}, bits=9)
    save_file(damage(load_file(tmp_path / "t")), tmp_path / "t", metadata={"zgul.coded": note or '{"w": [9, 90]}'})
    with pytest.raises(
        ZgulError, match=r"is damaged: its coded tensors cannot be read|w holds numbers that are not fin"
    ):
        load_tensors(tmp_path / "t")


@pytest.mark.parametrize(
    "header",
    [
        {"w": ("F32", [1] * 100_000, 4)},
        {"w": ("F32", [0, 2**62, 2**62], 0)},
        {"w": ("F32", [0, 2**64 - 1], 0)},
        {str(n): ("F32", [0], 0) for n in range(25_000)},
        {"w": ("F6_E2M3", [8], 6)},
        {"w": ("C64", [1], 8)},
        {"w": ("F8_E8M0", [4], 4)},
    ],
    ids=["dimensions", "no numbers", "a size", "tensors", "6 bits", "complex", "8 bits"],
)
def test_headers_that_make_no_sense_are_refused_at_once(
    tmp_path: Path, header: dict[str, tuple[str, list[int], int]]
) -> None:
    entries = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
        for name, (dtype, shape, size) in header.items()
    }
    text = json.dumps(entries).encode()
    size = max(size for _, _, size in header.values())
    (tmp_path / "t").write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))
    started = time.process_time()
    with pytest.raises(ZgulError, match=r"not a complete safetensors file|which zgul does not read"):
        load_tensors(tmp_path / "t")
    assert time.process_time() - started < 1.5


@pytest.mark.parametrize(("bits", "low", "columns"), [(9, 64 * 90 // 2, 90), (9, 64 * 90 // 2, 10**8), (2, 0, 1 << 21)])
def test_a_small_file_takes_little_memory_whatever_it_announces(
    tmp_path: Path, bits: int, low: int, columns: int
) -> None:
    """128 kilobytes in deflated form stand for 128 megabytes of zeros. In 2 bits there are no lower bits to count."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    bomb = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(1 << 7)) + deflate.flush()
    parts = {
        "w.step": torch.ones(64, dtype=torch.bfloat16),
        "w.high": torch.frombuffer(bytearray(bomb), dtype=torch.uint8),
        "w.low": torch.zeros(low, dtype=torch.uint8),
    }
    save_file(parts, tmp_path / "t", metadata={"zgul.coded": json.dumps({"w": [bits, columns]})})
    tracemalloc.start()
    try:
        with pytest.raises(ZgulError, match="are announced"):
            load_tensors(tmp_path / "t")
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_numbers_of_8_bits_are_refused(tmp_path: Path, kind: torch.dtype) -> None:
    save_file({"w": torch.zeros(3).to(kind)}, tmp_path / "t")
    with pytest.raises(ZgulError, match=r"w is of the type torch\.float8_.*, which zgul does not read"):
        load_tensors(tmp_path / "t")


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_other_types_come_back_as_they_were(tmp_path: Path, kind: torch.dtype) -> None:
    tensor = torch.arange(6).view(2, 3).to(kind)
    save_tensors(tmp_path / "t", {"w": tensor})
    loaded = load_tensors(tmp_path / "t")["w"]
    assert loaded.dtype == kind and torch.equal(loaded, tensor)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_refused(tmp_path: Path, bad: float) -> None:
    save_file({"fine": torch.zeros(2), "w": torch.tensor([[0.0, bad]])}, tmp_path / "t")
    with pytest.raises(ZgulError, match=r"w holds numbers that are not finite\. The file is damaged"):
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


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(CODED), st.lists(st.integers(1, 9), min_size=2, max_size=3), st.integers(0, 999))
def test_coded_matrices_are_kept_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, bits: int, shape: list[int], seed: int
) -> None:
    """A file that is read and written again in coded form loses nothing more."""
    coded = quantise(torch.randn(shape, generator=torch.Generator().manual_seed(seed)), bits)
    path = tmp_path_factory.mktemp("t") / "t"
    save_tensors(path, {"w": coded, "b": torch.ones(3)}, metadata={"by": "test"})
    stored, notes = load_coded(path)
    again = stored["w"]
    assert isinstance(again, Coded) and again.bits == bits and notes == {"by": "test"}
    assert torch.equal(again.codes, coded.codes) and torch.equal(again.step, coded.step)
    assert torch.equal(load_tensors(path)["w"], coded.decoded())
    save_tensors(path.with_name("u"), stored, bits=9, metadata=notes)
    assert torch.equal(load_tensors(path.with_name("u"))["w"], coded.decoded()), "whatever the other bits are"

"""The 4-bit file gives the same encoder and tokenizer, and other values are refused rather than rounded."""

import json
import resource
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from zgul import encoders
from zgul.devices import shared_copy
from zgul.encoders import embedded
from zgul.encoders.encoder import Encoder
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError

Loaded = tuple[Encoder, PieceTokenizer]


@pytest.fixture(scope="module")
def pruned() -> Loaded:
    """The embedded encoder with hardly any pieces but single characters."""
    encoder, tokenizer = encoders.load("embedded")
    return encoders.prune(encoder, tokenizer, encoders.pieces_used(tokenizer, ["Hesturinn", "stendur"]))


@pytest.fixture(scope="module")
def saved(pruned: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("q4") / "small.q4.safetensors"
    encoders.save_q4(*pruned, path)
    return path


def test_the_4_bit_file_gives_the_same_encoder(pruned: Loaded, saved: Path) -> None:
    encoder, tokenizer = encoders.load(saved)
    expected = pruned[0].state_dict()
    assert encoder.config == pruned[0].config and encoder.state_dict().keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in encoder.state_dict().items())
    assert tokenizer.backend.to_str() == pruned[1].backend.to_str()
    for role in ("begin", "end", "pad", "unknown", "mask"):
        assert getattr(tokenizer, role) == getattr(pruned[1], role)
    # 4.5 bits a weight: 12.1 MB of layers, 0.8 MB of positions, 216 bytes a piece, and the pieces themselves
    assert saved.stat().st_size < 13_000_000 + 245 * encoder.config.vocabulary + 100_000


def test_trained_encoders_are_not_rounded(pruned: Loaded, tmp_path: Path) -> None:
    encoder, tokenizer = pruned
    outer = encoder.layers[3].outer
    changed = shared_copy(outer)
    changed.weight = torch.nn.Parameter(outer.weight.detach().clone())
    with torch.no_grad():
        changed.weight[7, 7] += 1e-3
    trained = shared_copy(encoder, {outer: changed})
    with pytest.raises(ZgulError, match=r"encoder\.layer\.3\.output\.dense\.weight .*Save it as a folder"):
        encoders.save_q4(trained, tokenizer, tmp_path / "x.q4.safetensors")
    assert not list(tmp_path.iterdir())


def test_names_of_4_bit_files_have_a_suffix(pruned: Loaded, tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match=r"ends in \.q4\.safetensors"):
        encoders.save_q4(*pruned, tmp_path / "x.bin")


def test_bad_4_bit_files(tmp_path: Path) -> None:
    path = tmp_path / "x.q4.safetensors"
    with pytest.raises(ZgulError, match="no such file"):
        encoders.load(path)
    path.write_bytes(b"not this")
    with pytest.raises(ZgulError, match="not a complete safetensors file"):
        encoders.load(path)
    save_file({"a": torch.zeros(1)}, path, metadata={"format": "pt"})
    with pytest.raises(ZgulError, match="not a 4-bit encoder of this version"):
        encoders.load(path)


Tensors = dict[str, torch.Tensor]


PANIC = b'{"added_tokens": [], "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}'

MANY = b'{"added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "vocab": [' + b'["a", 0.0], ' * 2_000_000


def packed(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(zlib.compress(data)), dtype=torch.uint8)


def change(notes: dict[str, str], **values: object) -> dict[str, str]:
    return notes | {"config": json.dumps(json.loads(notes["config"]) | values)}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda tensors, notes: (tensors, {"format": embedded.FORMAT}), "is damaged .*config"),
        (lambda tensors, notes: (tensors, notes | {"config": "{"}), "is damaged"),
        (lambda tensors, notes: (tensors, notes | {"config": "[]"}), "is damaged"),
        (lambda tensors, notes: (tensors, change(notes, num_hidden_layers=13)), "says 13 layers"),
        (lambda tensors, notes: (tensors, change(notes, hidden_size=None)), "hidden_size in config.json is None"),
        (
            lambda tensors, notes: (tensors | {"tokenizer.json.zlib": torch.zeros(9, dtype=torch.uint8)}, notes),
            "is dam",
        ),
        (lambda tensors, notes: (tensors | {"tokenizer.json.zlib": packed(bytes(300_000_000))}, notes), "is damaged"),
        (lambda tensors, notes: (tensors | {"tokenizer.json.zlib": packed(PANIC)}, notes), "is damaged"),
        (lambda tensors, notes: ({k: v for k, v in tensors.items() if "zlib" not in k}, notes), "is damaged"),
        (lambda tensors, notes: (tensors | {"tokenizer.json.zlib": packed(MANY)}, notes), "unpacks to far more"),
        (lambda tensors, notes: ({k: v for k, v in tensors.items() if "1.output" not in k}, notes), "is damaged"),
        (lambda tensors, notes: ({k: v for k, v in tensors.items() if "nibbles" not in k}, notes), "is damaged"),
    ],
)
def test_damaged_contents(
    saved: Path, tmp_path: Path, damage: Callable[..., tuple[Tensors, dict[str, str]]], message: str
) -> None:
    with safe_open(saved, "pt") as file:
        notes = file.metadata()
    tensors, metadata = damage(load_file(saved), notes)
    path = tmp_path / "x.q4.safetensors"
    save_file(tensors, path, metadata=metadata)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ZgulError, match=message):
        encoders.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


SCALES = st.floats(-100, 100, width=16)


@given(st.lists(st.tuples(SCALES, st.binary(min_size=16, max_size=16)), min_size=1, max_size=8))
def test_quantising_what_was_dequantised_is_exact(blocks: list[tuple[float, bytes]]) -> None:
    scales = np.array([scale for scale, _ in blocks], np.float16)
    nibbles = np.stack([np.frombuffer(packed, np.uint8) for _, packed in blocks])
    values = embedded.from_q4(scales, nibbles)
    quantised = embedded.to_q4(values)
    assert quantised is not None and np.array_equal(embedded.from_q4(*quantised), values)


def test_other_values_cannot_be_quantised() -> None:
    assert embedded.to_q4(np.linspace(0, 1, 32, dtype=np.float32)[None]) is None
    assert embedded.to_q4(np.full((1, 32), np.float32(np.nan))) is None
    assert embedded.to_q4(np.full((1, 32), np.float32(1e9))) is None

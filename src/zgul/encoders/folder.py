"""Encoders in Hugging Face's form: a folder, the Hugging Face cache, or the hub.

A folder holds ``config.json``, ``model.safetensors`` (perhaps in several files with an index) or ``pytorch_model.bin``,
and ``tokenizer.json``. Code that comes with a model is never run, and pickles are read with ``weights_only``.
"""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from zgul.encoders.encoder import Encoder, state_for_hub, state_from_hub
from zgul.encoders.hub_config import config_for_hub, config_from_hub
from zgul.encoders.tokenizer import FILE as TOKENIZER
from zgul.encoders.tokenizer import SPECIALS_FILE, PieceTokenizer
from zgul.errors import ZgulError
from zgul.json_files import read_json, write_json
from zgul.tensors import save_tensors

CONFIG, WEIGHTS, INDEX, PICKLED = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)


def load_folder(folder: Path) -> tuple[Encoder, PieceTokenizer]:
    """An encoder in float32 and its tokenizer."""
    try:
        config = config_from_hub(read_json(folder / CONFIG), str(folder))
        tokenizer = PieceTokenizer.from_folder(folder)
        tensors = state_from_hub(_read_weights(folder), config.depth)
        _check_shapes(tensors, config.width, config.vocabulary, folder)
        encoder = Encoder(config)
        encoder.load_state_dict({name: value.float() for name, value in tensors.items()}, strict=True, assign=True)
    except (OSError, ValueError, RuntimeError, SafetensorError, struct.error) as error:
        raise ZgulError(
            f"{folder} holds no complete encoder ({_first_line(error)}). It needs {CONFIG}, {WEIGHTS} and {TOKENIZER}, "
            "as save_pretrained of a transformers model and its tokenizer writes them."
        ) from error
    return encoder.requires_grad_(False).eval(), tokenizer


def load_from_hub(name: str) -> tuple[Encoder, PieceTokenizer]:
    """An encoder by its name on the Hugging Face hub. The local copy is preferred: it needs no network."""
    try:
        try:
            folder = _download(name, local=True)
        except FileNotFoundError:  # what huggingface_hub's own error for this is
            folder = _download(name, local=False)
    except Exception as error:  # huggingface_hub's own errors, and those of the HTTP library it uses
        raise ZgulError(
            f"No encoder called {name!r}. Tried: a folder of that name, the Hugging Face cache, and the hub "
            f"({_first_line(error)}). Check the spelling (such as 'embedded', 'xlm-roberta-base' or "
            "'bert-base-multilingual-cased'). A download needs a network, and HF_HUB_OFFLINE must be unset."
        ) from error
    return load_folder(folder)


def save_folder(encoder: Encoder, tokenizer: PieceTokenizer, folder: Path) -> None:
    """Write an encoder in a form that `load_folder` and transformers read."""
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(folder / WEIGHTS, state_for_hub(encoder), metadata={"format": "pt"})
    tokenizer.save(folder)
    write_json(folder / CONFIG, config_for_hub(encoder.config))


def _download(name: str, *, local: bool) -> Path:
    """The folder in the Hugging Face cache with the files of a model."""
    from huggingface_hub import hf_hub_download  # takes half a second, and most users never need it
    from huggingface_hub.errors import EntryNotFoundError

    def fetch(file: str, *, optional: bool = True) -> Path | None:
        try:
            return Path(hf_hub_download(name, file, local_files_only=local))
        except EntryNotFoundError:  # a file that is not in the local copy counts as one
            if not optional:
                raise
            return None

    config = fetch(CONFIG, optional=False)
    assert config is not None
    fetch(TOKENIZER)
    fetch(SPECIALS_FILE)
    if fetch(WEIGHTS) is None:
        index = fetch(INDEX)
        parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values() if index else [PICKLED]
        for part in sorted(set(parts)):
            fetch(part, optional=False)
    return config.parent


def _read_weights(folder: Path) -> dict[str, Tensor]:
    if (folder / WEIGHTS).is_file():
        return dict(load_file(folder / WEIGHTS))
    if (folder / INDEX).is_file():
        parts: Any = read_json(folder / INDEX).get("weight_map", {})
        tensors: dict[str, Tensor] = {}
        for part in sorted({Path(str(name)).name for name in parts.values()}):
            tensors |= load_file(folder / part)
        return tensors
    if not (folder / PICKLED).is_file():
        raise OSError(f"no {WEIGHTS}")
    try:
        loaded = torch.load(folder / PICKLED, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise ZgulError(
            f"{folder / PICKLED} is a pickle that holds more than numbers, and loading it could run code. "
            f"Ask for a {WEIGHTS}."
        ) from error
    return dict(loaded)


def _check_shapes(tensors: dict[str, Tensor], width: int, vocabulary: int, folder: Path) -> None:
    """Compare the sizes in config.json with the weights before memory is taken for them."""
    words = tensors.get("words.weight")
    if words is None or list(words.shape) != [vocabulary, width]:
        held = "none" if words is None else " × ".join(map(str, words.shape))
        raise ValueError(f"{CONFIG} says {vocabulary} pieces of width {width}, the word embeddings are {held}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

"""Encoders in Hugging Face's form: a folder, the Hugging Face cache, or the hub.

A folder holds ``config.json``, ``model.safetensors`` (or several files with an index) or ``pytorch_model.bin``, and
``tokenizer.json``. Code that comes with a model is never run, and pickles are read with ``weights_only``.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from zgul.encoders.encoder import Encoder, EncoderConfig, state_for_hub
from zgul.encoders.modern import MODERN, ModernEncoder, modern_config, rotary_of
from zgul.encoders.tokenizer import MAX_TABLE, SPECIALS_FILE, TOKENIZER, PieceTokenizer
from zgul.errors import ZgulError, first_line
from zgul.files import read_json, write_json
from zgul.tensors import load_pickled, map_tensors, save_tensors

CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
INDEX = f"{WEIGHTS}.index.json"
# All have the layout that adapters need: embeddings, then layers of attention and feed-forward.
CLASSES = {
    "bert": "Bert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert",
    MODERN: "ModernBert",
}
MAX_BYTES = 15_000_000_000  # of the weights of an encoder, in one file or in many together
LARGEST = 10_000_000  # limit of each size in a configuration; larger ones are mistakes, or attacks on the memory
_SIZES = {  # our field -> key in config.json, default
    "vocabulary": ("vocab_size", None),
    "width": ("hidden_size", None),
    "depth": ("num_hidden_layers", None),
    "heads": ("num_attention_heads", None),
    "inner": ("intermediate_size", None),
    "positions": ("max_position_embeddings", 512),
    "types": ("type_vocab_size", 2),
    "pad": ("pad_token_id", None),
}
_PADS = {"bert": 0, MODERN: 50283}  # pad_token_id if config.json does not say; 1 for the others


def load_folder(folder: Path) -> tuple[Encoder, PieceTokenizer]:
    """Load an encoder in float32 and its tokenizer."""
    try:
        config = config_from_hub(read_json(folder / CONFIG), str(folder))
        tokenizer = PieceTokenizer.from_folder(folder)
        if tokenizer.backend.get_vocab_size() > config.vocabulary:
            raise ValueError(f"{TOKENIZER} has more pieces than {CONFIG} says, {config.vocabulary}")
        kind = ModernEncoder if config.rotary else Encoder
        return kind.from_hub(config, _read_weights(folder)).float(), tokenizer
    except (OSError, ValueError, RuntimeError) as error:
        needed = f"It needs {CONFIG}, {WEIGHTS} and {TOKENIZER}, as save_pretrained of transformers writes them"
        raise ZgulError(f"{folder} holds no complete encoder ({first_line(error)}). {needed}.") from error


def load_from_hub(name: str) -> tuple[Encoder, PieceTokenizer]:
    """Load an encoder by its name on the Hugging Face hub. A local copy comes first, because it needs no network."""
    try:
        try:
            folder = _download(name, local=True)
        except FileNotFoundError:  # huggingface_hub's own error is a subclass of it
            folder = _download(name, local=False)
    except ZgulError:
        raise
    except Exception as error:  # huggingface_hub's own errors, and those of the HTTP library it uses
        tried = f"Tried: a folder of that name, the Hugging Face cache, and the hub ({first_line(error)})"
        advice = "Check the spelling (such as 'xlm-roberta-base'). A download needs a network, and HF_HUB_OFFLINE unset"
        raise ZgulError(f"No encoder called {name!r}. {tried}. {advice}.") from error
    return load_folder(folder)


def save(encoder: Encoder, tokenizer: PieceTokenizer, folder: Path) -> None:
    """Write an encoder in a form that `load_folder` and transformers read."""
    save_tensors(folder / WEIGHTS, state_for_hub(encoder), metadata={"format": "pt"})
    tokenizer.save(folder)
    write_json(folder / CONFIG, config_for_hub(encoder.config))


def config_from_hub(values: Mapping[str, Any], name: str = "the encoder") -> EncoderConfig:
    """Check and convert the contents of a ``config.json``."""
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in CLASSES:
        raise ZgulError(f"{name} is of the type {model_type!r}. zgul works with {', '.join(CLASSES)}.")
    if (kind := values.get("position_embedding_type", "absolute")) != "absolute":
        raise ZgulError(f"{name} has {kind!r} positions. zgul supports absolute ones only.")
    sizes: dict[str, int] = {}
    for field, (key, default) in _SIZES.items():
        value = values.get(key, _PADS.get(model_type, 1) if field == "pad" else default)
        if type(value) is not int or not int(field != "pad") <= value <= LARGEST:
            raise ZgulError(f"{name}: {key} in config.json is {value!r}, not a whole number up to {LARGEST:,}")
        sizes[field] = value
    if sizes["width"] % sizes["heads"]:
        raise ZgulError(f"{name}: hidden_size is no multiple of num_attention_heads in config.json")
    modern = model_type == MODERN
    first = 0 if modern or model_type == "bert" else sizes["pad"] + 1
    if sizes["positions"] - first < 3:  # two special pieces and one of a word
        raise ZgulError(f"{name}: max_position_embeddings in config.json leaves no room for a word")
    key, usual = ("norm_eps", 1e-5) if modern else ("layer_norm_eps", 1e-12)
    eps = values.get(key, usual)
    if type(eps) not in (int, float) or not 0 < eps < 1:
        raise ZgulError(f"{name}: {key} in config.json is {eps!r}, not a small number")
    return EncoderConfig(
        **sizes,
        eps=float(eps),
        activation=str(values.get("hidden_activation" if modern else "hidden_act", "gelu")),
        first_position=first,
        model_type=model_type,
        rotary=rotary_of(values, sizes["depth"], name) if modern else (),
    )


def config_for_hub(config: EncoderConfig) -> dict[str, Any]:
    """The contents of a ``config.json`` from which transformers builds the same encoder."""
    own = {"layer_norm_eps": config.eps, "hidden_act": config.activation, "type_vocab_size": config.types}
    return {
        "model_type": config.model_type,
        "architectures": [f"{CLASSES[config.model_type]}Model"],
        **{key: getattr(config, field) for field, (key, _) in _SIZES.items() if field != "types"},
        **(modern_config(config) if config.rotary else own),
    }


def _download(name: str, *, local: bool) -> Path:
    """The folder in the Hugging Face cache with the files of a model."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url  # half a second, for few users
    from huggingface_hub.errors import EntryNotFoundError

    endpoint = os.environ.get("HF_ENDPOINT")

    def fetch(*files: str, most: int = MAX_TABLE) -> list[Path]:
        """Fetch files, unless together they are too large."""
        if not local:
            sizes = [get_hf_file_metadata(hf_hub_url(name, file, endpoint=endpoint)).size for file in files]
            if None in sizes or sum(sizes) > most:
                held = "an unknown number of" if None in sizes else sum(sizes)
                these = " to ".join(dict.fromkeys((files[0], files[-1])))
                raise ZgulError(f"{name} has {held} bytes in {these}; at most {most:,} are fetched.")
        return [Path(hf_hub_download(name, file, local_files_only=local, endpoint=endpoint)) for file in files]

    def fetch_optional(file: str, most: int = MAX_TABLE) -> list[Path] | None:
        try:
            return fetch(file, most=most)
        except EntryNotFoundError:  # also raised if the file is not in the local copy
            return None

    (config,) = fetch(CONFIG)
    fetch_optional(TOKENIZER)
    fetch_optional(SPECIALS_FILE)
    if fetch_optional(WEIGHTS, MAX_BYTES) is None:
        index = fetch_optional(INDEX)
        parts = json.loads(index[0].read_text(encoding="utf-8"))["weight_map"].values() if index else [PICKLED]
        fetch(*sorted(set(parts)), most=MAX_BYTES)
    return config.parent


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the tensors of a folder."""
    if (folder / WEIGHTS).is_file():
        return map_tensors(folder / WEIGHTS)[0]
    if not (folder / INDEX).is_file():
        if not (folder / PICKLED).is_file():
            raise OSError(f"no {WEIGHTS}")
        return load_pickled(folder / PICKLED)
    parts = read_json(folder / INDEX).get("weight_map")
    if not isinstance(parts, dict):
        raise ValueError(f"{INDEX} has no weight_map")
    files = sorted({folder / Path(str(name)).name for name in parts.values()})
    if (size := sum(file.stat().st_size for file in files if file.is_file())) > MAX_BYTES:
        raise ZgulError(f"{folder} has {size} bytes in {len(files)} files of weights; at most {MAX_BYTES:,} are read.")
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= map_tensors(file)[0]
    return tensors

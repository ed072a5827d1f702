"""Encoders in Hugging Face's form: a folder, the Hugging Face cache, or the hub.

A folder holds ``config.json``, ``model.safetensors`` (or several files with an index) or ``pytorch_model.bin``, and
``tokenizer.json``. Code that comes with a model is never run, and pickles are read with ``weights_only``.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from zgul.encoders.encoder import Encoder, EncoderConfig, state_for_hub
from zgul.encoders.tokenizer import SPECIALS_FILE, TOKENIZER, PieceTokenizer
from zgul.errors import ZgulError, first_line
from zgul.files import read_json, write_json
from zgul.tensors import load_pickled, map_tensors, save_tensors

CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
INDEX = f"{WEIGHTS}.index.json"
# All have the layout that adapters need: embeddings, then layers of attention and feed-forward with post-norms.
CLASSES = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}
LARGEST = 10_000_000  # limit of each size in a configuration; larger ones are mistakes, or attacks on the memory
_SIZES = {  # our field -> key in config.json, default
    "vocabulary": ("vocab_size", None),
    "width": ("hidden_size", None),
    "depth": ("num_hidden_layers", None),
    "heads": ("num_attention_heads", None),
    "inner": ("intermediate_size", None),
    "positions": ("max_position_embeddings", 512),
    "types": ("type_vocab_size", 2),
    "pad": ("pad_token_id", 0),
}


def load_folder(folder: Path) -> tuple[Encoder, PieceTokenizer]:
    """Load an encoder in float32 and its tokenizer."""
    try:
        config = config_from_hub(read_json(folder / CONFIG), str(folder))
        tokenizer = PieceTokenizer.from_folder(folder)
        if tokenizer.backend.get_vocab_size() > config.vocabulary:
            raise ValueError(f"{TOKENIZER} has more pieces than {CONFIG} says, {config.vocabulary}")
        return Encoder.from_hub(config, _read_weights(folder)).float(), tokenizer
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
        value = values.get(key, 1 if field == "pad" and model_type != "bert" else default)
        if type(value) is not int or not int(field != "pad") <= value <= LARGEST:
            raise ZgulError(f"{name}: {key} in config.json is {value!r}, not a whole number up to {LARGEST:,}")
        sizes[field] = value
    if sizes["width"] % sizes["heads"]:
        raise ZgulError(f"{name}: hidden_size is no multiple of num_attention_heads in config.json")
    first = 0 if model_type == "bert" else sizes["pad"] + 1
    if sizes["positions"] - first < 3:  # two special pieces and one of a word
        raise ZgulError(f"{name}: max_position_embeddings in config.json leaves no room for a word")
    eps = values.get("layer_norm_eps", 1e-12)
    if type(eps) not in (int, float) or not 0 < eps < 1:
        raise ZgulError(f"{name}: layer_norm_eps in config.json is {eps!r}, not a small number")
    activation = str(values.get("hidden_act", "gelu"))
    return EncoderConfig(**sizes, eps=float(eps), activation=activation, first_position=first, model_type=model_type)


def config_for_hub(config: EncoderConfig) -> dict[str, Any]:
    """The contents of a ``config.json`` from which transformers builds the same encoder."""
    return {
        "model_type": config.model_type,
        "architectures": [f"{CLASSES[config.model_type]}Model"],
        **{key: getattr(config, field) for field, (key, _) in _SIZES.items()},
        "layer_norm_eps": config.eps,
        "hidden_act": config.activation,
    }


def _download(name: str, *, local: bool) -> Path:
    """The folder in the Hugging Face cache with the files of a model."""
    from huggingface_hub import hf_hub_download  # takes half a second, and most users never need it
    from huggingface_hub.errors import EntryNotFoundError

    fetch = partial(hf_hub_download, name, local_files_only=local)

    def fetch_optional(file: str) -> Any:
        try:
            return fetch(file)
        except EntryNotFoundError:  # also raised if the file is not in the local copy
            return None

    config = fetch(CONFIG)
    fetch_optional(TOKENIZER)
    fetch_optional(SPECIALS_FILE)
    if fetch_optional(WEIGHTS) is None:
        index = fetch_optional(INDEX)
        parts = json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"].values() if index else [PICKLED]
        for part in sorted(set(parts)):
            fetch(part)
    return Path(config).parent


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
    tensors: dict[str, Tensor] = {}
    for part in sorted({Path(str(name)).name for name in parts.values()}):
        tensors |= map_tensors(folder / part)[0]
    return tensors

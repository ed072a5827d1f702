"""``config.json`` of Hugging Face encoders: from and to our `EncoderConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zgul.encoders.encoder import EncoderConfig
from zgul.errors import ZgulError

# One layout: embeddings, then layers of attention and feed-forward with post-norms. Adapters need this.
MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert")
LARGEST = 10_000_000  # of any size in a configuration; a larger one is a mistake, or meant to exhaust the memory

_SIZES = {  # our field -> key, default
    "vocabulary": ("vocab_size", None),
    "width": ("hidden_size", None),
    "depth": ("num_hidden_layers", None),
    "heads": ("num_attention_heads", None),
    "inner": ("intermediate_size", None),
    "positions": ("max_position_embeddings", 512),
    "types": ("type_vocab_size", 2),
    "pad": ("pad_token_id", 0),
}


def config_from_hub(values: Mapping[str, Any], name: str = "the encoder") -> EncoderConfig:
    """Check and convert the contents of a ``config.json``."""
    model_type = values.get("model_type")
    if model_type not in MODEL_TYPES:
        raise ZgulError(f"{name} is of the type {model_type!r}. zgul works with {', '.join(MODEL_TYPES)}.")
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise ZgulError(
            f"{name} has {values['position_embedding_type']!r} positions. zgul supports absolute ones only."
        )
    sizes: dict[str, int] = {}
    usual = _SIZES | {"pad": ("pad_token_id", 0 if model_type == "bert" else 1)}
    for field, (key, default) in usual.items():
        value = values.get(key, default)
        least = 0 if field == "pad" else 1
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise ZgulError(f"{name}: {key} in config.json is {value!r}, not a whole number up to {LARGEST:,}")
        sizes[field] = value
    if sizes["width"] % sizes["heads"]:
        raise ZgulError(f"{name}: hidden_size is no multiple of num_attention_heads in config.json")
    first_position = 0 if model_type == "bert" else sizes["pad"] + 1
    if sizes["positions"] - first_position < 3:  # two special pieces and one of a word
        raise ZgulError(f"{name}: max_position_embeddings in config.json leaves no room for a word")
    eps = values.get("layer_norm_eps", 1e-12)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 < eps < 1:
        raise ZgulError(f"{name}: layer_norm_eps in config.json is {eps!r}, not a small number")
    return EncoderConfig(
        **sizes,
        eps=float(eps),
        activation=str(values.get("hidden_act", "gelu")),
        first_position=first_position,
        model_type=model_type,
    )


def config_for_hub(config: EncoderConfig) -> dict[str, Any]:
    """What transformers needs to build the same encoder."""
    classes = {"bert": "BertModel", "roberta": "RobertaModel", "xlm-roberta": "XLMRobertaModel"}
    return {
        "model_type": config.model_type,
        "architectures": [classes.get(config.model_type, "CamembertModel")],
        **{key: getattr(config, field) for field, (key, _) in _SIZES.items()},
        "layer_norm_eps": config.eps,
        "hidden_act": config.activation,
    }

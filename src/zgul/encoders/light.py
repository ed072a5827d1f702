"""The embedded encoder for tagging, on torch and tokenizers alone.

Importing a model class of ``transformers`` takes longer than tagging a page. The layer loop of
``zgul.encoders.Encoder`` needs only a BERT's modules under their usual names, and ``PieceEncoder`` only a
tokenizer's pieces and special ids; both are here, over the same files that ``zgul.encoders.embedded`` reads. Same
numbers, same pieces; for anything but inference take ``zgul.encoders.load("embedded")``.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor, nn

from zgul.encoders import embedded
from zgul.encoders.tokenizer import SPECIALS
from zgul.errors import ZgulError


def load() -> tuple[BertModules, LightTokenizer]:
    """Model and tokenizer; the model's tensors are mapped from the file and belong to no other model."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = embedded.converted()
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        model = BertModules(config)
        model.load_state_dict(load_file(folder / "model.safetensors"), strict=True, assign=True)
        tokenizer = _tokenizer(folder / "tokenizer.json")
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ZgulError(f"{folder} is damaged ({error}). Delete the folder; it will be made again.") from error
    return model.eval(), tokenizer


class LightTokenizer:
    """What ``PieceEncoder`` asks of a tokenizer."""

    def __init__(self, path: Path) -> None:
        self.backend_tokenizer: Any = Tokenizer.from_file(str(path))
        for name, token in SPECIALS.items():
            setattr(self, f"{name}_id", self.backend_tokenizer.token_to_id(token))


@lru_cache(maxsize=1)
def _tokenizer(path: Path) -> LightTokenizer:
    try:
        return LightTokenizer(path)
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise ValueError(f"tokenizer.json: {error}") from error


class Linear(nn.Linear):
    """Left as allocated: its numbers are about to come from a file."""

    def reset_parameters(self) -> None:
        pass


class Embedding(nn.Embedding):
    """The same for a table. (The device "meta" would do, but torch takes a second to get ready for it.)"""

    def reset_parameters(self) -> None:
        pass


class BertModules(nn.Module):
    """The modules of a BertModel under its names, without a forward of its own."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = SimpleNamespace(**{"model_type": "bert", **config})
        self.embeddings = _Embeddings(self.config)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(_layer(self.config) for _ in range(self.config.num_hidden_layers))


class _Embeddings(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = Embedding(config.vocab_size, width)
        self.position_embeddings = Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(0.0)

    def forward(self, input_ids: Tensor) -> Tensor:  # [B, T] -> [B, T, d]
        positions = self.position_embeddings.weight[: input_ids.shape[1]]
        summed = self.word_embeddings(input_ids) + self.token_type_embeddings.weight[0] + positions
        out: Tensor = self.dropout(self.LayerNorm(summed))
        return out


class _Intermediate(nn.Module):
    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.dense = Linear(width, size)
        self.intermediate_act_fn = nn.functional.gelu


def _layer(config: Any) -> nn.Module:
    width, size = config.hidden_size, config.intermediate_size
    layer = nn.Module()
    layer.attention = nn.Module()
    layer.attention.self = nn.Module()
    for name in ("query", "key", "value"):
        layer.attention.self.add_module(name, Linear(width, width))
    layer.attention.self.dropout = nn.Dropout(0.0)
    layer.attention.output = _output(width, width, config.layer_norm_eps)
    layer.intermediate = _Intermediate(width, size)
    layer.output = _output(size, width, config.layer_norm_eps)
    return layer


def _output(size: int, width: int, eps: float) -> nn.Module:
    module = nn.Module()
    module.dense = Linear(size, width)
    module.LayerNorm = nn.LayerNorm(width, eps=eps)
    module.dropout = nn.Dropout(0.0)
    return module

"""ModernBERT and its multilingual relatives such as mmBERT: rotary positions, gated feed-forward, norms first.

A layer reads ``n(hidden)`` and adds to ``hidden``, which no norm touches on its way through the layers:

    x   = hidden + attention(n_1(hidden))
    f   = W_o (act(W_i m) * W_g m),  m = n_2(x)
    out = f + x

In a BERT, LN(f + x) is what the next layer reads, and adapters read it too. Here the norm that reads ``out`` next plays
that part: the next layer's n_1, or the final norm. So ``h = n_next(f + x)``, and the rest of the formula in
`zgul.methods.model` is the same, without LN in its last line: ``out = t + x``.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from zgul.encoders.encoder import ACTIVATIONS, Attend, Encoder, EncoderConfig, Linear
from zgul.encoders.rotary import Rotary
from zgul.errors import ZgulError

MODERN = "modernbert"
FULL, SLIDING = "full_attention", "sliding_attention"
THETAS = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}
# Our name of a module -> its name in Hugging Face checkpoints, after `ModernEncoder.split`.
PARTS = {"words": "embeddings.tok_embeddings", "norm": "embeddings.norm", "final_norm": "final_norm"}
LAYER = {
    "attention_norm": "attn_norm",
    "query": "attn.Wqkv.0",
    "key": "attn.Wqkv.1",
    "value": "attn.Wqkv.2",
    "attended": "attn.Wo",
    "feed_norm": "mlp_norm",
    "inner": "mlp.Wi.0",
    "gate": "mlp.Wi.1",
    "outer": "mlp.Wo",
}
FUSED = {"attn.Wqkv": 3, "mlp.Wi": 2}  # matrices that hold several of ours


class ModernLayer(nn.Module):
    """The modules of one layer. The first layer has no norm before its attention."""

    def __init__(self, config: EncoderConfig, first: bool) -> None:
        super().__init__()
        width = config.width
        self.attention_norm = nn.Identity() if first else _norm(config)
        self.query, self.key, self.value, self.attended = (Linear(width, width, bias=False) for _ in range(4))
        self.feed_norm = _norm(config)
        self.inner, self.gate = (Linear(width, config.inner, bias=False) for _ in range(2))
        self.outer = Linear(config.inner, width, bias=False)


class ModernEncoder(Encoder):
    """An encoder whose layers are those of ModernBERT."""

    fewest = 5

    def add_parts(self, config: EncoderConfig) -> None:
        self.norm = _norm(config)
        self.layers = nn.ModuleList(ModernLayer(config, index == 0) for index in range(config.depth))
        self.final_norm = _norm(config)

    @staticmethod
    def hub_name(name: str) -> str:
        *layer, module, part = name.split(".")
        return f"layers.{layer[1]}.{LAYER[module]}.{part}" if layer else f"{PARTS[module]}.{part}"

    @staticmethod
    def split(named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Split the fused matrices: ``attn.Wqkv.weight`` becomes ``attn.Wqkv.0.weight`` and two more."""
        found: dict[str, Tensor] = {}
        for name, value in named.items():
            stem, _, part = name.rpartition(".")
            count = next((count for fused, count in FUSED.items() if stem.endswith(f".{fused}")), 1)
            if count == 1 or value.shape[0] % count:
                found[name] = value
            else:
                found |= {f"{stem}.{n}.{part}": each for n, each in enumerate(value.chunk(count))}
        return found

    @staticmethod
    def joined(named: dict[str, Tensor]) -> dict[str, Tensor]:
        found: dict[str, list[Tensor]] = {}
        for name, value in named.items():  # in the order of the modules, which is that of the parts
            stem, _, part = name.rpartition(".")
            whole = f"{stem[:-2]}.{part}" if stem[-1:].isdigit() and stem[:-2].endswith(tuple(FUSED)) else name
            found.setdefault(whole, []).append(value)
        return {name: torch.cat(values) for name, values in found.items()}

    def embed(self, input_ids: Tensor) -> Tensor:
        return self._drop(self.norm(self.words(input_ids)))

    def layer(self, index: int, hidden: Tensor, attend: Attend) -> tuple[Tensor, Tensor]:
        layer: Any = self.layers[index]
        dropout = self.dropout if self.training else 0.0
        n = layer.attention_norm(hidden)
        rotary = self.config.rotary[index]
        context = attend(layer.query(n), layer.key(n), layer.value(n), self.config.heads, dropout, rotary)
        x = hidden + self._drop(layer.attended(context))
        m = layer.feed_norm(x)
        f = self._drop(layer.outer(ACTIVATIONS[self.config.activation](layer.inner(m)) * layer.gate(m)))
        return x, f

    def layer_norm(self, index: int, y: Tensor) -> Tensor:
        """The norm that reads the output of a layer next: that of the next layer, or the final norm."""
        last = index == self.depth - 1
        return self.final_norm(y) if last else self.layers[index + 1].attention_norm(y)  # type: ignore[no-any-return, operator]

    def output(self, index: int, y: Tensor) -> Tensor:
        return self.final_norm(y) if index == self.depth - 1 else y


def _norm(config: EncoderConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.width, eps=config.eps, bias=False)


def rotary_of(values: Mapping[str, Any], depth: int, name: str) -> tuple[Rotary, ...]:
    """The positions of each layer, from a ``config.json`` of transformers 4 or 5."""
    for key in ("attention_bias", "mlp_bias", "norm_bias"):
        if values.get(key):
            raise ZgulError(f"{name}: {key} in config.json is set. zgul reads ModernBERTs without biases only.")
    every, window = values.get("global_attn_every_n_layers", 3), values.get("local_attention", 128)
    if type(every) is not int or type(window) is not int or every < 1 or window < 2:
        raise ZgulError(f"{name}: global_attn_every_n_layers and local_attention in config.json must be whole numbers")
    kinds = values.get("layer_types") or [SLIDING if index % every else FULL for index in range(depth)]
    if not isinstance(kinds, list) or len(kinds) != depth or not set(kinds) <= set(THETAS):
        raise ZgulError(f"{name}: layer_types in config.json must name {FULL} or {SLIDING} for each of {depth} layers")
    found, given = {}, values.get("rope_parameters") or {}
    for kind, (key, usual) in THETAS.items():
        own = (given.get(kind) or {}) if isinstance(given, dict) else given
        theta: Any = own.get("rope_theta", values.get(key) or usual) if isinstance(own, dict) else None
        if type(theta) not in (int, float) or not theta > 1 or own.get("rope_type", "default") != "default":
            raise ZgulError(f"{name}: rope_parameters in config.json are of a kind that zgul does not know: {own}")
        found[kind] = Rotary(float(theta), window // 2 if kind == SLIDING else None)
    return tuple(found[kind] for kind in kinds)


def modern_config(config: EncoderConfig) -> dict[str, Any]:
    """The part of a ``config.json`` that only ModernBERTs have. transformers 4 and 5 read it."""
    kinds = [FULL if rotary.window is None else SLIDING for rotary in config.rotary]
    thetas = {kind: rotary.theta for kind, rotary in zip(kinds, config.rotary, strict=True)}
    windows = [rotary.window for rotary in config.rotary if rotary.window]
    return {
        "norm_eps": config.eps,
        "hidden_activation": config.activation,
        "local_attention": 2 * windows[0] if windows else 128,
        "global_attn_every_n_layers": next((n for n, kind in enumerate(kinds) if n and kind == FULL), len(kinds)),
        "layer_types": kinds,
        **{key: thetas.get(kind, usual) for kind, (key, usual) in THETAS.items()},
    }

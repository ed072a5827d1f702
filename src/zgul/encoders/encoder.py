"""The encoder: BERT, RoBERTa and XLM-R in one loop over layers, into which adapters can be inserted.

`Encoder.layer` returns the attention output ``x`` and the feed-forward output ``f`` *before* the residual. A plain
layer ends in ``LN(f + x)``; every adapter method changes the sum first. All operations except attention work token by
token, so hidden states may have any shape [..., d]. Only ``attend`` knows which tokens belong to one sentence.
`zgul.encoders.modern` has the other kind of layer, that of ModernBERT.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.devices import shared_copy
from zgul.encoders.rotary import Rotary
from zgul.errors import ZgulError

# maps query, key and value [..., d], the number of heads, the dropout and the positions to the context [..., d]
Attend = Callable[[Tensor, Tensor, Tensor, int, float, Rotary | None], Tensor]

# Our name of a module -> its name in Hugging Face checkpoints.
EMBEDDINGS = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}
LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attended": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "norm": "output.LayerNorm",
}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}


@dataclass(frozen=True)
class EncoderConfig:
    """The shape of an encoder."""

    vocabulary: int
    width: int
    depth: int
    heads: int
    inner: int
    positions: int
    types: int = 1
    eps: float = 1e-12
    activation: str = "gelu"
    pad: int = 0
    first_position: int = 0  # RoBERTa counts positions from pad + 1
    model_type: str = "bert"
    rotary: tuple[Rotary, ...] = ()  # of each layer of a ModernBERT


class Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Do nothing: the values are loaded later, and on the meta device this would import torch's slow compiler."""


class Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Do nothing, for the same reasons."""


class LowRankLinear(nn.Module):
    """A frozen linear map plus a trained low-rank update, ``(W + B A) x``. B starts at zero."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)  # [rank, in]
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))  # [out, rank]

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.a), self.b)  # type: ignore[no-any-return]

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The same map as one plain matrix. The base stays as it is."""
        linear = shared_copy(self.base)
        linear.weight = nn.Parameter(self.base.weight + self.b @ self.a, requires_grad=False)
        return linear


class EncoderLayer(nn.Module):
    """The modules of one layer. Matrices may be `nn.Linear` or `LowRankLinear`."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.width
        self.query, self.key, self.value, self.attended = (Linear(width, width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(width, eps=config.eps)
        self.inner, self.outer = Linear(width, config.inner), Linear(config.inner, width)
        self.norm = nn.LayerNorm(width, eps=config.eps)


class Encoder(nn.Module):
    """Embeddings and layers, into which weights are loaded."""

    fewest = 2 * len(LAYER)  # tensors of a layer in a checkpoint

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        if config.activation not in ACTIVATIONS:
            raise ZgulError(f"the encoder's activation {config.activation!r} is not one of {', '.join(ACTIVATIONS)}")
        self.config = config
        self.dropout = 0.0  # of hidden states and attention, while training
        self.words = Embedding(config.vocabulary, config.width)
        self.add_parts(config)

    def add_parts(self, config: EncoderConfig) -> None:
        """Make everything but the word embeddings."""
        self.positions = Embedding(config.positions, config.width)
        self.types = Embedding(config.types, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.eps)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.depth))

    @classmethod
    def from_hub(cls, config: EncoderConfig, tensors: dict[str, Tensor]) -> Self:
        """Make an encoder from the tensors of a Hugging Face checkpoint, without copying them. Heads are left out.

        A missing tensor, or one whose shape differs from the configuration, raises `ValueError` before memory is taken.
        """
        if config.depth * cls.fewest > len(tensors):
            raise ValueError(f"config.json says {config.depth} layers, and the weights have fewer")
        named = {}
        for name, value in ((name, value) for name, value in tensors.items() if value.is_floating_point()):
            name = name.removeprefix("bert.").removeprefix("roberta.").removeprefix("model.")
            named[name.replace("Norm.gamma", "Norm.weight").replace("Norm.beta", "Norm.bias")] = value
        named = cls.split(named)
        with torch.device("meta"):  # the values come with the tensors
            encoder = cls(config)
        state = {}
        for name, value in encoder.state_dict().items():
            theirs = cls.hub_name(name)
            state[name] = named.get(theirs, torch.empty(0))
            if state[name].shape != value.shape:
                held = list(state[name].shape) if theirs in named else "missing"
                raise ValueError(f"{theirs} is {held}, config.json says {list(value.shape)}")
        encoder.load_state_dict(state, strict=True, assign=True)
        return encoder.requires_grad_(False).eval()

    @staticmethod
    def hub_name(name: str) -> str:
        """The Hugging Face name of one of our tensors, such as ``layers.3.query.bias`` or ``words.weight``."""
        *layer, module, part = name.split(".")
        return f"encoder.layer.{layer[1]}.{LAYER[module]}.{part}" if layer else f"{EMBEDDINGS[module]}.{part}"

    @staticmethod
    def split(named: dict[str, Tensor]) -> dict[str, Tensor]:
        """Split tensors of a checkpoint that hold several of ours."""
        return named

    @staticmethod
    def joined(named: dict[str, Tensor]) -> dict[str, Tensor]:
        """The inverse of `split`."""
        return named

    @property
    def width(self) -> int:
        return self.config.width

    @property
    def depth(self) -> int:
        return self.config.depth

    @property
    def max_pieces(self) -> int:
        """The longest input, special pieces included."""
        return self.config.positions - self.config.first_position

    def embed(self, input_ids: Tensor) -> Tensor:
        """Map piece ids [B, T] to the input of the first layer [B, T, d]."""
        first, length = self.config.first_position, input_ids.shape[1]
        places = self.positions.weight[first : first + length]  # [T, d]
        return self._drop(self.norm(self.words(input_ids) + self.types.weight[0] + places))

    def layer(self, index: int, hidden: Tensor, attend: Attend) -> tuple[Tensor, Tensor]:
        """Map hidden states [..., d] to the attention output x and the feed-forward output f before the residual."""
        layer: Any = self.layers[index]
        dropout = self.dropout if self.training else 0.0
        context = attend(layer.query(hidden), layer.key(hidden), layer.value(hidden), self.config.heads, dropout, None)
        x = layer.attention_norm(self._drop(layer.attended(context)) + hidden)
        f = self._drop(layer.outer(ACTIVATIONS[self.config.activation](layer.inner(x))))
        return x, f

    def layer_norm(self, index: int, y: Tensor) -> Tensor:
        """LN: the output norm of a layer. Adapters read what comes out of it."""
        return self.layers[index].norm(y)  # type: ignore[no-any-return, operator]

    def output(self, index: int, y: Tensor) -> Tensor:
        """What a layer passes on of the sum that it ends in, ``LN(y)``."""
        return self.layer_norm(index, y)

    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """The plain encoder. It maps piece ids and mask [B, T] to hidden states [B, T, d]."""
        hidden, attend = self.embed(input_ids), masked_attention(mask)
        for index in range(self.depth):
            x, f = self.layer(index, hidden, attend)
            hidden = self.output(index, f + x)
        return hidden

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def add_low_rank(self, rank: int) -> None:
        """Give every matrix of every layer a trainable update of this rank."""
        for layer in self.layers:
            for name, matrix in list(layer.named_children()):
                if isinstance(matrix, nn.Linear):
                    setattr(layer, name, LowRankLinear(matrix, rank).to(matrix.weight.device))

    def merged(self) -> Self:
        """A copy whose matrices contain the low-rank updates. It shares all other weights with this encoder."""
        return shared_copy(self, {module: module.merged() for module in self._updated()})

    def without_updates(self) -> Self:
        """The encoder before low-rank updates. It shares its weights with this one."""
        return shared_copy(self, {module: module.base for module in self._updated()})

    def _updated(self) -> list[LowRankLinear]:
        return [module for module in self.modules() if isinstance(module, LowRankLinear)]


def masked_attention(mask: Tensor | None) -> Attend:
    """Attention inside each sentence of a padded batch. ``mask`` [B, T] is true for pieces; None means everywhere."""
    visible = None if mask is None else mask[:, None, None, :]  # [B, 1, 1, T]

    def attend(
        query: Tensor, key: Tensor, value: Tensor, heads: int, dropout: float, rotary: Rotary | None = None
    ) -> Tensor:
        q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (query, key, value))  # [B, H, T, d/H]
        seen = visible
        if rotary is not None:
            q, k = rotary.turn(q), rotary.turn(k)
            seen = rotary.limit(q.new_ones(1, 1, 1, q.shape[2], dtype=torch.bool) if visible is None else visible)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=dropout)
        return context.transpose(1, 2).flatten(2)

    return attend


def state_for_hub(encoder: Encoder) -> dict[str, Tensor]:
    """The encoder's tensors under their Hugging Face names."""
    own = encoder.merged().state_dict()
    named = {encoder.hub_name(name): value.detach().cpu() for name, value in own.items()}
    return {name: value.contiguous() for name, value in encoder.joined(named).items()}

"""The one model: an encoder whose layers end in a weighted bank and a task adapter, and a head.

With x the attention output of a layer, f its feed-forward output, LN the layer's own norm, ``h = LN(f + x)`` and u_n
the n-th language adapter without residual:

    z   = f + mix(Σ_n w_n u_n)        the weighting of the bank (the paper's o_LA)
    t   = z + TA(LN(z + x))           the task adapter (the paper's o_final)
    out = LN(t + x)

A model without a bank skips the first line. A model without task adapters skips the second. Plain fine-tuning skips
both. CPG uses a generated adapter instead of the bank.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.adapters.bank import AdapterOutputs, Bank
from zgul.adapters.language_adapter import Bottleneck
from zgul.encoders.batches import Batch
from zgul.encoders.encoder import Attend, Encoder, masked_attention
from zgul.ensemble.em import PADDED, Alpha, Choose, EMConfig, minimise_entropy
from zgul.ensemble.weighting import ByLanguage, Weighting

INVERTIBLE = ("off", "first", "mixed")


def softmax_scores(layer: int, scores: Callable[[], Tensor]) -> Tensor:
    """Turn scores into the model's own weights, without EM."""
    return scores().softmax(dim=-1)


class Generator(nn.Module):
    """The interface of modules that add to the feed-forward output without a bank (CPG)."""

    def by_language(self, table: Tensor) -> Tensor:
        """Map the language table [M, F] to a vector for each language [M, ·]."""
        raise NotImplementedError

    def forward(self, layer: int, f: Tensor, spoken: Tensor, vectors: Tensor) -> Tensor:
        """Map f [..., d], the tokens' languages as one-hot vectors [..., M] and `by_language` to what is added to f."""
        raise NotImplementedError


class Model(nn.Module):
    """Encoder, bank, weighting, task adapters and head."""

    def __init__(
        self,
        encoder: Encoder,
        labels: int,
        *,
        bank: Bank | None = None,
        weighting: Weighting | None = None,
        generator: Generator | None = None,
        task_size: int = 0,
        invertible: str = "off",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.encoder, self.bank, self.weighting, self.generator = encoder, bank, weighting, generator
        self.invertible, encoder.dropout = invertible, dropout
        depth = encoder.depth if task_size else 0
        self.task = nn.ModuleList(Bottleneck(encoder.width, task_size) for _ in range(depth))
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.width, labels)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    @torch.no_grad()
    def start_head_at(self, shares: Tensor) -> None:
        """Make an untrained head predict each label as often as it occurs: shares [C]."""
        # If nearly all words have one label (O in tweets), a model learns that first. With a frozen encoder, all tokens
        # then get the same state, and training does not recover from it.
        self.head.bias.copy_(shares.clamp(min=1e-4).log())

    def forward(self, batch: Batch, choose: Choose = softmax_scores) -> Tensor:
        """Label scores [B, T, C]. Those of a word are at its first piece. EM passes its own ``choose``."""
        by_language, spoken = self.languages(batch)
        hidden = self.embed(batch, by_language, spoken, choose)
        return self.read(hidden, masked_attention(batch.mask), by_language, spoken, choose)

    def languages(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`by_language` of the weighting or generator, and each token's language as a one-hot vector [B, T, M]."""
        part, table = self.weighting or self.generator, batch.table.to(self.encoder.norm.weight.dtype)
        by_language = part.by_language(table) if part is not None else table
        return by_language, F.one_hot(batch.languages, len(batch.table)).to(by_language.dtype)  # [B, T, M]

    def embed(self, batch: Batch, by_language: Tensor, spoken: Tensor, choose: Choose) -> Tensor:
        """Embeddings [B, T, d], after the bank's invertible blocks if the model uses them."""
        hidden = self.encoder.embed(batch.input_ids)
        if self.bank is None or self.invertible == "off":
            return hidden
        if self.invertible == "first":
            return self.bank.invert(hidden, None)
        if isinstance(self.weighting, ByLanguage):
            scores = (spoken @ by_language[0])[:, :, None]  # [B, T, 1, N]
        else:  # other weightings have no view of these blocks: the mean of all
            scores = hidden.new_zeros(hidden.shape[0], 1, 1, len(self.bank))
        return self.bank.invert(hidden, choose(-1, lambda: scores)[:, :, 0].to(hidden.dtype))

    def read(
        self,
        hidden: Tensor,
        attend: Attend,
        by_language: Tensor,
        spoken: Tensor,
        choose: Choose,
        first: "LayerStart | None" = None,
    ) -> Tensor:
        """Map embeddings [..., d] to label scores [..., C]. ``first`` is the start of layer 0, if it is known."""
        # only ``attend`` knows which tokens belong to one sentence, so tokens may be arranged in any shape
        for index in range(self.encoder.depth):
            start = first if first and index == 0 else self.start(index, hidden, attend)
            total = start.total  # every line of the formula adds to this sum
            if start.outputs is not None:
                scores = spoken @ by_language[min(index, len(by_language) - 1)]
                total = total + self._ensemble(index, start.h, start.outputs, scores, choose)
            elif self.generator is not None:
                total = total + self.generator(index, start.f, spoken, by_language)
            if len(self.task):
                total = total + self.task[index](self.encoder.layer_norm(index, total))
            hidden = self.encoder.output(index, total)
        logits: Tensor = self.head(self.dropout(hidden))
        return logits

    def start(self, index: int, hidden: Tensor, attend: Attend) -> "LayerStart":
        """Compute a layer up to its adapters' outputs."""
        x, f = self.encoder.layer(index, hidden, attend)
        total = f + x
        if self.bank is None or self.weighting is None:
            return LayerStart(f, total, total)
        h = self.encoder.layer_norm(index, total)
        return LayerStart(f, total, h, self.bank(index, h))

    def _ensemble(self, index: int, h: Tensor, outputs: AdapterOutputs, by_language: Tensor, choose: Choose) -> Tensor:
        """``mix(Σ_n w_n u_n)`` of a layer."""
        assert self.weighting is not None
        weighting = self.weighting
        weights = choose(index, lambda: weighting.scores(index, h, outputs, by_language))  # [..., K, N]
        return weighting.mix(index, outputs, weights.to(h.dtype))


@dataclass
class LayerStart:
    """What a layer computes before the bank is weighted. EM does not change it in layer 0."""

    f: Tensor
    total: Tensor  # f + x
    h: Tensor  # LN(f + x) if there is a bank
    outputs: AdapterOutputs | None = None


@dataclass
class Inferred:
    """A model's output for a batch. It has weights only on request, as means over the layers."""

    logits: Tensor  # [B, T, C]
    before: Tensor | None = None  # [B, T, K, N] weights before EM
    after: Tensor | None = None  # and after it


def infer(model: Model, batch: Batch, em: EMConfig | None = None, weights: bool = False) -> Inferred:
    """Compute label scores of a batch by plain code, with EM if it is given and possible. `zgul.fast` is faster."""
    if model.bank is None or (not weights and (em is None or em.steps == 0)):
        with torch.no_grad():
            return Inferred(model(batch))
    config = em or EMConfig(steps=0)
    length = batch.input_ids.shape[1]
    if config.positions == "all":  # pad as the release does, so that no sentence depends on the length of others
        longest = max(length, min(PADDED, model.encoder.max_pieces))
        batch = batch.padded(len(batch), longest, model.encoder.config.pad)
    alpha = Alpha(config)
    logits = minimise_entropy(model, batch, alpha)[:, :length]
    if not weights:
        return Inferred(logits)
    before, after = alpha.mean_weights()
    return Inferred(logits, before[:, :length], after[:, :length])

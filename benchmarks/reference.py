"""The reference that zgul is measured against: plain code without folding, stacking or packing.

`Release` computes as the authors' release does: every adapter by itself, W_v on every adapter's output, T + 2 full
forward passes of one sentence padded to 128 pieces. The release's oddities (a softmax of a softmax, the entropy of
padding) are not copied, because the tags must be the same as ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.setup import encode
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.corpora.sentence import Sentence, to_iob2
from zgul.devices import shared_copy
from zgul.encoders.batches import Batch
from zgul.encoders.encoder import masked_attention
from zgul.ensemble.em import PADDED, EMConfig
from zgul.methods.model import Model
from zgul.tagger import Tagger


class Layer(nn.Module):
    """The adapters of one layer, AdapterFusion over them, and the task adapter."""

    def __init__(self, model: Model, adapters: Sequence[LanguageAdapter], index: int) -> None:
        super().__init__()
        weighting: Any = model.weighting
        self.adapters = nn.ModuleList(adapter.layers[index] for adapter in adapters).requires_grad_(False)
        self.query, self.key = weighting.fusion[index].query, weighting.fusion[index].key
        self.value, self.combine = weighting.value[index], weighting.combine[index]
        self.task = model.task[index]

    def outputs(self, h: Tensor) -> Tensor:  # [B, T, d] -> [B, T, N, d]
        return torch.stack([adapter(h) for adapter in self.adapters], dim=2)


class Release(nn.Module):
    """ZGUL and its entropy minimisation in the manner of the authors' release.

    With ``fusion_only`` it is Stack(Fuse(N), task) of `adapters` 1.3.0. The tests compare it with `adapters` itself.
    """

    def __init__(self, model: Model, *, fusion_only: bool = False) -> None:
        super().__init__()
        model = shared_copy(model).eval()
        self.encoder, self.head, self.weighting = model.encoder.merged(), model.head, model.weighting
        self.fusion_only = fusion_only
        assert model.bank is not None
        adapters = [model.bank.extract(language) for language in model.bank.languages]
        self.layers = nn.ModuleList(Layer(model, adapters, index) for index in range(self.encoder.depth))
        self.to(model.bank.down.device, model.bank.down.dtype)

    def forward(self, batch: Batch, weights: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
        """Label scores [B, T, C] and, unless weights are given, the model's own scores of each layer [B, T, K, N].

        With given weights, the scores are not computed. The release may compute them, but we do not count this time.
        """
        hidden, attend = self.encoder.embed(batch.input_ids), masked_attention(batch.mask)
        by_language = self.weighting.by_language(batch.table.to(hidden.dtype)) if weights is None else None
        scores: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            x, f = self.encoder.layer(index, hidden, attend)
            h = self.encoder.layer_norm(index, f + x)
            u = layer.outputs(h)
            if weights is None:
                fusion = (layer.query(h).unsqueeze(2) @ layer.key(u).transpose(-2, -1)).squeeze(2)
                views = [fusion] if self.fusion_only else [fusion, by_language[index][batch.languages]]
                scores.append(torch.stack(views, dim=2))
            mixture = scores[-1].softmax(dim=-1) if weights is None else weights[index]
            mixed = mixture @ layer.value(u)  # [B, T, K, d]: W_v of every adapter's output, then the mix
            z = f + (mixed[:, :, 0] if self.fusion_only else layer.combine(mixed.flatten(2)))
            t = z + layer.task(self.encoder.layer_norm(index, z + x))
            hidden = self.encoder.layer_norm(index, t + x)
        return self.head(hidden), scores

    def minimise_entropy(self, batch: Batch, steps: int, lr: float) -> Tensor:
        """Label scores [B, T, C] after T + 2 passes: one for the scores, T with a step each, one for the tags."""
        with torch.no_grad():
            _, scores = self(batch)
        for _ in range(steps):
            leaves = [score.detach().requires_grad_() for score in scores]
            logits, _ = self(batch, [leaf.softmax(dim=-1) for leaf in leaves])
            p, words = logits.softmax(dim=-1), batch.words.to(logits.dtype)
            entropy = (-(p * p.log()).sum(dim=-1) * words).sum(dim=-1) / words.sum(dim=-1)
            gradients = torch.autograd.grad(entropy.sum(), leaves)
            scores = [leaf.detach() - lr * gradient for leaf, gradient in zip(leaves, gradients, strict=True)]
        with torch.no_grad():
            final: Tensor = self(batch, [score.softmax(dim=-1) for score in scores])[0]
        return final


def tag_by_release(
    release: Release, tagger: Tagger, sentences: Sequence[Sentence], em: EMConfig
) -> Iterator[list[str]]:
    """Tag sentence by sentence, each padded to 128 pieces (a longer one to the next multiple)."""
    for sentence in sentences:
        corpus = encode(tagger, [sentence])
        tags = []
        for row in range(len(corpus)):
            length = -(-(int(corpus.lengths[row]) + 2) // PADDED) * PADDED
            rows = torch.tensor([row], device=tagger.device)
            batch = corpus.batch(rows, min(length, tagger.pieces.max_pieces + 2))
            best = release.minimise_entropy(batch, em.steps, em.lr).argmax(dim=-1)
            tags += [tagger.labels[int(tag)] for tag in best[batch.words]]
        yield to_iob2(tags) if tagger.task == "ner" else tags

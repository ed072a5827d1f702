"""What we are measured against, written plainly: one module after another, nothing folded, stacked, cached or packed.

``Release``     ZGUL as the authors' release computes it: every adapter by itself, the value projection on every
                adapter's output, T + 2 full forward passes of one sentence padded to 128 pieces.
``StackFuse``   what `adapters` 1.3.0 computes for Stack(Fuse(N), task); the tests hold it to `adapters` itself.
``PlainMLM``    masked-LM training of one adapter with scores of the whole vocabulary at every position.

The release's own oddities (softmax of a softmax, entropy of padding) are not copied: the tags are to be the same as
ours, only the way there is the release's. Weights come from the model that is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.adapters.bank import LanguageAdapter
from zgul.adapters.bottleneck import ACTIVATIONS
from zgul.corpora.encode import IGNORED, Batch
from zgul.corpora.sentence import Sentence
from zgul.encoders.encoder import Encoder
from zgul.methods.tagger import Tagger, valid_iob2
from zgul.products import plain

PADDED = 128  # pieces, specials included


class Adapter(nn.Module):
    """``U act(D h)``, as modules."""

    def __init__(self, width: int, size: int, activation: str) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, size), nn.Linear(size, width)
        self.activation = activation

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = self.up(ACTIVATIONS[self.activation](self.down(h)))
        return out


class Layer(nn.Module):
    """The adapters of one layer, AdapterFusion over them, and the task adapter."""

    def __init__(self, adapters: Sequence[nn.Module], task: nn.Module, width: int, views: int) -> None:
        super().__init__()
        self.adapters = nn.ModuleList(_copied(adapter, width) for adapter in adapters).requires_grad_(False)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(views * width, width) if views > 1 else nn.Identity()
        self.task = _copied(task, width)

    def outputs(self, h: Tensor) -> Tensor:
        """u [B, T, N, d]"""
        return torch.stack([adapter(h) for adapter in self.adapters], dim=2)

    def fusion_scores(self, h: Tensor, u: Tensor) -> Tensor:  # [B, T, N]
        scores: Tensor = (self.query(h).unsqueeze(2) @ self.key(u).transpose(-2, -1)).squeeze(2)
        return scores


class Release(nn.Module):
    """ZGUL and its entropy minimisation in the manner of the authors' release."""

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        model = tagger.model
        bank, self.weighting = model.bank, model.weighting
        assert bank is not None and self.weighting is not None
        self.tagger = [tagger]  # in a list: not a part of this module
        self.encoder, self.head = model.encoder, model.head
        adapters = [bank.extract(language) for language in bank.languages]
        width = self.encoder.width
        layers = []
        for index in range(self.encoder.depth):
            layer = Layer([adapter.layers[index] for adapter in adapters], model.task[index], width, views=2)
            layer.to(self.head.weight.dtype)
            _unfold(layer, self.weighting, index, width)
            layers.append(layer)
        self.layers = nn.ModuleList(layers)
        model.eval()  # or EM would switch dropout on again when it ends
        self.to(tagger.device).eval()
        self.count = len(adapters)

    @plain()
    def forward(self, batch: Batch, weights: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
        """Label scores [B, T, C], and in each layer the scores [B, T, 2, N]: the model's own unless weights are given.

        Where weights are given the scores are not computed again; that the release may do so is not held against it.
        """
        hidden = self.encoder.embed(batch.input_ids)
        mask = batch.mask[:, None, None, :]
        scores: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            x, f = self.encoder.layer(index, hidden, mask)
            h = self.encoder.norm(index, f + x)
            u = layer.outputs(h)
            if weights is None:
                table = self.weighting.lang2vec[index](self.weighting.vectors(), self.count)  # type: ignore[union-attr, index, operator]
                scores.append(torch.stack([layer.fusion_scores(h, u), table[batch.languages]], dim=2))
                mixture = scores[-1].softmax(dim=-1)
            else:
                mixture = weights[index]
            views = mixture @ layer.value(u)  # [B, T, 2, d]: the projection of every adapter's output, then the mix
            z = f + layer.combine(views.flatten(2))
            t = z + layer.task(self.encoder.norm(index, z + x))
            hidden = self.encoder.norm(index, t + x)
        return self.head(hidden), scores

    def minimise_entropy(self, batch: Batch, steps: int, lr: float) -> Tensor:
        """T + 2 forward passes: one for the scores, T with a step each, one for the tags. Label scores [B, T, C]."""
        with torch.no_grad():
            _, scores = self(batch)
        for _ in range(steps):
            leaves = [score.detach().requires_grad_() for score in scores]
            logits, _ = self(batch, [leaf.softmax(dim=-1) for leaf in leaves])
            p = logits.softmax(dim=-1)
            words = batch.words.to(p.dtype)
            entropy = (-(p * p.log()).sum(dim=-1) * words).sum(dim=-1) / words.sum(dim=-1)
            gradients = torch.autograd.grad(entropy.sum(), leaves)
            scores = [leaf.detach() - lr * gradient for leaf, gradient in zip(leaves, gradients, strict=True)]
        with torch.no_grad():
            final: Tensor = self(batch, [score.softmax(dim=-1) for score in scores])[0]
        return final

    def tag(self, sentences: Sequence[Sentence], steps: int, lr: float) -> Iterator[list[str]]:
        """Sentence by sentence, each padded to 128 pieces (a longer one to the next multiple)."""
        tagger = self.tagger[0]
        rows = tagger.prepare(list(dict.fromkeys(str(sentence.language) for sentence in sentences)))
        for sentence in sentences:
            corpus = tagger.pieces.encode([sentence], languages=rows).to(tagger.device)
            tags = []
            for row in range(len(corpus)):
                length = -(-(int(corpus.lengths[row]) + 2) // PADDED) * PADDED
                batch = corpus.batch(
                    torch.tensor([row], device=tagger.device), min(length, tagger.pieces.max_pieces + 2)
                )
                best = self.minimise_entropy(batch, steps, lr).argmax(dim=-1)
                tags += [tagger.labels[int(tag)] for tag in best[batch.words]]
            yield valid_iob2(tags) if tagger.task == "ner" else tags


class StackFuse(nn.Module):
    """Stack(Fuse(N), task) of `adapters` 1.3.0, module by module; hidden states of the last layer."""

    def __init__(self, encoder: Encoder, adapters: Sequence[LanguageAdapter], weighting: Any, task: Any) -> None:
        super().__init__()
        self.encoder = encoder
        layers = []
        for index in range(encoder.depth):
            layer = Layer([adapter.layers[index] for adapter in adapters], task[index], encoder.width, views=1)
            for name in ("query", "key"):
                _copy(getattr(layer, name), getattr(weighting.fusion[index], name))
            _copy(layer.value, weighting.value[index])
            layers.append(layer)
        self.layers = nn.ModuleList(layers).requires_grad_(False)

    @plain()
    def forward(self, batch: Batch) -> Tensor:
        hidden = self.encoder.embed(batch.input_ids)
        mask = batch.mask[:, None, None, :]
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            x, f = self.encoder.layer(index, hidden, mask)
            h = self.encoder.norm(index, f + x)
            u = layer.outputs(h)
            weights = layer.fusion_scores(h, u).softmax(dim=-1)
            z = (weights.unsqueeze(2) @ layer.value(u)).squeeze(2) + f
            t = z + layer.task(self.encoder.norm(index, z + x))
            hidden = self.encoder.norm(index, t + x)
        return hidden


class PlainMLM(nn.Module):
    """A frozen encoder with one language adapter under a masked-LM head that scores every position."""

    def __init__(self, encoder: Encoder, adapter: LanguageAdapter, head: Any) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.layers = nn.ModuleList(_copied(layer, encoder.width) for layer in adapter.layers)

    @plain()
    def forward(self, shown: Tensor, truth: Tensor) -> Tensor:
        """Mean loss of the masked places: shown [B, T]; truth [B, T], IGNORED where nothing was masked."""
        hidden = self.encoder.embed(shown)
        for index, adapter in enumerate(self.layers):
            x, f = self.encoder.layer(index, hidden, None)
            f = f + adapter(self.encoder.norm(index, f + x))
            hidden = self.encoder.norm(index, f + x)
        scores = self.head(hidden, self.encoder.model.embeddings.word_embeddings.weight)  # [B, T, V]
        return F.cross_entropy(scores.float().flatten(0, 1), truth.flatten(), ignore_index=IGNORED)


@torch.no_grad()
def _unfold(layer: Layer, weighting: Any, index: int, width: int) -> None:
    """W_q, W_k, W_v and C of this layer.

    A folded weighting has only their products, so W_k and W_v are the identity there: the same result by as many
    operations.
    """
    if hasattr(weighting, "score"):
        layer.query.weight.copy_(weighting.score[index].t())
        layer.query.bias.copy_(weighting.score_bias[index])
        for linear in (layer.key, layer.value):
            linear.weight.copy_(torch.eye(width))
        layer.key.bias.zero_()
        layer.combine.weight.copy_(weighting.project[index])  # type: ignore[operator]
        layer.combine.bias.copy_(weighting.mix_bias[index])  # type: ignore[operator]
    else:
        for name in ("query", "key"):
            _copy(getattr(layer, name), getattr(weighting.fusion[index], name))
        _copy(layer.value, weighting.value[index])
        _copy(layer.combine, weighting.combine[index])


def _copied(adapter: Any, width: int) -> Adapter:
    copied = Adapter(width, adapter.down.out_features, adapter.activation).to(adapter.down.weight.dtype)
    _copy(copied.down, adapter.down)
    _copy(copied.up, adapter.up)
    return copied


@torch.no_grad()
def _copy(into: Any, source: Any) -> None:
    into.weight.copy_(source.weight)
    if into.bias is not None:
        into.bias.zero_() if source.bias is None else into.bias.copy_(source.bias)

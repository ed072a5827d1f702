"""Language adapters by masked language modelling (MAD-X), many at once on one frozen encoder.

Text is packed into blocks without padding; 15% of the pieces of each block are masked (of these 80% become the mask,
10% a random piece, 10% stay) and only there is the next-to-last product, the one with the vocabulary, computed. The
N languages stand in one batch, each group of blocks going through its own adapter.

An encoder without a masked-LM head (the embedded one) gets a shared head first, trained on all languages:
``logits = E LN(gelu(W h)) + b`` with E the frozen word embeddings. Adapters may start from one shared adapter and may
be trained partly in mixture with another's (``mix``), so that a weighted sum of adapters means something.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.adapters.bank import Bank, LanguageAdapter
from zgul.adapters.bottleneck import Invertible
from zgul.corpora.encode import IGNORED, PieceEncoder
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError
from zgul.graphs import GraphedStep
from zgul.precision import autocast

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class MLMConfig:
    """Settings of masked-LM training."""

    steps: int = 2000
    blocks: int = 16  # blocks of each language in a step
    lr: float = 1e-3
    warmup: float = 0.05
    clip: float = 1.0
    masked: float = 0.15
    mix: float = 0.0  # share of the blocks that are read with another language's adapter mixed in
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.blocks < 1 or not 0 < self.masked < 1 or not 0 <= self.mix <= 1:
            raise ZgulError("masked-LM training needs steps and blocks >= 1, 0 < masked < 1 and 0 <= mix <= 1")


class MLMHead(nn.Module):
    """From a hidden state to scores of all pieces; the embeddings are the encoder's own and stay frozen."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        with torch.no_grad():
            self.dense.weight.copy_(torch.eye(width))
            self.dense.bias.zero_()

    def transform(self, hidden: Tensor) -> Tensor:  # [..., d] -> [..., d]
        """Into the space of the embeddings."""
        transformed: Tensor = self.norm(F.gelu(self.dense(hidden)))
        return transformed

    def decode(self, transformed: Tensor, embeddings: Tensor) -> Tensor:  # [..., d] -> [..., V]
        return F.linear(transformed, embeddings, self.bias)

    def forward(self, hidden: Tensor, embeddings: Tensor) -> Tensor:  # [..., d] -> [..., V]
        return self.decode(self.transform(hidden), embeddings)


def pack(pieces: PieceEncoder, lines: Iterable[str], length: int = 128) -> Tensor:
    """Lines of text as blocks [n, length] of piece ids: begin, text with ends between lines, end."""
    stream: list[int] = []
    for line in lines:
        words = line.split()
        if words:
            pieces.learn(words)
            for word in words:
                stream.extend(pieces.pieces(word))
            stream.append(pieces.end)
    room = length - 2
    count = len(stream) // room
    body = np.array(stream[: count * room], dtype=np.int32).reshape(count, room)
    return torch.from_numpy(np.pad(body, ((0, 0), (1, 1)), constant_values=((0, 0), (pieces.begin, pieces.end))))


def mask_pieces(
    ids: Tensor, share: float, mask_id: int, vocabulary: int, specials: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """ids [R, T] to masked ids [R, T], the places that were masked [R, k], and what stood there [R, k].

    A row with fewer than k pieces that are not special has places that stay as they are, their truth IGNORED.
    """
    count = max(1, round(share * ids.shape[1]))
    chance = torch.rand(ids.shape, device=ids.device).masked_fill(torch.isin(ids, specials), -1.0)
    drawn = chance.topk(count, dim=1)
    places, special = drawn.indices, drawn.values < 0
    truth = ids.gather(1, places)
    draw = torch.rand(truth.shape, device=ids.device)
    any_piece = torch.randint_like(truth, vocabulary)
    shown = torch.where(draw < 0.8, mask_id, torch.where(draw < 0.9, any_piece, truth))
    shown = torch.where(special, truth, shown)
    return ids.scatter(1, places, shown), places, truth.masked_fill(special, IGNORED)


class MaskedLM(nn.Module):
    """An encoder with a bank in it, under a masked-LM head."""

    specials: Tensor

    def __init__(
        self, encoder: Encoder, head: MLMHead, bank: Bank | None, pieces: PieceEncoder, masked: float = 0.15
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.bank, self.masked = encoder, head, bank, masked
        self.vocabulary = head.bias.shape[0]
        self.mask_id = int(pieces.tokenizer.mask_token_id)
        device = head.bias.device
        self.register_buffer("specials", torch.tensor([pieces.begin, pieces.end, pieces.pad], device=device))

    def hidden(self, ids: Tensor, order: Tensor | None = None, share: Tensor | None = None) -> Tensor:
        """ids [N B, T], the languages' blocks one after another, to hidden states [N B, T, d].

        With ``order`` and ``share`` [N B], each block is read with ``share`` of its own adapter and the rest of adapter
        ``order[n]``.
        """
        hidden = self.encoder.embed(ids)
        if self.bank is not None and len(self.bank.invertible):
            hidden = self._invertible(hidden, inverse=False)
        for index in range(self.encoder.depth):
            x, f = self.encoder.layer(index, hidden, None)
            if self.bank is not None:
                h = self.encoder.norm(index, f + x)
                groups = h.view(len(self.bank), -1, h.shape[-1])  # [N, B T, d]
                u = self.bank.grouped(index, groups).view_as(h)
                if order is not None and share is not None:
                    other = self.bank.grouped(index, groups, order).view_as(h)
                    u = torch.lerp(other, u, share[:, None, None].to(u.dtype))
                f = f + u
            hidden = self.encoder.norm(index, f + x)
        return hidden

    def _invertible(self, x: Tensor, *, inverse: bool) -> Tensor:
        assert self.bank is not None
        parts = []
        for block, group in zip(self.bank.invertible, x.chunk(len(self.bank)), strict=True):
            assert isinstance(block, Invertible)
            parts.append(block.inverse(group) if inverse else block(group))
        return torch.cat(parts)

    def forward(self, ids: Tensor, order: Tensor | None = None, share: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mask, read and guess: scores [N B k, V] and the truth [N B k]."""
        shown, places, truth = mask_pieces(ids, self.masked, self.mask_id, self.vocabulary, self.specials)
        hidden = self.hidden(shown, order, share)
        hidden = hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))  # [N B, k, d]
        guess = self.head.transform(hidden)
        if self.bank is not None and len(self.bank.invertible):  # the embeddings know nothing of the block
            guess = self._invertible(guess, inverse=True)
        embeddings = self.encoder.model.embeddings.word_embeddings.weight
        return self.head.decode(guess, embeddings).flatten(0, 1), truth.flatten()


def train_masked_lm(
    model: MaskedLM, blocks: Sequence[Tensor], config: MLMConfig, *, report: Report | None = None
) -> list[dict[str, Any]]:
    """Train whatever in the model asks for gradients on the blocks of each language; gives the course of the loss."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    device = parameters[0].device
    on_gpu = device.type == "cuda"
    lr = torch.tensor(config.lr, device=device) if on_gpu else config.lr
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.01, fused=on_gpu, capturable=on_gpu)
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    held = [block.to(device) for block in blocks]
    mixing = config.mix > 0 and len(held) > 1

    def update(ids: Tensor, order: Tensor, share: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=not on_gpu)
        with autocast(device, "auto"):
            scores, truth = model(ids, order, share) if mixing else model(ids)
            loss = F.cross_entropy(scores.float(), truth)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, config.clip)
        optimizer.step()
        return loss.detach()

    step_of = GraphedStep(update)
    model.train()
    started, history = time.monotonic(), []
    running, counted = torch.zeros((), device=device), 0
    every = max(1, min(100, config.steps // 10))
    for step in range(config.steps):
        value = config.lr * _schedule(step, config)
        if isinstance(lr, Tensor):
            lr.fill_(value)
        else:
            optimizer.param_groups[0]["lr"] = value
        rows = [torch.from_numpy(rng.integers(len(block), size=config.blocks)).to(device) for block in held]
        ids = torch.cat([block[row] for block, row in zip(held, rows, strict=True)]).long()
        order, share = _mixture(rng, len(held), len(ids), config.mix)
        running += step_of(ids=ids, order=order.to(device), share=share.to(device))
        counted += 1
        if (step + 1) % every == 0 or step + 1 == config.steps:
            loss = float(running / counted)
            running, counted = torch.zeros((), device=device), 0
            if not math.isfinite(loss):
                raise ZgulError(f"the loss is no longer a number at step {step + 1}; lower --lr (now {config.lr:g})")
            entry = {"step": step + 1, "steps": config.steps, "loss": loss, "seconds": time.monotonic() - started}
            entry["tokens"] = (step + 1) * ids.numel()
            history.append(entry)
            if report is not None:
                report(entry)
    model.eval()
    return history


@torch.no_grad()
def masked_scores(model: MaskedLM, blocks: Tensor, *, seed: int = 0, batch: int = 64) -> tuple[float, float]:
    """Masked accuracy in percent and perplexity on held-out blocks of one language (a bank of one adapter, or none)."""
    device = model.head.bias.device
    torch.manual_seed(seed)  # every adapter is asked about the same masked places
    model.eval()
    right, loss, total = 0, 0.0, 0
    for part in torch.split(blocks.to(device).long(), batch):
        with autocast(device, "auto"):
            scores, truth = model(part)
        right += int((scores.argmax(dim=-1) == truth).sum())
        loss += float(F.cross_entropy(scores.float(), truth, reduction="sum"))
        total += int((truth != IGNORED).sum())
    return 100 * right / max(total, 1), math.exp(min(loss / max(total, 1), 50))


def specialise(shared: LanguageAdapter, languages: Sequence[str]) -> list[LanguageAdapter]:
    """One copy of a shared adapter for each language."""
    import copy

    adapters = [copy.deepcopy(shared) for _ in languages]
    for adapter, language in zip(adapters, languages, strict=True):
        adapter.language = language
    return adapters


def _schedule(step: int, config: MLMConfig) -> float:
    warm = max(1.0, config.warmup * config.steps)
    return min((step + 1) / warm, (config.steps - step) / max(1.0, config.steps - warm))


def _mixture(rng: np.random.Generator, languages: int, rows: int, mix: float) -> tuple[Tensor, Tensor]:
    """Another adapter for each language, and each block's share of its own."""
    order = rng.permutation(languages)
    share = np.where(rng.random(rows) < mix, rng.uniform(0.3, 1.0, rows), 1.0)
    return torch.from_numpy(order), torch.from_numpy(share.astype(np.float32))

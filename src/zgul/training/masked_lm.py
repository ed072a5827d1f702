"""Masked language modelling (MAD-X): train many language adapters at once on one frozen encoder, or the encoder itself.

Text is packed into blocks without padding. In each block, 15% of the pieces are masked (80% of these become the mask,
10% a random piece, 10% stay). Scores of the vocabulary are computed only at these places. All N languages are in one
batch, and the blocks of each language go through its own adapter.

An encoder without a masked-LM head (the embedded one) first gets a shared head, trained on all languages: ``logits =
E LN(gelu(W h)) + b`` with E the frozen word embeddings. Adapters may start from one shared adapter.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.adapters.bank import Bank
from zgul.adapters.language_adapter import Invertible
from zgul.devices import mixed_precision
from zgul.encoders.batches import IGNORED, PieceEncoder
from zgul.encoders.encoder import Encoder, masked_attention
from zgul.errors import ZgulError
from zgul.fast.graphs import GraphedStep
from zgul.options import Options, option
from zgul.progress import Report, Status, silent
from zgul.training import distributed
from zgul.training.checkpoint import Progress, RunningCheckpoint
from zgul.training.optimiser import Optimiser, rate_share

BATCH = 64  # blocks that are scored at once


@dataclass(frozen=True)
class MLMConfig(Options):
    """Settings of masked-LM training."""

    steps: int = option(2000, "Training steps.", least=1)
    blocks: int = option(16, "Blocks of each language in a step.", least=1)
    lr: float = option(1e-3, "Learning rate [default: 1e-3; 5e-5 for a whole encoder].", least=0)
    warmup: float = option(0.05, "Share of the steps in which the learning rate rises.", least=0, most=1)
    clip: float = option(1.0, "Largest norm of the gradient.", above=0)
    masked: float = option(0.15, "Share of the pieces that are masked.", above=0, below=1)
    seed: int = option(0, "Random seed: order, masks, start.", least=0, below=2**32)


class MLMHead(nn.Module):
    """Maps hidden states to scores of all pieces. The embeddings are the encoder's own and stay frozen."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.eye_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def transform(self, hidden: Tensor) -> Tensor:  # [..., d] -> [..., d]
        """Map hidden states into the space of the embeddings."""
        return self.norm(F.gelu(self.dense(hidden)))  # type: ignore[no-any-return]

    def decode(self, transformed: Tensor, embeddings: Tensor) -> Tensor:  # [..., d] -> [..., V]
        return F.linear(transformed, embeddings, self.bias)


def pack_text(pieces: PieceEncoder, lines: Iterable[str], length: int = 128) -> Tensor:
    """Pack lines of text into blocks [n, length] of piece ids: begin, text with an end between lines, end."""
    specials = pieces.tokenizer
    stream = []
    for line in lines:
        if words := line.split():
            stream += [*pieces.pieces(words), np.array([specials.end], np.int32)]
    flat = np.concatenate([*stream, np.zeros(0, np.int32)])
    count, room = len(flat) // (length - 2), length - 2
    body = flat[: count * room].reshape(count, room)
    return torch.from_numpy(np.pad(body, ((0, 0), (1, 1)), constant_values=((0, 0), (specials.begin, specials.end))))


def mask_pieces(
    ids: Tensor, share: float, mask_id: int, vocabulary: int, specials: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Map ids [R, T] to masked ids [R, T], the masked places [R, k] and the true pieces there [R, k].

    If a row has fewer than k pieces that are not special, some places stay as they are. Their truth is IGNORED.
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

    def __init__(
        self, encoder: Encoder, head: MLMHead, bank: Bank | None, pieces: PieceEncoder, masked: float = 0.15
    ) -> None:
        super().__init__()
        tokenizer = pieces.tokenizer
        if tokenizer.mask is None:
            raise ZgulError("The tokenizer of this encoder has no mask piece, so nothing can be masked.")
        self.encoder, self.head, self.bank, self.masked = encoder, head, bank, masked
        self.vocabulary, self.mask_id = head.bias.shape[0], tokenizer.mask
        self.specials = nn.Buffer(torch.tensor([tokenizer.begin, tokenizer.end, tokenizer.pad]).to(head.bias.device))

    def hidden(self, ids: Tensor) -> Tensor:
        """Map ids [N B, T], the languages' blocks one after another, to hidden states [N B, T, d]."""
        hidden, attend = self._invertible(self.encoder.embed(ids), inverse=False), masked_attention(None)
        for index in range(self.encoder.depth):
            x, f = self.encoder.layer(index, hidden, attend)
            if self.bank is not None:
                f = f + self.adapt(self.bank, index, self.encoder.layer_norm(index, f + x))
            hidden = self.encoder.output(index, f + x)
        return hidden

    def adapt(self, bank: Bank, layer: int, h: Tensor) -> Tensor:
        """The adapters' outputs [N B, T, d] for hidden states of this shape: each language through its own adapter."""
        return bank.grouped(layer, h.view(len(bank), -1, h.shape[-1])).view_as(h)

    def _invertible(self, x: Tensor, *, inverse: bool) -> Tensor:
        """Send the blocks of each language through its own invertible block, if it has one."""
        blocks = list(self.bank.invertible) if self.bank is not None else []
        parts = zip(blocks, x.chunk(max(1, len(blocks))), strict=False)
        done = [block.inverse(own) if inverse else block(own) for block, own in parts if isinstance(block, Invertible)]
        return torch.cat(done) if done else x

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Mask, read and guess: scores [N B k, V] and the truth [N B k]."""
        shown, places, truth = self.mask(ids)
        return self.guess(shown, places), truth.flatten()

    def mask(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The masked ids [N B, T], the masked places [N B, k] and the true pieces there."""
        return mask_pieces(ids, self.masked, self.mask_id, self.vocabulary, self.specials)

    def guess(self, shown: Tensor, places: Tensor) -> Tensor:
        """Scores [N B k, V] of all pieces at the masked places."""
        hidden = self.hidden(shown)
        hidden = hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))  # [N B, k, d]
        guess = self._invertible(self.head.transform(hidden), inverse=True)  # back to the embeddings before the block
        return self.head.decode(guess, self.encoder.words.weight).flatten(0, 1)


def train_masked_lm(
    model: MaskedLM,
    blocks: Sequence[Tensor],
    config: MLMConfig,
    *,
    stage: str = "masked LM",
    report: Report = silent,
    checkpoint: RunningCheckpoint | None = None,
) -> None:
    """Train what requires gradients on the blocks of each language. ``report`` receives the mean loss.

    With a ``checkpoint``, Ctrl-C finishes the step and saves it, and a run that was stopped continues.
    """
    optimiser = Optimiser(model, lr=config.lr, weight_decay=0.01, clip=config.clip)
    device = optimiser.optimised[0].device
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    held = [block.to(device) for block in blocks]
    own = _own_rows(len(blocks), config.blocks, device)

    def update(ids: Tensor) -> Tensor:
        model.zero_grad()
        with mixed_precision(device, "auto"):
            shown, places, truth = model.mask(ids)  # of all blocks, so that all processes draw the same
            scores = model.guess(shown[own], places[own])
        loss = F.cross_entropy(scores.float(), truth[own].flatten(), reduction="sum") / (truth != IGNORED).sum()
        loss.backward()
        total = loss.detach()
        optimiser.step(total)
        return total

    step_of = GraphedStep(update, most=None if distributed.count() == 1 else 0)
    model.train()
    progress = checkpoint.resume(optimiser, stage) if checkpoint else Progress()
    for block in held * progress.step:  # the draws of the steps that are done
        rng.integers(len(block), size=config.blocks)
    running, counted = torch.tensor(progress.loss, device=device), progress.counted
    every = max(1, min(100, config.steps // 10))
    for step in range(progress.step, config.steps):
        optimiser.set_lr(config.lr * rate_share(step, config.steps, config.warmup))
        drawn = [torch.from_numpy(rng.integers(len(block), size=config.blocks)).to(device) for block in held]
        ids = torch.cat([block[row] for block, row in zip(held, drawn, strict=True)]).long()
        running += step_of(ids=ids)
        counted += 1
        done = (step + 1) % every == 0 or step + 1 == config.steps
        if done or device.type == "cpu":  # reading the loss waits for a GPU
            loss = float(running / counted)
            if not math.isfinite(loss):
                raise ZgulError(f"The loss is no longer a number at step {step + 1}. Lower --lr (now {config.lr:g}).")
            report(Status(stage, step + 1, config.steps, {"loss": loss}))
        if done:
            running, counted = torch.zeros((), device=device), 0
        if checkpoint and checkpoint.is_due(device):
            checkpoint.save(optimiser, stage, Progress(step=step + 1, loss=float(running), counted=counted))
    model.eval()


def _own_rows(languages: int, blocks: int, device: torch.device) -> Tensor | slice:
    """The rows of a batch that this process computes: some blocks of each language."""
    if distributed.count() == 1:
        return slice(None)
    if blocks < distributed.count():
        raise ZgulError(f"{distributed.count()} processes need at least as many blocks in a step. Raise --blocks.")
    rows = torch.arange(languages * blocks, device=device).view(languages, -1)
    return rows[:, distributed.own_part(blocks)].flatten()


@torch.no_grad()
def masked_scores(model: MaskedLM, blocks: Tensor) -> tuple[float, float]:
    """Masked accuracy in percent and perplexity on held-out blocks of one language (a bank of one adapter, or none)."""
    torch.manual_seed(0)  # so that the same places are masked for every adapter
    model.eval()
    right, loss, total = 0, 0.0, 0
    for part in torch.split(blocks.to(model.head.bias.device).long(), BATCH):
        scores, truth = model(part)
        right += int((scores.argmax(dim=-1) == truth).sum())
        loss += float(F.cross_entropy(scores.float(), truth, reduction="sum"))
        total += int((truth != IGNORED).sum())
    return 100 * right / max(total, 1), math.exp(min(loss / max(total, 1), 50))

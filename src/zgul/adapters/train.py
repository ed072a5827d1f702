"""From raw text of a language to its adapter, or to an encoder pre-trained further on it (the paper's mBERT^tgt).

The text gives blocks for training and, from every 40th line, blocks that are held out. A masked-LM head comes from a
file or is trained first on the same text, under the encoder as it is; then the adapter (or, with ``full``, encoder and
head) is trained under it. What this brought is measured on the held-out blocks: masked accuracy and perplexity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zgul.adapters.bank import Bank, LanguageAdapter
from zgul.adapters.mlm import MaskedLM, MLMConfig, MLMHead, masked_scores, pack, train_masked_lm
from zgul.corpora.encode import PieceEncoder
from zgul.corpora.lines import Lines
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError
from zgul.tensors import load_with_metadata, save_tensors

HELD_OUT = 40  # every 40th line is held out
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class AdapterConfig:
    """How a language adapter is trained; the shape is MAD-X's by default."""

    size: int = 0  # of the bottleneck; 0: half the encoder's width
    activation: str = "relu"
    invertible: bool = False
    full: bool = False  # train the encoder instead of an adapter
    block: int = 128  # pieces in a block
    head_steps: int = 0  # for a head that has to be trained first; 0: as many as for the adapter
    mlm: MLMConfig = field(default_factory=MLMConfig)


@dataclass
class Blocks:
    """Text as blocks of pieces."""

    train: Tensor  # [n, length]
    held_out: Tensor
    lines: int


@dataclass
class Trained:
    """What came out; ``scores`` has masked accuracy in percent and perplexity on held-out text."""

    adapter: LanguageAdapter | None  # None with ``full``: the encoder itself was trained
    head: MLMHead
    scores: dict[str, tuple[float, float]]


def read_blocks(paths: Sequence[Path], pieces: PieceEncoder, length: int) -> Blocks:
    """Read text files (a sentence or paragraph a line, perhaps compressed)."""
    train: list[str] = []
    held: list[str] = []
    for path in paths:
        for number, line in enumerate((line for line in Lines(path) if line.strip()), start=1):
            (held if number % HELD_OUT == 0 else train).append(line)
    known = set(train)
    held = [line for line in held if line not in known]  # a line that is also trained on proves nothing
    blocks = Blocks(pack(pieces, train, length), pack(pieces, held, length), len(train) + len(held))
    if not len(blocks.train) or not len(blocks.held_out):
        raise ZgulError(
            f"too little text: {len(train)} lines to train on and {len(held)} held out do not fill a block of "
            f"{length} pieces each; give more text, or smaller blocks with --block"
        )
    return blocks


def train_adapter(
    language: str,
    blocks: Blocks,
    encoder: Encoder,
    pieces: PieceEncoder,
    config: AdapterConfig,
    *,
    head: MLMHead | None = None,
    others: Sequence[LanguageAdapter] = (),
    report: Report | None = None,
) -> Trained:
    """Train an adapter (or the encoder) for a language on the encoder's device.

    The held-out text is also read with the adapters of ``others``: the own one should be best.
    """
    device = next(encoder.parameters()).device
    encoder.requires_grad_(False)
    if head is None:
        head = _train_head(blocks, encoder, pieces, config, report)
    head = head.to(device).requires_grad_(False)
    torch.manual_seed(config.mlm.seed)
    before = masked_scores(MaskedLM(encoder, head, None, pieces, config.mlm.masked), blocks.held_out)
    if config.full:
        encoder.requires_grad_(True)
        head.requires_grad_(True)
        model = MaskedLM(encoder, head, None, pieces, config.mlm.masked)
        train_masked_lm(model, [blocks.train], config.mlm, report=_staged(report, "encoder"))
        encoder.requires_grad_(False)
        return Trained(None, head, {"before": before, "after": masked_scores(model, blocks.held_out)})
    adapter = LanguageAdapter.new(
        language,
        encoder.width,
        encoder.depth,
        size=config.size or None,
        activation=config.activation,
        invertible=config.invertible,
    )
    bank = Bank([adapter], width=encoder.width, depth=encoder.depth).to(device)
    bank.requires_grad_(True)
    model = MaskedLM(encoder, head, bank, pieces, config.mlm.masked)
    train_masked_lm(model, [blocks.train], config.mlm, report=_staged(report, f"adapter {language}"))
    scores = {"none": before}
    for other in others:
        alone = Bank([other], width=encoder.width, depth=encoder.depth).to(device)
        foreign = MaskedLM(encoder, head, alone, pieces, config.mlm.masked)
        scores[other.language] = masked_scores(foreign, blocks.held_out)
    scores[language] = masked_scores(model, blocks.held_out)
    return Trained(_on_cpu(bank.extract(language)), head, scores)


def _train_head(
    blocks: Blocks, encoder: Encoder, pieces: PieceEncoder, config: AdapterConfig, report: Report | None
) -> MLMHead:
    from dataclasses import replace

    embeddings = encoder.model.embeddings.word_embeddings.weight
    head = MLMHead(encoder.width, len(embeddings)).to(embeddings.device)
    steps = replace(config.mlm, steps=config.head_steps or config.mlm.steps)
    model = MaskedLM(encoder, head, None, pieces, config.mlm.masked)
    train_masked_lm(model, [blocks.train], steps, report=_staged(report, "masked-LM head"))
    return head


def save_head(path: Path, head: MLMHead, encoder_name: str) -> None:
    """A masked-LM head as a file."""
    save_tensors(path, head.state_dict(), metadata={"head": encoder_name})


def load_head(path: Path, encoder: Encoder) -> MLMHead:
    """Read a head written by ``save_head``; refused where it was made for another encoder."""
    tensors, metadata = load_with_metadata(path)
    if "head" not in metadata:
        raise ZgulError(f"{path} holds no masked-LM head")
    vocabulary = len(encoder.model.embeddings.word_embeddings.weight)
    head = MLMHead(encoder.width, vocabulary)
    try:
        head.load_state_dict(tensors)
    except RuntimeError as error:
        raise ZgulError(
            f"{path} was made for another encoder ({metadata['head']}): this one has width {encoder.width} and "
            f"{vocabulary} pieces. Leave --head out to train a new one."
        ) from error
    return head


def _on_cpu(adapter: LanguageAdapter) -> LanguageAdapter:
    for layer in adapter.layers:
        layer.cpu().requires_grad_(False)
    if adapter.invertible is not None:
        adapter.invertible.cpu().requires_grad_(False)
    return adapter


def _staged(report: Report | None, stage: str) -> Report | None:
    return None if report is None else lambda status: report({"stage": stage} | status)

"""A run on unlabelled text of a target: its language adapter, and the encoder pre-trained further (mBERT^tgt).

Both stand on the encoder as it is and on one masked-LM head, which comes from a file or is trained first on the same
text. A share of the text is the first lines of one fixed shuffle, so that a larger share contains a smaller one.
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zgul.adapters.storage import save_adapters
from zgul.encoders.pieces import PieceEncoder
from zgul.paper.plan import Run
from zgul.paper.resources import Resources
from zgul.progress import Report, silent
from zgul.tensors import save_tensors
from zgul.training.adapter_training import AdapterConfig, Blocks, load_head, split_text, train_adapter

ADAPTER = "adapter.safetensors"
ENCODER = "encoder.safetensors"
BLOCK = 128  # pieces
JUDGED = 64  # held-out blocks at most: about 1,200 masked pieces


def read_text(
    run: Run, resources: Resources, folder: Path, device: torch.device, report: Report = silent
) -> dict[str, Any]:
    """Train adapter and encoder on a share of the text and save them. Returns how well they fill masked places."""
    config, language = run.config, str(run.extra["language"])
    encoder, tokenizer = resources.encoder()
    pieces = PieceEncoder(tokenizer, encoder.max_pieces)
    blocks = share_of_text(resources, language, run.extra["share"], config["lines"], pieces)
    encoder.to(device)
    plain = AdapterConfig(steps=config["steps"], blocks=config["blocks"], lr=config["lr"], seed=run.seed)
    head = load_head(Path(resources.inputs.head), encoder) if resources.inputs.head else None
    started = time.monotonic()
    small = train_adapter(language, blocks, encoder, pieces, plain, head=head, report=report)
    between = time.monotonic()
    assert small.adapter is not None
    whole = replace(plain, full=True, lr=config["encoder_lr"])
    full = train_adapter(language, blocks, encoder, pieces, whole, head=copy.deepcopy(small.head), report=report)
    save_adapters(folder / ADAPTER, [small.adapter])
    save_tensors(folder / ENCODER, encoder.state_dict(), bits=16)
    return {
        "lines": blocks.lines,
        "blocks": len(blocks.train),
        "adapter_seconds": round(between - started, 2),
        "encoder_seconds": round(time.monotonic() - between, 2),
        "masked_accuracy": {
            "before": round(small.scores["none"][0], 3),
            "adapter": round(small.scores[language][0], 3),
            "encoder": round(full.scores["after"][0], 3),
        },
    }


def share_of_text(resources: Resources, language: str, share: float, most: int, pieces: PieceEncoder) -> Blocks:
    """Blocks of a share of a language's text (of ``most`` lines, unless 0)."""
    lines = list(dict.fromkeys(resources.data.text_lines(language)))
    order = np.random.default_rng(5).permutation(len(lines))[: most or None]
    chosen = [lines[int(index)] for index in order[: max(1, round(share * len(order)))]]
    blocks = split_text(chosen, pieces, min(BLOCK, pieces.max_pieces + 2))
    return replace(blocks, held_out=blocks.held_out[:JUDGED])

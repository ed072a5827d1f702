"""A run on unlabelled text of a target: its language adapter, and the encoder pre-trained further (mBERT^tgt).

Both stand on the encoder as it is and on one masked-LM head, which comes from a file or is trained first on the same
text. A share of the text is the first lines of one fixed shuffle, so that a larger share contains a smaller one.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zgul import corpora
from zgul.adapters.mlm import MLMConfig, pack
from zgul.adapters.storage import save_adapters
from zgul.adapters.train import HELD_OUT, AdapterConfig, Blocks, load_head, train_adapter
from zgul.corpora.encode import PieceEncoder
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError
from zgul.experiments.plan import Run
from zgul.experiments.resources import Resources
from zgul.tensors import save_tensors

ADAPTER = "adapter.safetensors"
ENCODER = "encoder.safetensors"
BLOCK = 128  # pieces
JUDGED = 64  # held-out blocks at most: about 1,200 masked pieces
Report = Callable[[dict[str, Any]], None]


def adapt(
    run: Run, resources: Resources, folder: Path, device: torch.device, report: Report | None = None
) -> dict[str, Any]:
    """Train adapter and encoder on a share of the text and save them; gives how well they fill masked places."""
    config, language = run.config, str(run.extra["language"])
    model, tokenizer = resources.encoder()
    encoder = Encoder(model)
    pieces = PieceEncoder(tokenizer, encoder.max_pieces)
    blocks = share_of_text(resources.inputs.data, language, run.extra["share"], config["lines"], pieces)
    encoder.to(device)
    mlm = MLMConfig(steps=config["steps"], blocks=config["blocks"], lr=config["lr"], seed=run.seed)
    plain = AdapterConfig(mlm=mlm)
    head = load_head(Path(resources.inputs.head), encoder) if resources.inputs.head else None
    started = time.monotonic()
    small = train_adapter(language, blocks, encoder, pieces, plain, head=head, report=report)
    between = time.monotonic()
    assert small.adapter is not None
    whole = replace(plain, full=True, mlm=replace(mlm, lr=config["encoder_lr"]))
    full = train_adapter(language, blocks, encoder, pieces, whole, head=copy.deepcopy(small.head), report=report)
    save_adapters(folder / ADAPTER, [small.adapter])
    save_tensors(folder / ENCODER, model.state_dict(), bits=16)
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


def share_of_text(data: Path, language: str, share: float, most: int, pieces: PieceEncoder) -> Blocks:
    """Blocks of a share of a language's text (of ``most`` lines, unless 0), every 40th line held out."""
    lines = list(dict.fromkeys(corpora.load_text(data, language)))
    order = np.random.default_rng(5).permutation(len(lines))[: most or None]
    chosen = [lines[int(index)] for index in order[: max(1, round(share * len(order)))]]
    length = min(BLOCK, pieces.max_pieces + 2)
    held = set(chosen[HELD_OUT - 1 :: HELD_OUT])
    train = pack(pieces, [line for line in chosen if line not in held], length)
    held_out = pack(pieces, [line for line in chosen if line in held], length)[:JUDGED]
    if not len(train) or not len(held_out):
        raise ZgulError(f"too little text of {language}: {len(chosen)} lines fill no block of {length} pieces each")
    return Blocks(train, held_out, len(chosen))

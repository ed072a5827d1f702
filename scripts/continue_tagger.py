"""Train a shipped tagger further on the sources of one group: a group that is too small to start from nothing.

    python scripts/continue_tagger.py FROM --group african --data DIR --output DIR [--adapters FILE] [--epochs 2]

FROM is a saved tagger over all sources (folded). Nothing in what it learnt depends on how many adapters the bank
holds, so its weights are taken as they are, over the bank of the group alone, and trained on.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from zgul.adapters.storage import load_adapters
from zgul.ensemble.weighting import ZGUL, Folded
from zgul.languages import GROUPS
from zgul.methods.tagger import Tagger
from zgul.tensors import load_tensors, read_json
from zgul.training.config import TrainingConfig
from zgul.training.data import load_labelled
from zgul.training.loop import Trainer, seed_everything

SHIPPED = Path(__file__).resolve().parents[1] / "src" / "zgul" / "tagging" / "shipped"


def start(folder: Path, config: TrainingConfig, adapters: Path) -> Tagger:
    """The tagger in ``folder`` over another bank, ready to be trained on."""
    saved: dict[str, Any] = read_json(folder / "config.json")
    held = load_adapters(adapters)
    tagger = Tagger.new(
        saved["method"],
        encoder=config.encoder,
        task=saved["task"],
        labels=saved["labels"],
        sources=config.sources,
        adapters=[adapter for adapter in held if adapter.language in config.sources],
        options=config.options,
    )
    assert isinstance(tagger.model.weighting, ZGUL)
    tagger.model.weighting = Folded(tagger.model.weighting)
    state = load_tensors(folder / "model.safetensors")
    own = dict(tagger.model.named_parameters())
    with torch.no_grad():
        for name, value in state.items():
            own[name].copy_(value)
    tagger.trained = list(state)
    return tagger


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=Path)
    parser.add_argument("--group", required=True, choices=list(GROUPS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--adapters", type=Path, default=SHIPPED / "adapters.safetensors")
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=2100)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    torch.set_num_threads(told.threads)
    saved: dict[str, Any] = read_json(told.start / "config.json")
    training = saved["about"]["training"]
    group = GROUPS[told.group]
    config = TrainingConfig.from_dict(
        {
            "method": saved["method"],
            "group": told.group,
            "task": group.task,
            "sources": group.sources,
            "data": str(told.data),
            "encoder": told.encoder,
            "options": saved["options"],
            "noise": training["noise"],
            "language_lr": training["language_lr"],
            "label_set_per_corpus": training["label_set_per_corpus"],
            "unannotated": training["unannotated"],
            "epochs": told.epochs,
            "limit": told.limit,
            "lr": told.lr,
            "batch_size": told.batch_size,
            "accumulate": 1,
            "max_pieces": 96,
            "precision": "bfloat16",
            "seed": told.seed,
        }
    )
    data = load_labelled(config)
    assert data.labels == saved["labels"], "the group's corpora must use the labels of the tagger they start from"
    english = [sentence for sentence in data.dev if sentence.language == "en"][:250]
    data.dev = english + [sentence for sentence in data.dev if sentence.language != "en"]
    seed_everything(told.seed)
    tagger = start(told.start, config, told.adapters)
    trainer = Trainer(tagger, data, config, told.output)
    said = [0.0]

    def report(status: dict[str, Any]) -> None:
        if "dev_f1" in status or time.monotonic() - said[0] > 20:
            said[0] = time.monotonic()
            print(time.strftime("%H:%M:%S"), json.dumps(status), flush=True)

    told.output.mkdir(parents=True, exist_ok=True)
    history = trainer.run(resume=True, report=report)
    tagger.encoder_name = "embedded"
    tagger.about = {"training": asdict(config) | {"data": ""}, "started_from": told.start.name, "history": history}
    for name, bits in (("full", 32), ("shipped", 8)):
        tagger.save_pretrained(told.output / name, bits=bits, folded=True, bank=False)
    (told.output / "checkpoint.safetensors").unlink(missing_ok=True)


if __name__ == "__main__":
    main()

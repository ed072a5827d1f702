"""Train a tagger over all sources further on the sources of one group: a group too small to start from nothing.

    python scripts/continue_tagger.py FROM --group african --data DIR --output RUN [--adapters FILE] [--epochs 2]

FROM is a saved tagger over all sources (folded). Nothing in what it learnt depends on how many adapters the bank
holds, so its weights are taken as they are, over the bank of the group alone, and trained on. Writes
RUN/full/GROUP-TASK and RUN/taggers/GROUP-TASK (9-bit) and adds the F1 of both on the group's targets to
RUN/results.jsonl. Where these folders are there already, it only measures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from embedded_taggers import SHIPPED_BITS, load_saved, record, score, shipped_name

from zgul.adapters.storage import load_adapters
from zgul.ensemble.weighting import ZGUL, Folded
from zgul.languages import GROUPS
from zgul.methods.tagger import Tagger
from zgul.tensors import load_tensors, read_json
from zgul.training.config import TrainingConfig
from zgul.training.data import LabelledData, load_labelled
from zgul.training.loop import Trainer, seed_everything

SHIPPED = Path(__file__).resolve().parents[1] / "src" / "zgul" / "tagging" / "shipped"
ENGLISH_DEV = 250  # sentences: the large English dev set would decide alone which weights are kept


def configure(told: argparse.Namespace) -> TrainingConfig:
    """The settings of the tagger it starts from, but for what is said on the command line."""
    saved: dict[str, Any] = read_json(told.start / "config.json")
    training = saved["about"]["training"]
    kept = ("noise", "language_lr", "label_set_per_corpus", "unannotated")
    group = GROUPS[told.group]
    return TrainingConfig.from_dict(
        {name: training[name] for name in kept}
        | {
            "method": saved["method"],
            "group": told.group,
            "task": group.task,
            "sources": group.sources,
            "data": str(told.data),
            "encoder": told.encoder,
            "options": saved["options"],
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


def read(config: TrainingConfig, labels: list[str]) -> LabelledData:
    """The group's labelled data, with little of the English dev set."""
    data = load_labelled(config)
    if data.labels != labels:
        sys.exit(f"the group's corpora have the labels {data.labels}, the tagger to start from has {labels}")
    english = [sentence for sentence in data.dev if sentence.language == "en"][:ENGLISH_DEV]
    data.dev = english + [sentence for sentence in data.dev if sentence.language != "en"]
    return data


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


def train(told: argparse.Namespace, config: TrainingConfig, full: Path, shipped: Path) -> None:
    """Train on and save in full precision and as it ships."""
    data = read(config, read_json(told.start / "config.json")["labels"])  # type: ignore[arg-type]
    seed_everything(told.seed)
    tagger = start(told.start, config, told.adapters).to("cuda" if torch.cuda.is_available() else "cpu")
    said = time.monotonic()

    def report(status: dict[str, Any]) -> None:
        nonlocal said
        if "dev_f1" in status or time.monotonic() - said > 20:
            said = time.monotonic()
            print(time.strftime("%H:%M:%S"), json.dumps(status), flush=True)

    checkpoint = told.output / "continued"
    checkpoint.mkdir(parents=True, exist_ok=True)
    history = Trainer(tagger, data, config, checkpoint).run(resume=True, report=report)
    tagger.encoder_name = shipped_name(told.encoder)
    tagger.about = {
        "training": config.to_dict() | {"data": "", "encoder": tagger.encoder_name},
        "started_from": told.start.name,
        "history": history,
    }
    for folder, bits in ((full, 32), (shipped, SHIPPED_BITS)):
        tagger.save_pretrained(folder, bits=bits, folded=True, bank=False)
    (checkpoint / "checkpoint.safetensors").unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> None:
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
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (0: as torch likes)")
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args(arguments)
    if told.threads:
        torch.set_num_threads(told.threads)
    config = configure(told)
    name = f"{told.group}-{config.task}"
    full, shipped = (told.output / kind / name for kind in ("full", "taggers"))
    if not (shipped / "config.json").is_file():
        train(told, config, full, shipped)
    targets = GROUPS[told.group].targets
    spec = {"test": [[target, "test"] for target in targets], "strategies": ["plain"]}
    result: dict[str, Any] = {"name": name, "config": config.to_dict() | {"data": ""}, "started_from": told.start.name}
    result["save_bits"] = [SHIPPED_BITS]
    for key, folder in (("f1", full), (f"f1_{SHIPPED_BITS}bit", shipped)):
        result[key] = score(load_saved(folder, told.adapters, told.encoder), spec, told.data)
        print(key, result[key], flush=True)
    record(told.output, result)


if __name__ == "__main__":
    main()

"""Train the taggers that ship with the package, and the runs that chose their settings, on a GPU machine.

    python scripts/embedded_taggers.py PLAN.json --data DIR --output DIR [--encoder embedded] [--jobs 4]

A plan is a list of runs: {"name", "config" (a TrainingConfig), "adapters" (file), "test": [[language, split], ...],
"shifts": forms of the test files (strange_text.py), "strategies": [...], "em": true, "save": true, "save_bits": [9]}.
A run whose config has "start" trains a shipped tagger further; with "untrained" it only scores that tagger.
Each run appends one line to OUTPUT/results.jsonl when it is done, so a stopped job keeps what it finished. Taggers are
saved merged: with the first of save_bits (9 by default), which ships, in OUTPUT/taggers, with 16 in
OUTPUT/taggers-16bit and so on. "f1" is that of full precision, "f1_9bit" that of the file read back.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parent))
from ship import read_results
from strange_text import ALL_FORMS

from zgul import encoders
from zgul.adapters.language_adapter import select_adapters
from zgul.adapters.storage import load_adapters
from zgul.corpora.data_folder import DataFolder
from zgul.ensemble.em import EMConfig
from zgul.evaluation import scores
from zgul.files import atomic_write
from zgul.languages import GROUPS
from zgul.tagger import Tagger, load_tagger, save_tagger
from zgul.training.config import TrainingConfig
from zgul.training.labelled_data import load_labelled
from zgul.training.run import choose_em, find_dev_sets, load_start, new_tagger
from zgul.training.trainer import Trainer

SHIPPED_BITS = 9  # per number; what this costs is measured in every run that saves
EM_SENTENCES = 150


@dataclass(frozen=True)
class Places:
    """Where a plan finds its data and leaves its results."""

    data: Path
    output: Path
    adapters: Path  # folder of the adapter files that runs name
    encoder: str

    def record(self, result: dict[str, Any]) -> None:
        with (self.output / "results.jsonl").open("a") as file:
            file.write(json.dumps(result) + "\n")


def run(spec: dict[str, Any], places: Places) -> dict[str, Any]:
    """Train and score one tagger."""
    config = resolve(spec["config"], places)
    started = time.monotonic()
    if config.start:
        tagger = load_start(config)
        data = load_labelled(config, labels=tagger.labels)
    else:
        data = load_labelled(config)
        bank = load_adapters(places.adapters / spec["adapters"]) if spec.get("adapters") else []
        own = [code for code in config.kept_sources if code in {adapter.language for adapter in bank}]
        # further languages have no adapter: ZGUL weights those of the others for them
        banked = replace(config, sources=tuple(own or config.kept_sources), leave_out=())
        tagger = new_tagger(banked, data.labels, adapters=select_adapters(bank, own) if bank else [])
        tagger.model.start_head_at(data.label_shares().to(tagger.device))
    trainer = Trainer(tagger, data, config)
    loaded = time.monotonic()
    history = [] if spec.get("untrained") else trainer.run()
    trained = time.monotonic()
    settings = config.to_dict() | {"data": "", "encoder": "", "device": ""}
    result: dict[str, Any] = {
        "name": spec["name"],
        "config": settings,
        "steps": trainer.total_steps,
        "load_seconds": round(loaded - started, 1),
        "train_seconds": round(trained - loaded, 1),
        "dev_f1": [round(entry["dev_f1"], 2) for entry in history],
    }
    dev_sets = find_dev_sets(config) if spec.get("em") else {}
    if dev_sets:
        em, result["em"] = choose_em(tagger, config, dev_sets)
        tagger = replace(tagger, em=em)
    else:  # EM is off, because no settings were tuned for this tagger
        tagger = replace(tagger, em={"": EMConfig(steps=0)})
    result["f1"] = score(tagger, spec, places.data)
    if spec.get("save"):
        about = {"training": settings, "history": history, "em": result.get("em")}
        result |= save(replace(tagger, about=about, encoder_name=shipped_name(places.encoder)), spec, places)
    return result | {"test_seconds": round(time.monotonic() - trained, 1)}


def resolve(values: dict[str, Any], places: Places) -> TrainingConfig:
    """A run's configuration. A group stands for its task and sources."""
    if group := GROUPS.get(values.get("group", "")):
        values = {"task": group.task, "sources": group.sources} | values
    own = {"data": str(places.data), "encoder": places.encoder, "em_sentences": EM_SENTENCES}
    return TrainingConfig.from_dict(values | own)


def save(tagger: Tagger, spec: dict[str, Any], places: Places) -> dict[str, Any]:
    """Save a tagger in every form asked for. Returns the size and F1 of each."""
    forms = spec.get("save_bits", [SHIPPED_BITS])
    result: dict[str, Any] = {"save_bits": forms, "bytes": {}}
    for bits in forms:
        folder = places.output / ("taggers" if bits == forms[0] else f"taggers-{bits}bit") / spec["name"]
        save_tagger(tagger, folder, bits=bits, merged=True, bank=False)
        result["bytes"][str(bits)] = (folder / "model.safetensors").stat().st_size
        reloaded = load_saved(folder, places.adapters / spec["adapters"], places.encoder).to(tagger.device)
        result[f"f1_{bits}bit"] = score(reloaded, spec, places.data)
    return result


def score(tagger: Tagger, spec: dict[str, Any], data: Path) -> dict[str, float]:
    """F1 on every test file by every strategy."""
    result = {}
    for language, split in spec.get("test", []):
        sentences = DataFolder(data).sentences(tagger.task, language, split)
        gold = [sentence.tags or [] for sentence in sentences]
        for form in spec.get("shifts", [""]):
            changed = ALL_FORMS[form](sentences)
            for strategy in spec.get("strategies", ["plain"]):
                if strategy not in tagger.method.strategies:
                    continue
                predicted = tagger.predict(changed, strategy=strategy)
                f1 = scores(gold, [prediction.tags for prediction in predicted]).f1
                result["/".join(filter(None, (language, split, form, strategy)))] = round(f1, 3)
    return result


def shipped_name(encoder: str) -> str:
    """What a saved tagger calls its encoder: a pruned copy of the embedded one is the embedded one."""
    return "embedded" if encoder.endswith(".q4.safetensors") else encoder


def load_saved(folder: Path, adapters: Path, encoder: str) -> Tagger:
    """Load a tagger of RUN/taggers. The language adapters that it was trained with are copied into that folder."""
    beside = folder.parent / "adapters.safetensors"
    if not beside.exists():
        with atomic_write(beside, "wb") as file:  # runs finish side by side
            file.write(adapters.read_bytes())
    with mock.patch.dict(os.environ, ZGUL_TAGGERS=str(folder.parent)):
        return load_tagger(folder, encoder=encoder)


def run_safely(spec: dict[str, Any], places: Places) -> dict[str, Any]:
    """Run in a process of its own. A failed run is recorded and does not stop the others."""
    torch.set_num_threads(2)
    try:
        return run(spec, places)
    except Exception as error:
        traceback.print_exc()
        return {"name": spec["name"], "error": f"{type(error).__name__}: {error}"}


def run_plan(plan: Path, places: Places, jobs: int) -> None:
    """Run a plan in ``jobs`` processes, or in this one if that is 0."""
    run_specs(json.loads(plan.read_text()), places, jobs)


def run_specs(specs: list[dict[str, Any]], places: Places, jobs: int) -> None:
    """Do the runs that are not done, in their order."""
    places.output.mkdir(parents=True, exist_ok=True)
    done = read_results(places.output / "results.jsonl")
    specs = [spec for spec in specs if spec["name"] not in done]
    if jobs == 0:
        for spec in specs:
            places.record(run(spec, places))
        return
    encoders.load(places.encoder)  # once, so that the workers find what it may cache
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run_safely, spec, places) for spec in specs]):
            result = done.result()
            places.record(result)
            print(result["name"], result.get("error") or f"dev {result['dev_f1'][-1:]}, {result['f1']}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--adapters", type=Path, default=Path(), help="folder of the adapter files that runs name")
    parser.add_argument("--jobs", type=int, default=4, help="processes that train side by side (0: this one)")
    given = parser.parse_args(arguments)
    run_plan(given.plan, Places(given.data, given.output, given.adapters, given.encoder), given.jobs)


if __name__ == "__main__":
    main()

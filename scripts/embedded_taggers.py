"""Train the taggers that ship with the package, and the runs by which their settings were chosen, on a GPU machine.

    python scripts/embedded_taggers.py PLAN.json --data DIR --output DIR [--encoder embedded] [--jobs 4]

A plan is a list of runs: {"name", "config" (as zgul.training), "adapters" (file), "test": [[language, split], ...],
"strategies": [...], "em": true, "save": true}. Each run appends one line to OUTPUT/results.jsonl when it is done, so a
stopped job counts for what it finished. Left-out sources are scored as they are, with character noise ("noised") and
under regular letter changes ("shifted"): two stand-ins for a related language that the encoder has never seen, made
without any target data.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from zgul import corpora, encoders
from zgul.adapters.storage import load_adapters
from zgul.corpora import Sentence
from zgul.evaluation import scores
from zgul.languages import GROUPS
from zgul.methods.tagger import Tagger
from zgul.training.config import TrainingConfig
from zgul.training.data import load_labelled
from zgul.training.loop import Trainer, seed_everything
from zgul.training.noise import CharacterNoise, letter_counts
from zgul.training.run import choose_settings, find_judges


def shifted(sentences: list[Sentence], share: float = 0.2, seed: int = 1) -> list[Sentence]:
    """The same sentences in a made-up sister language: a share of the letters regularly becomes another one."""
    rng = np.random.default_rng(seed)
    counts = next(iter(letter_counts(sentences).values()))
    letters = [letter for letter, _ in counts.most_common(40) if letter.isalpha()]
    chosen = rng.choice(len(letters), max(1, round(share * len(letters))), replace=False)
    table = {}
    for index in chosen:
        other = letters[int(rng.integers(len(letters)))]
        table[ord(letters[index])] = other
        table[ord(letters[index].upper()[0])] = other.upper()
    return [replace(s, words=[word.translate(table) for word in s.words]) for s in sentences]


def noised(sentences: list[Sentence], seed: int = 1) -> list[Sentence]:
    """The same sentences with one edit in every second word."""
    noise = CharacterNoise(letter_counts(sentences), sentence_share=1.0, word_share=0.5, edits=1)
    words = noise.apply([s.words for s in sentences], [s.language for s in sentences], np.random.default_rng(seed))
    return [replace(s, words=list(w)) for s, w in zip(sentences, words, strict=True)]


SHIFTS = {"": lambda sentences: sentences, "noised": noised, "shifted": shifted}


def resolve(values: dict[str, Any], data: Path) -> TrainingConfig:
    """A run's configuration; a group stands for its task and sources."""
    values = dict(values, data=str(data), em_sentences=150)
    if values.get("group") in GROUPS:
        group = GROUPS[values["group"]]
        values = {"task": group.task, "sources": group.sources} | values
    return TrainingConfig.from_dict(values)


def run(spec: dict[str, Any], told: argparse.Namespace) -> dict[str, Any]:
    """Train and score one tagger."""
    config = resolve(spec["config"], told.data)
    started = time.monotonic()
    data = load_labelled(config)
    loaded = time.monotonic()
    sources = [source for source in config.sources if source not in config.leave_out]
    held = load_adapters(told.adapters / spec["adapters"]) if spec.get("adapters") else []
    seed_everything(config.seed)
    tagger = Tagger.new(
        config.method,
        encoder=told.encoder,
        task=config.task,
        labels=data.labels,
        sources=sources,
        adapters=[a for a in held if a.language in sources],  # the bank holds the sources alone
        options=config.options,
    )
    tagger.model.start_at(data.label_shares())
    tagger.to("cuda" if torch.cuda.is_available() else "cpu")
    trainer = Trainer(tagger, data, config)
    before = time.monotonic()
    history = trainer.run()
    trained = time.monotonic()
    result: dict[str, Any] = {
        "name": spec["name"],
        "config": config.to_dict() | {"data": ""},
        "steps": trainer.total_steps,
        "load_seconds": round(before - started, 1),
        "read_seconds": round(loaded - started, 1),
        "train_seconds": round(trained - before, 1),
        "dev_f1": [round(entry["dev_f1"], 2) for entry in history],
    }
    if spec.get("em") and config.method.startswith(("zgul", "madx")):
        settings, result["em"] = choose_settings(tagger, config, find_judges(config))
        tagger.em |= settings
    result["f1"] = score(tagger, spec, told.data)
    if spec.get("save"):
        folder = told.output.parent / "taggers" / spec["name"]
        tagger.encoder_name = "embedded"
        tagger.about = {"training": config.to_dict() | {"data": ""}, "history": history, "em": result.get("em")}
        tagger.save_pretrained(folder, bits=8, folded=True, bank=False)
        (folder / "model.safetensors").replace(told.output / f"{spec['name']}.safetensors")
        result["saved"] = json.loads((folder / "config.json").read_text())
        (folder / "model.safetensors").symlink_to(told.output / f"{spec['name']}.safetensors")
        result["f1_8bit"] = score(reload(folder, tagger, told.encoder), spec, told.data)
    result["test_seconds"] = round(time.monotonic() - trained, 1)
    return result


def score(tagger: Tagger, spec: dict[str, Any], data: Path) -> dict[str, float]:
    """F1 on every test file by every strategy."""
    found = {}
    for language, split in spec.get("test", []):
        sentences = corpora.load(data, tagger.task, language, split)
        for shift in spec.get("shifts", [""]):
            changed = SHIFTS[shift](sentences)
            for strategy in spec.get("strategies", ["plain"]):
                if strategy in tagger.method.strategies:
                    predicted = tagger.predict(changed, strategy=strategy, max_tokens=8192)
                    f1 = scores([s.tags or [] for s in sentences], [p.tags for p in predicted]).f1
                    found["/".join(filter(None, (language, split, shift, strategy)))] = round(f1, 3)
    return found


def reload(folder: Path, tagger: Tagger, encoder: str) -> Tagger:
    """The tagger as it was saved, on the same language adapters."""
    with mock.patch("zgul.methods.tagger._load_bank", lambda *_: tagger.parts.adapters):
        return Tagger.from_pretrained(folder, encoder=encoder, device=tagger.device)


def worker(queue: Any, told: argparse.Namespace, lock: Any) -> None:
    """Take runs from the queue until there are none."""
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("high")
    while True:
        spec = queue.get()
        if spec is None:
            return
        try:
            result = run(spec, told)
        except Exception as error:  # a failed run is recorded and does not stop the others
            result = {
                "name": spec["name"],
                "error": f"{type(error).__name__}: {error}",
                "trace": traceback.format_exc(),
            }
        with lock, (told.output / "results.jsonl").open("a") as file:
            file.write(json.dumps(result) + "\n")
        short = {k: result[k] for k in ("name", "load_seconds", "train_seconds", "test_seconds", "f1") if k in result}
        print(json.dumps(short | {"dev": result.get("dev_f1", [0])[-1:], "error": result.get("error")}), flush=True)
        torch.cuda.empty_cache() if torch.cuda.is_available() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--adapters", type=Path, default=Path(), help="folder of the adapter files that runs name")
    parser.add_argument("--jobs", type=int, default=4)
    told = parser.parse_args()
    told.output.mkdir(parents=True, exist_ok=True)
    encoders.load(told.encoder)  # once, so that the workers find what it may cache
    context = multiprocessing.get_context("spawn")
    queue, lock = context.Queue(), context.Lock()
    workers = [context.Process(target=worker, args=(queue, told, lock)) for _ in range(told.jobs)]
    for process in workers:
        process.start()
    for spec in json.loads(told.plan.read_text()):
        queue.put(spec)
    for _ in workers:
        queue.put(None)
    for process in workers:
        process.join()


if __name__ == "__main__":
    main()

"""Train the taggers that ship with the package, and the runs by which their settings were chosen, on a GPU machine.

    python scripts/embedded_taggers.py PLAN.json --data DIR --output DIR [--encoder embedded] [--jobs 4]

A plan is a list of runs: {"name", "config" (as zgul.training), "adapters" (file), "test": [[language, split], ...],
"strategies": [...], "em": true, "save": true, "save_bits": [9, 16]}. Each run appends one line to OUTPUT/results.jsonl
when it is done, so a stopped job counts for what it finished. What is saved is folded: the first of save_bits (9 unless
told), which ships, in OUTPUT/taggers, 16 in OUTPUT/taggers-16bit and so on. Of a saved tagger "f1" is that of full
precision and "f1_9bit" that of the file read back, both computed in float32. Left-out sources are scored as they are,
with character noise ("noised") and under regular letter changes ("shifted"): two stand-ins for a related language that
the encoder has never seen, made without any target data.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
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
from zgul.files import atomic_write
from zgul.languages import GROUPS
from zgul.methods.tagger import Tagger
from zgul.training.config import TrainingConfig
from zgul.training.data import load_labelled
from zgul.training.loop import Trainer, seed_everything
from zgul.training.noise import CharacterNoise, letter_counts
from zgul.training.run import choose_settings, find_judges

SHIPPED_BITS = 9  # a number, on average; what this costs is measured in every run that saves


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
    tagger.decode, tagger.pieces.kin_letters = config.decode, config.kin_letters
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
    if spec.get("save"):
        with exactly(tagger):
            result["f1"] = score(tagger, spec, told.data)
        tagger.encoder_name = shipped_name(told.encoder)
        tagger.about = {"training": config.to_dict() | {"data": ""}, "history": history, "em": result.get("em")}
        result |= save(tagger, spec, told)
    else:
        result["f1"] = score(tagger, spec, told.data)
    result["test_seconds"] = round(time.monotonic() - trained, 1)
    return result


def save(tagger: Tagger, spec: dict[str, Any], told: argparse.Namespace) -> dict[str, Any]:
    """Save a tagger in every form asked for; gives each form's size and F1."""
    forms = spec.get("save_bits", [SHIPPED_BITS])
    found: dict[str, Any] = {"save_bits": forms, "bytes": {}}
    for bits in forms:
        folder = told.output / ("taggers" if bits == forms[0] else f"taggers-{bits}bit") / spec["name"]
        tagger.save_pretrained(folder, bits=bits, folded=True, bank=False)
        found["bytes"][str(bits)] = (folder / "model.safetensors").stat().st_size
        reloaded = load_saved(folder, told.adapters / spec["adapters"], told.encoder, tagger.device)
        with exactly(reloaded):
            found[f"f1_{bits}bit"] = score(reloaded, spec, told.data)
    return found


@contextmanager
def exactly(tagger: Tagger) -> Iterator[None]:
    """Multiply in full float32: TF32 and bf16 change more tags than the forms that are to be compared."""
    before = tagger.precision, torch.get_float32_matmul_precision()
    tagger.precision = "float32"
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        tagger.precision = before[0]
        torch.set_float32_matmul_precision(before[1])


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


def shipped_name(encoder: str) -> str:
    """What a saved tagger calls its encoder: a pruned copy of the embedded one is the embedded one."""
    return "embedded" if encoder.endswith(".q4.safetensors") else encoder


def load_saved(folder: Path, adapters: Path, encoder: str, device: torch.device | str = "cpu") -> Tagger:
    """A tagger saved in RUN/taggers, on the language adapters it was trained with, which join it there."""
    beside = folder.parent / "adapters.safetensors"
    if not beside.exists():
        with atomic_write(beside, "wb") as file:  # runs finish side by side
            file.write(adapters.read_bytes())
    with mock.patch.dict(os.environ, ZGUL_TAGGERS=str(folder.parent)):
        return Tagger.from_pretrained(folder, encoder=encoder, device=device)


def worker(queue: Any, told: argparse.Namespace, lock: Any) -> None:
    """Take runs from the queue until there are none."""
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("high")
    while (spec := queue.get()) is not None:
        try:
            result = run(spec, told)
        except Exception as error:  # a failed run is recorded and does not stop the others
            traceback.print_exc()
            result = {"name": spec["name"], "error": f"{type(error).__name__}: {error}"}
        with lock:
            record(told.output, result)
        short = {
            k: result[k]
            for k in ("name", "load_seconds", "train_seconds", "test_seconds", "f1", "bytes")
            if k in result
        }
        print(json.dumps(short | {"dev": result.get("dev_f1", [0])[-1:], "error": result.get("error")}), flush=True)
        torch.cuda.empty_cache() if torch.cuda.is_available() else None


def record(output: Path, result: dict[str, Any]) -> None:
    """Add a finished run to the results."""
    with (output / "results.jsonl").open("a") as file:
        file.write(json.dumps(result) + "\n")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--adapters", type=Path, default=Path(), help="folder of the adapter files that runs name")
    parser.add_argument("--jobs", type=int, default=4, help="processes that train side by side (0: this one)")
    told = parser.parse_args(arguments)
    told.output.mkdir(parents=True, exist_ok=True)
    plan = json.loads(told.plan.read_text())
    if told.jobs == 0:
        for spec in plan:
            record(told.output, run(spec, told))
        return
    encoders.load(told.encoder)  # once, so that the workers find what it may cache
    context = multiprocessing.get_context("spawn")
    queue, lock = context.Queue(), context.Lock()
    workers = [context.Process(target=worker, args=(queue, told, lock)) for _ in range(told.jobs)]
    for process in workers:
        process.start()
    for spec in [*plan, *[None] * len(workers)]:
        queue.put(spec)
    for process in workers:
        process.join()


if __name__ == "__main__":
    main()

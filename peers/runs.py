"""One result for each system and group: trained, scored on the group's targets, and stored with the predicted tags.

zgul and SFT-M are not trained here. Their scores are stored ones, of `make scores` and of the GPU runs that made the
taggers.

What is done is not repeated: a trained model stays in the folder of the runs, a result in the folder of the results.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.machine import describe_machine

from peers import EMBEDDED
from peers.data import (
    export,
    export_test,
    fingerprint,
    gpu_run,
    group_of,
    place_of,
    store_tags,
    stored_tags,
    test_sentences,
)
from peers.systems import OURS, System, size_on_disk
from zgul.corpora.data_folder import read_labelled
from zgul.encoders import embedded
from zgul.evaluation import scores
from zgul.files import read_json, shipped_folder, write_json
from zgul.languages.groups import Group

Result = dict[str, Any]
SCORES = "scores-paper-sources.json"  # of `make scores`, when the taggers had learnt from the paper's sources alone


def run(
    system: System, group: Group, data: Path, folder: Path, stored: Path, say: Callable[[str], None], limit: int = 0
) -> Result:
    """Train a system on the sources of a group and tag the targets, unless the result is stored.

    ``limit`` is for a machine without the time: so many sentences of each source at most.
    """
    path = stored / f"{system.name}-{group.name}.json"
    if system.name in OURS:
        result = stored_zgul(group) if system.name == "zgul" else stored_sft(group)
    elif path.is_file():
        return read_json(path)
    else:
        place = place_of(group, folder, limit)
        result = machine() | train(system, group, data, place, limit) | tag(system, group, data, place, stored)
    result = {"system": system.name, "group": group.name} | result
    write_json(path, result)
    say(f"{system.title}, {group.name}: " + ", ".join(f"{code} {f1:.1f}" for code, f1 in result["f1"].items()))
    return result


def train(system: System, group: Group, data: Path, place: Path, limit: int = 0) -> Result:
    """Train a peer. Its model and what training cost are kept in the folder of the runs."""
    train_file, dev_file = export(group, data, place, limit)
    place, settings = place / system.name, system.settings(group)
    done = place / "trained.json"
    if not done.is_file() or read_json(done)["settings"] != settings:
        place.mkdir(parents=True, exist_ok=True)
        arguments = (str(train_file), str(dev_file), str(place / "model"), json.dumps(settings))
        write_json(done, system.call("train", *arguments, log=place / "log"))
    gold = [sentence.tags or [] for sentence in read_labelled(dev_file, group.task)]
    system.call("tag", str(place / "model"), str(dev_file), str(place / "dev.tsv"))
    about = {
        "sentences": len(read_labelled(train_file, group.task)),
        "limit": limit,
        "dev_f1": scores(gold, predicted_tags(place / "dev.tsv")).f1,
        "bytes": size_on_disk(place / "model"),
    }
    return read_json(done) | about


def tag(system: System, group: Group, data: Path, place: Path, stored: Path) -> Result:
    """Tag the test files of a group's targets, keep the tags, and score them."""
    f1, prints = {}, {}
    for language in group.targets:
        words = export_test(group, language, data, place / "test")
        output = place / "tagged" / f"{system.name}-{language}.tsv"
        output.parent.mkdir(parents=True, exist_ok=True)
        system.call("tag", model(system, group, language, place), str(words), str(output))
        sentences, tags = test_sentences(group, language, data), predicted_tags(output)
        f1[language] = scores([sentence.tags or [] for sentence in sentences], tags).f1
        prints[language] = fingerprint(sentences)
        store_tags(stored / "tags" / f"{system.name}-{language}.txt.xz", tags)
    return {"f1": f1, "test_files": prints}


def model(system: System, group: Group, language: str, place: Path) -> str:
    """What a system's program loads for a language."""
    if system.name == "zgul":
        return f"{language}:{group.task}"
    path = place / system.name / "model"
    return f"{language}:{group.task}:{path}" if system.name == "sft" else str(path)


def predicted_tags(path: Path) -> list[list[str]]:
    """The tags that a system wrote. They need not be IOB2, so this reads no more than the columns."""
    blocks = path.read_text(encoding="utf-8").strip("\n").split("\n\n")
    return [[line.rpartition("\t")[2] for line in block.split("\n")] for block in blocks]


def stored_zgul(group: Group) -> Result:
    """The tagger of a group that learnt from the paper's sources: its scores, its training, the size of its files."""
    name, scored = f"{group.name}-{group.task}", json.loads((EMBEDDED / SCORES).read_text(encoding="utf-8"))
    files = (shipped_folder() / name / "model.safetensors", shipped_folder() / "adapters.safetensors")
    gpu, f1 = gpu_run(name), {language: scored["scores"][language]["f1"] for language in group.targets}
    size = len(embedded.read()) + sum(map(size_on_disk, files))
    about = {"gpu_seconds": gpu["train_seconds"], "bytes": size, "dev_f1": max(gpu["dev_f1"])}
    return about | {"f1": f1, "from": f"docs/results/embedded/{SCORES}", "commit": scored["commit"]}


def stored_sft(group: Group) -> Result:
    """Full fine-tuning of the same encoder. Its scores were measured on a GPU when the shipped taggers were made."""
    found = gpu_run(f"sft:{group.name}")
    f1 = {language: found["f1"][f"{language}/test/plain"] for language in group.targets}
    settings = {name: found["config"][name] for name in ("limit", "epochs", "batch_size", "lr", "noise", "seed")}
    about = {"gpu_seconds": found["train_seconds"], "dev_f1": max(found["dev_f1"]), "settings": settings}
    made = read_json(EMBEDDED / "provenance.json")["taggers"]
    source = {"from": "docs/results/embedded/results.jsonl", "commit": made["commit"], "date": made["date"]}
    return about | {"f1": f1} | source


def check(data: Path, stored: Path) -> list[str]:
    """Score the stored tags again. Returns what differs from the stored results."""
    wrong = []
    for path in sorted(stored.glob("*-*.json")):
        result = read_json(path)
        for language, f1 in result["f1"].items() if "test_files" in result else ():
            sentences = test_sentences(group_of(language), language, data)
            tags = stored_tags(stored / "tags" / f"{result['system']}-{language}.txt.xz")
            again = scores([sentence.tags or [] for sentence in sentences], tags).f1
            if fingerprint(sentences) != result["test_files"][language]:
                wrong.append(f"{path.name}: the test file of {language} is another one")
            elif abs(again - f1) > 1e-6:
                wrong.append(f"{path.name}: F1 of {language} is {again:.3f}, not {f1:.3f}")
    return wrong


def machine() -> dict[str, str]:
    """What a result was measured with: commit ("+" if files differ from it), time and processor."""
    about = describe_machine(torch.device("cpu"))
    return {name: about[name] for name in ("commit", "date", "device")}

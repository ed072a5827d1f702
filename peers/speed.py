"""Words a second on one core, by processor time: all systems on the same files, in turn, bound to the core."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from peers.data import export_test, group_of, place_of
from peers.runs import machine, model
from peers.systems import System, size_on_disk
from zgul.corpora import columns
from zgul.files import read_json, shipped_folder, write_json
from zgul.languages.groups import Group
from zgul.tagger import save_tagger
from zgul.training.config import TrainingConfig
from zgul.training.run import new_tagger

FILES = ("fo", "pcm")  # one for each task; zgul was tuned to no EM for both
ROUNDS = 3


def measure(
    systems: Mapping[str, System], data: Path, folder: Path, stored: Path, most: int, say: Callable[[str], None]
) -> None:
    """Time every system on the first ``most`` sentences of each file, and store the medians. Loading is timed apart."""
    core = min(os.sched_getaffinity(0))
    about = machine() | {"rounds": ROUNDS}
    for language in FILES:
        group, times = group_of(language), dict[str, list[dict[str, Any]]]()
        models = {name: _model(system, group, language, folder, stored) for name, system in systems.items()}
        with tempfile.TemporaryDirectory() as place:
            source, output = Path(place) / "words.tsv", Path(place) / "tagged.tsv"
            kept = list(islice(columns.read(export_test(group, language, data, folder / "test"), None), most))
            columns.write(source, kept)
            words = sum(map(len, kept))
            for _ in range(ROUNDS):
                for name, path in models.items():
                    if path:
                        done = systems[name].call("tag", path, str(source), str(output), core=core)
                        times.setdefault(name, []).append(done)
        rows = {}
        for name, own in times.items():
            speeds = [words / one["tag_seconds"] for one in own]
            rows[name] = {"words_per_second": median(speeds), "lowest": min(speeds), "highest": max(speeds)}
            rows[name]["load_seconds"] = median(one["load_seconds"] for one in own)
            say(f"{language}: {systems[name].title} {rows[name]['words_per_second']:,.0f} words a second")
        sft = size_on_disk(folder / group.name / "sft" / "model")
        write_json(
            stored / f"speed.{language}.json",
            about | {"language": language, "words": words, "systems": rows, "sft_bytes": sft},
        )


def _model(system: System, group: Group, language: str, folder: Path, stored: Path) -> str:
    """The model that is timed, "" if there is none. For SFT-M it is an untrained one, which is as fast."""
    path = stored / f"{system.name}-{group.name}.json"
    place = place_of(group, folder, read_json(path).get("limit", 0) if path.is_file() else 0)
    saved = place / system.name / "model"
    if system.name == "sft" and not saved.exists():
        config = TrainingConfig(method="sft-m", task=group.task, sources=group.sources, device="cpu")
        labels = read_json(shipped_folder() / f"{group.name}-{group.task}" / "config.json")["labels"]
        save_tagger(new_tagger(config, labels), saved)
    return model(system, group, language, place) if system.name == "zgul" or saved.exists() else ""

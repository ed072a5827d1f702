"""The files that all systems share: the training sentences of zgul's taggers, and the paper's test files.

The taggers are those that learnt from the paper's sources. What ships today was trained further (docs/beyond.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from peers import EMBEDDED
from zgul.corpora import columns
from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.files import create_binary, open_binary
from zgul.languages import GROUPS
from zgul.languages.groups import Group
from zgul.training.config import TrainingConfig
from zgul.training.labelled_data import load_labelled, sample

# what decides which sentences the tagger of a group was trained on
CHOSEN_BY = ("group", "task", "sources", "leave_out", "limit", "seed")


def place_of(group: Group, folder: Path, limit: int) -> Path:
    """The folder for the models of a group. Those that learnt from a cut have one of their own."""
    return folder / (f"{group.name}-{limit}" if limit else group.name)


def export(group: Group, data: Path, place: Path, limit: int = 0) -> tuple[Path, Path]:
    """Write the training and dev sentences of the group's tagger to a folder, unless they are there.

    With ``limit``, at most so many training sentences of each source are written, and half as many for dev.
    """
    train, dev = place / "train.tsv", place / "dev.tsv"
    if not (train.is_file() and dev.is_file()):
        labelled = load_labelled(config_of(group, data))
        for path, sentences, most in ((train, labelled.train, limit), (dev, labelled.dev, limit // 2)):
            if most:
                by_source = [[one for one in sentences if one.language == source] for source in group.sources]
                sentences = [one for own in by_source for one in sample(own, most, seed=0)]
            columns.write(path, sentences)
    return train, dev


def config_of(group: Group, data: Path) -> TrainingConfig:
    """What chose the training sentences of the group's tagger."""
    used = gpu_run(f"{group.name}-{group.task}")["config"]
    return TrainingConfig.from_dict({name: used[name] for name in CHOSEN_BY} | {"data": str(data)})


def gpu_run(name: str) -> dict[str, Any]:
    """The run of this name that made a tagger on the paper's sources, the first in the file."""
    for line in (EMBEDDED / "results.jsonl").read_text(encoding="utf-8").splitlines():
        if (found := json.loads(line))["name"] == name:
            return dict(found)
    raise ZgulError(f"{EMBEDDED / 'results.jsonl'} has no run {name}.")


def export_test(group: Group, language: str, data: Path, folder: Path) -> Path:
    """Write the words of a target's test file, without their tags."""
    path = folder / f"{language}.tsv"
    if not path.is_file():
        columns.write(path, [replace(sentence, tags=None) for sentence in test_sentences(group, language, data)])
    return path


def test_sentences(group: Group, language: str, data: Path) -> list[Sentence]:
    """The paper's test file of a target."""
    return DataFolder(data).sentences(group.task, language, "test")


def fingerprint(sentences: Sequence[Sentence]) -> str:
    """A checksum of words and gold tags, so that stored predictions are scored with the file they belong to."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(repr((sentence.words, sentence.tags)).encode())
    return digest.hexdigest()


def group_of(language: str) -> Group:
    """The group that has this target."""
    return next(group for group in GROUPS.values() if language in group.targets)


def store_tags(path: Path, tags: Sequence[Sequence[str]]) -> None:
    """Keep predicted tags, a sentence on a line. The words stay out: the corpora have licences of their own."""
    with create_binary(path) as file:
        file.write("".join(" ".join(sentence) + "\n" for sentence in tags).encode())


def stored_tags(path: Path) -> list[list[str]]:
    """Read predicted tags."""
    if not path.is_file():
        raise ZgulError(f"{path}: no such file. Run: make peers")
    with open_binary(path) as file:
        return [line.split() for line in file.read().decode().splitlines()]

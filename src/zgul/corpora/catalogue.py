"""Catalogue of the paper's datasets: where each comes from, its licence and its checksums.

``datasets.toml`` beside this module lists them, in the releases that contain the paper's own test files, word for word.
``checksums.txt`` has the checksums in the format of ``sha256sum``. Other files are trusted on first fetch.
"""

import difflib
import fnmatch
import functools
import re
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from zgul.download import MAX_BYTES
from zgul.errors import ZgulError

_FOLDER = Path(__file__).parent


@functools.cache
def checksums() -> dict[str, str]:
    """SHA-256 of upstream files, by their path below the host."""
    lines = (_FOLDER / "checksums.txt").read_text("utf-8").splitlines()
    return {path: digest for digest, path in (line.split(maxsplit=1) for line in lines)}


@dataclass(frozen=True)
class File:
    """One upstream file, or one member of an upstream archive."""

    split: str  # its place in a data folder: DIR/TASK/LANG/SPLIT.tsv
    path: str  # below the host
    member: str | None = None  # inside the archive at ``path``
    max_bytes: int = MAX_BYTES

    @property
    def sha256(self) -> str | None:  # of the file at ``path``, if the catalogue has it
        return checksums().get(self.path)


@dataclass(frozen=True)
class Dataset:
    """One dataset of one language."""

    name: str  # "ud/fo_oft"
    task: str  # "pos" or "ner"
    language: str  # as in DIR/TASK/LANG
    role: str  # "source" or "target"
    groups: tuple[str, ...]
    release: str
    licence: str
    host: str
    homepage: str
    files: tuple[File, ...]  # empty if the dataset cannot be downloaded
    note: str = ""

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file.split for file in self.files))

    @property
    def places(self) -> dict[str, list[File]]:
        """The upstream files that are joined in each file of a data folder."""
        place = f"{self.task}/{self.language}/{{}}.tsv"
        return {place.format(split): [f for f in self.files if f.split == split] for split in self.splits}

    @property
    def known_checksums(self) -> str:
        paths = {file.path for file in self.files}
        return f"{len(paths & checksums().keys())} of {len(paths)}"

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, with the address and the checksum of each file."""
        files = [asdict(file) | {"url": f"{self.host}/{file.path}", "sha256": file.sha256} for file in self.files]
        return asdict(self) | {"files": files}


def _make_dataset(family: str, given: dict[str, Any]) -> Dataset:
    """Make a dataset from a line of ``datasets.toml`` and the defaults of its family."""
    is_target = given["role"] == "target"  # its training data serve the few-shot experiments only
    parts = [("few" if is_target else "train", part) for part in given.get("train", ["train"])]
    parts += [("dev", "dev")] if given.get("dev", True) else []
    parts += [("test", "test")] if is_target else []
    files = []
    for split, part in parts:
        path, member = (given.get(key, "").format(part=part, **given) for key in ("path", "member"))
        files.append(File(given.get("prefix", "") + split, path, member or None, given.get("max_bytes", MAX_BYTES)))
    own = {field.name: given[field.name] for field in fields(Dataset) if field.name in given}
    own |= {"name": f"{family}/{given['code']}", "homepage": given["homepage"].format(**given)}
    return Dataset(**own | {"groups": tuple(given["groups"]), "files": tuple(files)})


_CONTENT = tomllib.loads((_FOLDER / "datasets.toml").read_text("utf-8"))
REFERENCES: list[str] = _CONTENT.pop("references")  # what the paper uses besides labelled data
DATASETS = tuple(_make_dataset(name, family | line) for name, family in _CONTENT.items() for line in family["datasets"])


def select(group: str | None = None, task: str | None = None, language: str | None = None) -> list[Dataset]:
    """The datasets of a group, a task and a language code. None does not restrict."""
    groups = sorted({name for dataset in DATASETS for name in dataset.groups})
    group = group and group.lower()
    if group not in (None, *groups):
        raise ZgulError(f"There is no group {group!r} in the catalogue. The groups are {', '.join(groups)}.")
    if task not in (None, "pos", "ner"):
        raise ZgulError(f"There is no task {task!r} in the catalogue. The tasks are pos and ner.")
    asked = [dataset for dataset in DATASETS if task in (None, dataset.task) and group in (None, *dataset.groups)]
    return [dataset for dataset in asked if language in (None, dataset.language)]


def find(pattern: str) -> list[Dataset]:
    """The datasets with a name ("ud/fo_oft") or pattern ("masakhaner/*"), at least one."""
    names = {dataset.name: dataset for dataset in DATASETS}
    matches = fnmatch.filter(names, pattern.lower())
    if not matches:
        near = difflib.get_close_matches(pattern.lower(), names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else "`zgul data list` shows all."
        raise ZgulError(f"There is no dataset {pattern!r} in the catalogue. {hint}")
    return [names[name] for name in matches]


def at_release(dataset: Dataset, release: str) -> Dataset:
    """The same treebank in another UD release ("r2.17" or "2.17"), if its files still have the same names."""
    if not dataset.name.startswith("ud/"):
        raise ZgulError(f"{dataset.name} has only one release, {dataset.release}. --release is for ud/ datasets.")
    release = f"r{release.removeprefix('r')}"
    if not re.fullmatch(r"r[0-9]{1,2}\.[0-9]{1,2}", release):  # it becomes a part of a path
        raise ZgulError(f"{release!r} is not a UD release. Give one such as r2.17.")
    old, new = f"/{dataset.release}/", f"/{release}/"
    files = tuple(replace(file, path=file.path.replace(old, new)) for file in dataset.files)
    return replace(dataset, release=release, files=files)

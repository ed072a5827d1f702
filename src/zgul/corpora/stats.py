"""Statistics of a data folder as in the paper's appendix: sentences, scripts, tags, overlap with the sources.

The paper calls its overlap "token-level overlap (in % IOU)". The intersection over union of the word types gives 0.1
to 3 %, far from the paper's numbers. Nearest to them is the share of a test file's running words that occur, spelt the
same, in the training data of the group's sources (docs/data.md compares). That share is computed here.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.tags import UPOS
from zgul.languages import GROUPS, Group
from zgul.progress import Report, Status, silent

PAPER_TESTS = {  # the paper's table of test languages: script, sentences, overlap in per cent
    "fo": ("Latin", 1208, 61.7),
    "got": ("Latin", 1031, 21.6),
    "gsw": ("Latin", 100, 54.3),
    "qpm": ("Cyrillic", 635, 42.9),
    "hsb": ("Latin", 626, 43.1),
    "orv": ("Cyrillic", 4204, 45.0),
    "cu": ("Cyrillic", 1141, 19.2),
    "as": ("Bengali", 100, 44.1),
    "bho": ("Devanagari", 102, 64.0),
    "ha": ("Latin", 570, 37.1),
    "ig": ("Latin", 642, 32.0),
    "rw": ("Latin", 611, 32.6),
    "lg": ("Latin", 419, 28.3),
    "luo": ("Latin", 189, 35.8),
    "pcm": ("Latin", 600, 82.3),
}
PAPER_TRAIN_DEV = {  # the paper's training and dev sentences, all sources of a group together
    "germanic": (222792, 28394),
    "slavic": (179043, 23479),
    "african": (19788, 4073),
    "indo-aryan": (55026, 13003),
}


@dataclass(frozen=True)
class SplitStats:
    """One labelled file."""

    task: str
    language: str
    split: str
    sentences: int
    words: int
    types: int  # distinct words
    script: str  # of most of its letters
    tags: tuple[str, ...]  # parts of speech, or entity types


@dataclass(frozen=True)
class GroupStats:
    """The sources of a group together."""

    group: str
    task: str
    sources: tuple[str, ...]
    missing: tuple[str, ...]  # sources without training data here
    train: int  # sentences
    dev: int
    paper_train: int
    paper_dev: int
    test_tags: tuple[str, ...]


@dataclass(frozen=True)
class TargetStats:
    """The test file of one of the paper's targets."""

    language: str
    group: str
    script: str
    sentences: int
    overlap: float | None  # per cent; None unless every source of the group has its training data here
    paper_script: str
    paper_sentences: int
    paper_overlap: float


@dataclass(frozen=True)
class Statistics:
    """The result of ``measure``, which ``zgul data stats`` shows."""

    splits: tuple[SplitStats, ...]
    groups: tuple[GroupStats, ...]
    targets: tuple[TargetStats, ...]


def measure(data_dir: Path | str, report: Report = silent) -> Statistics:
    """Read every labelled file of a data folder once and count."""
    folder = DataFolder(data_dir)
    files = folder.splits()
    counted = _Counted({}, {})
    for done, key in enumerate(files):
        report(Status("reading data", done, len(files)))
        counted.add(folder, *key)
    report(Status("reading data", len(files), len(files)))
    groups = [group for group in GROUPS.values() if counted.has_data(group)]
    return Statistics(
        tuple(counted.splits.values()),
        tuple(counted.group_stats(group) for group in groups),
        tuple(row for group in groups for row in counted.target_stats(group)),
    )


def overlap(test: Counter[str], sources: Iterable[Counter[str]]) -> float:
    """Per cent of the running words of a test file that occur in the training data of the sources."""
    known = set().union(*sources)
    return 100 * sum(count for word, count in test.items() if word in known) / max(1, test.total())


def dominant_script(words: Counter[str]) -> str:
    """The script of most letters, as Unicode names it; "none" for a text without letters."""
    letters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            letters[character] += count
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "unknown").split()[0].capitalize()] += count
    return max(scripts, key=lambda script: (scripts[script], script), default="none")


def missing_upos(tags: Iterable[str]) -> list[str]:
    """The universal parts of speech that a tag set lacks."""
    present = set(tags)
    return [tag for tag in UPOS if tag not in present]


@dataclass
class _Counted:
    """What was counted in each file, by task, language and split."""

    splits: dict[tuple[str, str, str], SplitStats]
    words: dict[tuple[str, str, str], Counter[str]]  # of the files that the overlap needs

    def add(self, folder: DataFolder, task: str, language: str, split: str) -> None:
        words: Counter[str] = Counter()
        tags: set[str] = set()
        sentences = folder.sentences(task, language, split)
        for sentence in sentences:
            words.update(sentence.words)
            tags.update(sentence.tags or ())
        kinds = {tag[2:] for tag in tags if tag != "O"} if task == "ner" else tags
        script = dominant_script(words)
        self.splits[task, language, split] = SplitStats(
            task, language, split, len(sentences), words.total(), len(words), script, tuple(sorted(kinds))
        )
        if split == "test" or split.endswith("train"):
            self.words[task, language, split] = words

    def tests(self, group: Group) -> list[SplitStats]:
        """The test files of a group's targets that are there."""
        rows = (self.splits.get((group.task, code, "test")) for code in group.targets)
        return [row for row in rows if row is not None]

    def has_data(self, group: Group) -> bool:
        """Whether there is a test file of a target, or training data of a source other than English."""
        trained = ((group.task, code, "train") in self.splits for code in group.sources[1:])
        return bool(self.tests(group)) or any(trained)

    def source_files(self, group: Group, split: str) -> Iterator[tuple[str, str, str]]:
        """The files of a group's sources; the plain split where the group's own is not there."""
        for code in group.sources:
            own = (group.task, code, source_split(group.name, code, split))
            yield own if own in self.splits else (group.task, code, split)

    def group_stats(self, group: Group) -> GroupStats:
        train, dev = (
            {key[1]: self.splits.get(key) for key in self.source_files(group, split)} for split in ("train", "dev")
        )
        return GroupStats(
            group.name,
            group.task,
            group.sources,
            tuple(code for code, row in train.items() if row is None),
            sum(row.sentences for row in train.values() if row),
            sum(row.sentences for row in dev.values() if row),
            *PAPER_TRAIN_DEV[group.name],
            tuple(sorted({tag for row in self.tests(group) for tag in row.tags})),
        )

    def target_stats(self, group: Group) -> Iterator[TargetStats]:
        keys = list(self.source_files(group, "train"))
        complete = all(key in self.words for key in keys)
        for row in self.tests(group):
            test = self.words[group.task, row.language, "test"]
            share = round(overlap(test, (self.words[key] for key in keys)), 1) if complete else None
            paper = PAPER_TESTS[row.language]
            yield TargetStats(row.language, group.name, row.script, row.sentences, share, *paper)

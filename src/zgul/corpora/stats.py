"""Statistics of a data folder as in the paper's appendix: sentences, scripts, tags, overlap with the sources.

Overlap is the share of a test file's running words that occur in the training data of the group's sources. This is
closest to the paper's "token-level overlap (in % IOU)". docs/data.md compares other definitions.
"""

import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.languages import GROUPS, Group
from zgul.progress import Report, Status, silent

_SIZES = tomllib.loads(Path(__file__).with_name("paper_sizes.toml").read_text("utf-8"))
PAPER_TESTS = {code: tuple(row) for code, row in _SIZES["tests"].items()}  # script, sentences, overlap in per cent
PAPER_TRAIN_DEV = {group: (train, dev) for group, (train, dev) in _SIZES["train_dev"].items()}  # sentences

SplitKey = tuple[str, str, str]  # task, language and split of a file


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
    keys = folder.splits()
    splits, words = dict[SplitKey, SplitStats](), dict[SplitKey, Counter[str]]()
    for done, key in enumerate(keys):
        report(Status("reading data", done, len(keys)))
        sentences = folder.sentences(*key)
        words[key] = Counter(word for sentence in sentences for word in sentence.words)
        tags = {tag for sentence in sentences for tag in sentence.tags or ()}
        kinds = tuple(sorted({tag[2:] for tag in tags if tag != "O"} if key[0] == "ner" else tags))
        sizes = (len(sentences), words[key].total(), len(words[key]))
        splits[key] = SplitStats(*key, *sizes, dominant_script(words[key]), kinds)
    report(Status("reading data", len(keys), len(keys)))
    groups, targets = list[GroupStats](), list[TargetStats]()
    for group in GROUPS.values():
        tests = [splits[key] for code in group.targets if (key := (group.task, code, "test")) in splits]
        if not tests and not any((group.task, code, "train") in splits for code in group.sources[1:]):
            continue  # English alone is a source of every group
        sources = _source_files(group, "train", splits)
        train = [splits[key] for key in sources if key in splits]
        dev = [splits[key] for key in _source_files(group, "dev", splits) if key in splits]
        missing = tuple(code for code in group.sources if code not in {row.language for row in train})
        counts = (sum(row.sentences for row in train), sum(row.sentences for row in dev))
        tags = {tag for row in tests for tag in row.tags}
        own = (group.name, group.task, group.sources, missing, *counts, *PAPER_TRAIN_DEV[group.name])
        groups.append(GroupStats(*own, tuple(sorted(tags))))
        complete = all(key in words for key in sources)
        for row in tests:
            test = words[group.task, row.language, "test"]
            share = round(overlap(test, (words[key] for key in sources)), 1) if complete else None
            facts = (row.language, group.name, row.script, row.sentences, share)
            targets.append(TargetStats(*facts, *PAPER_TESTS[row.language]))
    return Statistics(tuple(splits.values()), tuple(groups), tuple(targets))


def overlap(test: Counter[str], sources: Iterable[Counter[str]]) -> float:
    """The share of a test file's running words that occur in the training data of the sources, in per cent."""
    known = set().union(*sources)
    return 100 * sum(count for word, count in test.items() if word in known) / max(1, test.total())


def dominant_script(words: Counter[str]) -> str:
    """The script of most letters, as Unicode names it; "none" for a text without letters."""
    letters = Counter(chain.from_iterable(words.elements()))
    scripts: Counter[str] = Counter()
    for letter in filter(str.isalpha, letters):
        scripts[unicodedata.name(letter, "unknown").split()[0].capitalize()] += letters[letter]
    return max(scripts, key=lambda script: (scripts[script], script), default="none")


def _source_files(group: Group, split: str, splits: Iterable[SplitKey]) -> list[SplitKey]:
    """The files of a group's sources, or the plain split if the group's own split does not exist."""
    own = [(group.task, code, source_split(group.name, code, split)) for code in group.sources]
    return [key if key in splits else (group.task, key[1], split) for key in own]

"""Statistics of a data folder as in the paper's appendix: sentences, scripts, tags, overlap with the sources.

The paper calls its overlap "token-level overlap (in % IOU)". Intersection over union of the word types gives
0.1 to 3 %, far from its numbers; nearest to them is the share of a test file's running words that occur,
spelt the same, in the training data of the group's sources (docs/data.md compares). That is computed here.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from zgul.corpora import catalogue, load
from zgul.corpora.tags import UPOS
from zgul.errors import ZgulError
from zgul.languages import GROUPS, Group

TASKS = ("pos", "ner")
SPLIT_ORDER = ("train", "extra", "few", "dev", "test")
Report = Callable[[str, int, int], None]  # file, files done, files in all


@dataclass(frozen=True)
class PaperTest:
    """A row of the paper's table of test languages."""

    script: str
    sentences: int
    overlap: float


PAPER_TESTS = {
    "fo": PaperTest("Latin", 1208, 61.7),
    "got": PaperTest("Latin", 1031, 21.6),
    "gsw": PaperTest("Latin", 100, 54.3),
    "qpm": PaperTest("Cyrillic", 635, 42.9),
    "hsb": PaperTest("Latin", 626, 43.1),
    "orv": PaperTest("Cyrillic", 4204, 45.0),
    "cu": PaperTest("Cyrillic", 1141, 19.2),
    "as": PaperTest("Bengali", 100, 44.1),
    "bho": PaperTest("Devanagari", 102, 64.0),
    "ha": PaperTest("Latin", 570, 37.1),
    "ig": PaperTest("Latin", 642, 32.0),
    "rw": PaperTest("Latin", 611, 32.6),
    "lg": PaperTest("Latin", 419, 28.3),
    "luo": PaperTest("Latin", 189, 35.8),
    "pcm": PaperTest("Latin", 600, 82.3),
}
PAPER_TRAIN_DEV = {  # sentences of all sources together
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
    """What ``zgul data stats`` shows."""

    splits: tuple[SplitStats, ...]
    groups: tuple[GroupStats, ...]
    targets: tuple[TargetStats, ...]


def measure(data_dir: Path | str, report: Report = lambda _file, _done, _total: None) -> Statistics:
    """Read every labelled file of ``data_dir`` once."""
    files = labelled_files(data_dir)
    splits: dict[tuple[str, str, str], SplitStats] = {}
    words: dict[tuple[str, str, str], Counter[str]] = {}  # only where overlap needs them
    for done, (task, language, split) in enumerate(files):
        report(f"{task}/{language}/{split}", done, len(files))
        stats, counts = _measure_split(data_dir, task, language, split)
        splits[task, language, split] = stats
        if split == "test" or split.endswith("train"):
            words[task, language, split] = counts
    report("", len(files), len(files))
    groups = [group for group in GROUPS.values() if any(_test(splits, group)) or _trained(splits, group)]
    return Statistics(
        tuple(splits.values()),
        tuple(_group_stats(splits, group) for group in groups),
        tuple(row for group in groups for row in _target_stats(splits, words, group)),
    )


def labelled_files(data_dir: Path | str) -> list[tuple[str, str, str]]:
    """Task, language and split of each labelled file, tasks and splits in the usual order."""
    root = Path(data_dir)
    if not root.is_dir():
        raise ZgulError(f"{root}: no such folder")
    found = set()
    for path in (path for task in TASKS for path in root.glob(f"{task}/*/*")):
        name = re.fullmatch(r"([^.].*)\.(tsv|txt|conllu)(\.(xz|gz|zst|bz2))?", path.name)
        if name and path.is_file():
            found.add((path.parts[-3], path.parts[-2], name[1]))
    if not found:
        raise ZgulError(
            f"{root} has no labelled data; expected is DIR/TASK/LANG/SPLIT.tsv such as pos/fo/test.tsv "
            "(`zgul data fetch --output DIR` makes such a folder)"
        )
    return sorted(found, key=lambda key: (TASKS.index(key[0]), key[1], _split_rank(key[2])))


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


def _measure_split(data_dir: Path | str, task: str, language: str, split: str) -> tuple[SplitStats, Counter[str]]:
    words: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    sentences = 0
    for sentence in load(data_dir, task, language, split):
        sentences += 1
        words.update(sentence.words)
        tags.update(sentence.tags or ())
    kinds = {tag[2:] for tag in tags if tag != "O"} if task == "ner" else set(tags)
    stats = SplitStats(
        task,
        language,
        split,
        sentences,
        words.total(),
        len(words),
        dominant_script(words),
        tuple(sorted(kinds)),
    )
    return stats, words


def _split_rank(split: str) -> tuple[bool, int, str]:
    """The usual order; English's second NER data (``panx.``) after its first."""
    base = split.rsplit(".", 1)[-1]
    return base != split, SPLIT_ORDER.index(base) if base in SPLIT_ORDER else len(SPLIT_ORDER), split


def _source_split(splits: dict[tuple[str, str, str], SplitStats], group: Group, language: str, base: str) -> str:
    """Which file of a source is this group's: the catalogue's, if it is there, else the plain one."""
    for dataset in catalogue.select(group=group.name, language=language):
        for file in dataset.files:
            if file.split.endswith(base) and (group.task, language, file.split) in splits:
                return file.split
    return base


def _trained(splits: dict[tuple[str, str, str], SplitStats], group: Group) -> list[str]:
    """The sources of a group, English apart (it is in every group), that have training data."""
    return [code for code in group.sources[1:] if (group.task, code, "train") in splits]


def _test(splits: dict[tuple[str, str, str], SplitStats], group: Group) -> list[SplitStats]:
    rows = (splits.get((group.task, code, "test")) for code in group.targets)
    return [row for row in rows if row is not None]


def _group_stats(splits: dict[tuple[str, str, str], SplitStats], group: Group) -> GroupStats:
    def rows(base: str) -> dict[str, SplitStats | None]:
        return {c: splits.get((group.task, c, _source_split(splits, group, c, base))) for c in group.sources}

    train, dev = rows("train"), rows("dev")
    return GroupStats(
        group.name,
        group.task,
        group.sources,
        tuple(code for code, row in train.items() if row is None),
        sum(row.sentences for row in train.values() if row),
        sum(row.sentences for row in dev.values() if row),
        *PAPER_TRAIN_DEV[group.name],
        tuple(sorted({tag for row in _test(splits, group) for tag in row.tags})),
    )


def _target_stats(
    splits: dict[tuple[str, str, str], SplitStats],
    words: dict[tuple[str, str, str], Counter[str]],
    group: Group,
) -> list[TargetStats]:
    keys = [(group.task, code, _source_split(splits, group, code, "train")) for code in group.sources]
    complete = all(key in words for key in keys)
    result = []
    for row in _test(splits, group):
        paper = PAPER_TESTS[row.language]
        test = words[group.task, row.language, "test"]
        share = round(overlap(test, (words[key] for key in keys)), 1) if complete else None
        result.append(
            TargetStats(
                row.language,
                group.name,
                row.script,
                row.sentences,
                share,
                paper.script,
                paper.sentences,
                paper.overlap,
            )
        )
    return result


def missing_upos(tags: Iterable[str]) -> list[str]:
    """The universal parts of speech that a tag set lacks."""
    present = set(tags)
    return [tag for tag in UPOS if tag not in present]

"""What the report needs beyond scores, computed once from tags and data, so that an export holds all of it.

McNemar's counts of ZGUL against every other row on the pooled words of a group; example sentences chosen by a rule;
statistics of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from zgul.corpora.sentence import Sentence
from zgul.experiments.report.frame import COMPARED, PARTS, ZGUL, Entry, Frame
from zgul.experiments.store import Store
from zgul.files import open_binary
from zgul.languages import TARGETS

Tags = list[list[str]]
Tell = Callable[[dict[str, Any]], None]  # hears of progress

EXAMPLE_WORDS = (4, 12)  # shorter ones say little, longer ones do not fit a line
EXAMPLES = 2  # of each language


def compute(store: Store, data: Path | None, tell: Tell = lambda _status: None) -> dict[str, Any]:
    """Everything for the report that scores do not tell; without the data folder, without its statistics."""
    frame = Frame(store)
    return {
        "mcnemar": _mcnemar(store, frame, tell),
        "examples": _examples(store, frame),
        "statistics": _statistics(data, tell) if data is not None else None,
        "text": _text_sizes(frame, data) if data is not None else {},
    }


def _mcnemar(store: Store, frame: Frame, tell: Tell) -> list[dict[str, Any]]:
    """Words that only ZGUL, and that only the other row, has right: by part, group, row and seed."""
    counts = []
    pairs = [(part, group) for part in PARTS for group in frame.groups(part)]
    for done, (part, group) in enumerate(pairs, start=1):
        gold = {code: [s.tags or [] for s in store.gold(group, code)] for code in frame.languages(part, group)}
        own = _right_words(store, frame.entries(part, group, ZGUL), gold)
        for row in frame.rows(part, group):
            if row == ZGUL:
                continue
            other = _right_words(store, frame.entries(part, group, row), gold)
            for seed in sorted(own.keys() & other.keys()):
                counts.append(
                    {
                        "part": part,
                        "group": group,
                        "row": row,
                        "seed": seed,
                        "only_zgul": int((own[seed] & ~other[seed]).sum()),
                        "only_row": int((~own[seed] & other[seed]).sum()),
                        "words": len(own[seed]),
                    }
                )
        tell({"stage": "comparing", "done": done, "total": len(pairs)})
    return counts


def _right_words(store: Store, entries: list[Entry], gold: dict[str, Tags]) -> dict[int, npt.NDArray[np.bool_]]:
    """For each seed that has all languages: which of the group's words a row tags rightly."""
    by_seed: dict[int, dict[str, Entry]] = {}
    for entry in entries:
        by_seed.setdefault(entry.run.seed, {})[entry.score.language] = entry
    return {
        seed: np.concatenate([_right(gold[code], _tags(store, found[code])) for code in gold])
        for seed, found in by_seed.items()
        if set(gold) <= set(found)
    }


def _right(gold: Tags, tags: Tags) -> npt.NDArray[np.bool_]:
    pairs = zip(chain.from_iterable(gold), chain.from_iterable(tags), strict=True)
    return np.fromiter((truth == tag for truth, tag in pairs), dtype=bool)


def _tags(store: Store, entry: Entry) -> Tags:
    return store.predictions(entry.run.hash, entry.score.row, entry.score.language)


def _examples(store: Store, frame: Frame) -> list[dict[str, Any]]:
    """Of each language the sentences in which the methods differ on most words; of equals the shorter, the earlier."""
    examples = []
    for group in frame.groups("zero-shot"):
        for language in frame.languages("zero-shot", group):
            found = [frame.entries("zero-shot", group, row, language=language) for row in COMPARED]
            seeds = set.intersection(*({entry.run.seed for entry in entries} for entries in found))
            if not seeds:
                continue
            first = [next(entry for entry in entries if entry.run.seed == min(seeds)) for entries in found]
            tags = {entry.score.row: _tags(store, entry) for entry in first}
            gold = store.gold(group, language)
            for index in _most_disputed(gold, tags):
                examples.append(
                    {
                        "group": group,
                        "language": language,
                        "seed": min(seeds),
                        "sentence": index + 1,
                        "words": gold[index].words,
                        "gold": gold[index].tags,
                        "tags": {row: tags[row][index] for row in COMPARED},
                    }
                )
    return examples


def _most_disputed(gold: list[Sentence], tags: dict[str, Tags]) -> list[int]:
    disputed = {}
    for index, sentence in enumerate(gold):
        if EXAMPLE_WORDS[0] <= len(sentence.words) <= EXAMPLE_WORDS[1]:
            said = zip(*(system[index] for system in tags.values()), strict=True)
            disputed[index] = sum(len(set(word)) > 1 for word in said)
    order = sorted(disputed, key=lambda index: (-disputed[index], len(gold[index].words), index))
    return [index for index in order[:EXAMPLES] if disputed[index]]


def _statistics(data: Path, tell: Tell) -> dict[str, Any]:
    from zgul.corpora.stats import measure

    measured = measure(data, lambda _file, done, total: tell({"stage": "reading data", "done": done, "total": total}))
    return {
        "groups": [asdict(row) for row in measured.groups],
        "targets": [asdict(row) for row in measured.targets],
    }


def _text_sizes(frame: Frame, data: Path) -> dict[str, dict[str, int]]:
    """Lines of unlabelled text, open and research, of all targets that have some, if the unlabelled part was run."""
    sizes: dict[str, dict[str, int]] = {}
    for code in sorted(TARGETS) if frame.groups("unlabelled") else ():
        for path in sorted((data / "text").glob(f"{code}.*.txt*")):
            with open_binary(path) as file:
                sizes.setdefault(code, {})[path.name.split(".")[1]] = sum(1 for _ in file)
    return sizes

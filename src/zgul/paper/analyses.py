"""What the report needs besides scores. It is computed once, so that an export can carry it.

McNemar's counts of ZGUL against every other row on the pooled words of a group; sentences on which the methods
disagree; the paper's qualitative examples with our tags; statistics of the data.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from zgul.corpora.sentence import Sentence
from zgul.corpora.stats import measure
from zgul.files import open_binary
from zgul.languages import GROUPS, TARGETS
from zgul.paper.frame import Entry, Frame
from zgul.paper.numbers import EXAMPLES
from zgul.paper.rows import COMPARED, ZGUL
from zgul.paper.store import Store
from zgul.progress import Report, Status, silent

Tags = list[list[str]]

WORDS = (4, 12)  # of a disputed sentence: shorter ones say little, longer ones do not fit on a line
DISPUTED = 2  # sentences of each language


def analyse(
    store: Store, data: Path | str | None = None, report: Report = silent, *, sentences: bool = True
) -> dict[str, Any]:
    """Everything that scores do not tell. Statistics need the data folder. Examples quote test sentences."""
    frame = Frame(store)
    folder = Path(data) if data is not None else None
    return {
        "mcnemar": _count_words(frame, report),
        "examples": _disputed_sentences(frame) if sentences else None,
        "paper_examples": _paper_examples(frame) if sentences else None,
        "statistics": _measure(folder, report) if folder is not None else None,
        "text": _text_sizes(frame, folder) if folder is not None else {},
    }


def tags_of(frame: Frame, entry: Entry) -> Tags:
    """The predictions behind a score."""
    return frame.store.predictions(entry.run.hash, entry.score.row, entry.score.language)


def _count_words(frame: Frame, report: Report) -> list[dict[str, Any]]:
    """The words that only ZGUL, and that only the other row, tags correctly: by group, row and seed."""
    counts = []
    groups = frame.groups()
    for done, group in enumerate(groups, start=1):
        gold = {code: [s.tags or [] for s in frame.store.gold(group, code)] for code in frame.languages(group)}
        own = _right_words(frame, group, ZGUL, gold)
        for row in frame.rows(group):
            other = _right_words(frame, group, row, gold) if row != ZGUL else {}
            for seed in sorted(own.keys() & other.keys()):
                only_zgul = int((own[seed] & ~other[seed]).sum())
                only_row = int((~own[seed] & other[seed]).sum())
                place = {"part": "zero-shot", "group": group, "row": row, "seed": seed}
                counts.append(place | {"only_zgul": only_zgul, "only_row": only_row, "words": len(own[seed])})
        report(Status("comparing", done, len(groups)))
    return counts


def _right_words(frame: Frame, group: str, row: str, gold: dict[str, Tags]) -> dict[int, npt.NDArray[np.bool_]]:
    """For each seed that has all languages: which of the group's words a row tags correctly."""
    by_seed: dict[int, dict[str, Entry]] = {}
    for entry in frame.entries(group, row):
        by_seed.setdefault(entry.run.seed, {})[entry.score.language] = entry
    return {
        seed: np.concatenate([_right(gold[code], tags_of(frame, by_language[code])) for code in gold])
        for seed, by_language in by_seed.items()
        if set(gold) <= set(by_language)
    }


def _right(gold: Tags, tags: Tags) -> npt.NDArray[np.bool_]:
    pairs = zip(chain.from_iterable(gold), chain.from_iterable(tags), strict=True)
    return np.fromiter((truth == tag for truth, tag in pairs), dtype=bool)


def compared_tags(frame: Frame, group: str, language: str) -> tuple[int, dict[str, Tags]] | None:
    """The lowest seed that ZGUL, CPG and SFT-M share on a language, and what they say there."""
    by_row = [{e.run.seed: e for e in frame.entries(group, row, language=language)} for row in COMPARED]
    seeds = set.intersection(*map(set, by_row))
    if not seeds:
        return None
    return min(seeds), {row: tags_of(frame, entries[min(seeds)]) for row, entries in zip(COMPARED, by_row, strict=True)}


def _disputed_sentences(frame: Frame) -> list[dict[str, Any]]:
    """Of each language the sentences in which the methods differ on most words; of equals the shorter, the earlier."""
    examples = []
    for group in frame.groups():
        for language in frame.languages(group):
            if compared := compared_tags(frame, group, language):
                gold = frame.store.gold(group, language)
                chosen = _most_disputed(gold, compared[1])
                examples += [_example(group, language, compared, gold, index) for index in chosen]
    return examples


def _example(
    group: str, language: str, compared: tuple[int, dict[str, Tags]], gold: list[Sentence], index: int
) -> dict[str, Any]:
    place = {"group": group, "language": language, "seed": compared[0], "sentence": index + 1}
    tags = {row: tags[index] for row, tags in compared[1].items()}
    return place | {"words": gold[index].words, "gold": gold[index].tags, "tags": tags}


def _most_disputed(gold: list[Sentence], tags: dict[str, Tags]) -> list[int]:
    disputed = {}
    for index, sentence in enumerate(gold):
        if WORDS[0] <= len(sentence.words) <= WORDS[1]:
            words = zip(*(system[index] for system in tags.values()), strict=True)
            disputed[index] = sum(len(set(said)) > 1 for said in words)
    order = sorted(disputed, key=lambda index: (-disputed[index], len(gold[index].words), index))
    return [index for index in order[:DISPUTED] if disputed[index]]


def _paper_examples(frame: Frame) -> list[dict[str, Any]]:
    """The sentences of the paper's appendix that stand in the test files."""
    examples = []
    group_of = {code: group for group in frame.groups() for code in GROUPS[group].targets}
    for printed in EXAMPLES:
        group, language = group_of.get(printed.language, ""), printed.language
        if not group or not (compared := compared_tags(frame, group, language)):
            continue
        gold = frame.store.gold(group, language)
        index = next((i for i, sentence in enumerate(gold) if holds(sentence.words, printed.pieces())), None)
        if index is not None:
            examples.append(_example(group, language, compared, gold, index) | {"label": printed.label})
    return examples


def holds(words: list[str], pieces: list[list[str]]) -> bool:
    """Does a sentence hold these stretches of words, one after the other?"""
    plain = [word.replace("’", "'") for word in words]
    place = 0
    for piece in pieces:
        starts = (i for i in range(place, len(plain) - len(piece) + 1) if plain[i : i + len(piece)] == piece)
        start = next(starts, None)
        if start is None:
            return False
        place = start + len(piece)
    return True


def _measure(data: Path, report: Report) -> dict[str, Any]:
    measured = measure(data, report)
    return {"groups": [asdict(row) for row in measured.groups], "targets": [asdict(row) for row in measured.targets]}


def _text_sizes(frame: Frame, data: Path) -> dict[str, dict[str, int]]:
    """Lines of unlabelled text, open and research, of all targets that have some, if such runs were made."""
    sizes: dict[str, dict[str, int]] = {}
    for code in sorted(TARGETS) if frame.groups("unlabelled") else ():
        for path in sorted((data / "text").glob(f"{code}.*.txt*")):
            with open_binary(path) as file:
                sizes.setdefault(code, {})[path.name.split(".")[1]] = sum(1 for _ in file)
    return sizes

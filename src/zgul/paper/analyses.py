"""What the report needs besides scores. It is computed once, so that an export can carry it.

McNemar's counts of ZGUL against every other row on the pooled words of a group; sentences on which the methods
disagree; the paper's qualitative examples with our tags; statistics of the data.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from zgul.corpora.data_folder import TEXT_KINDS, DataFolder
from zgul.corpora.stats import measure
from zgul.evaluation import mcnemar
from zgul.languages import TARGETS
from zgul.paper.frame import Frame
from zgul.paper.numbers import EXAMPLES
from zgul.paper.rows import COMPARED, ZGUL
from zgul.paper.store import Store
from zgul.progress import Report, Status, silent

Analysis = dict[str, Any]
WORDS = (4, 12)  # of a disputed sentence: shorter ones say little, longer ones do not fit on a line
DISPUTED = 2  # sentences of each language


def analyse(
    store: Store, data: Path | str | None = None, report: Report = silent, *, sentences: bool = True
) -> Analysis:
    """Everything that scores do not tell. Statistics need the data folder. Examples quote test sentences."""
    frame = Frame(store)
    found: Analysis = {"mcnemar": _count_words(frame, report), "examples": None, "paper_examples": None}
    if sentences:
        found["examples"], found["paper_examples"] = _choose_examples(frame)
    statistics = asdict(measure(data, report)) if data is not None else None
    found["statistics"] = statistics and {name: statistics[name] for name in ("groups", "targets")}
    found["text"] = _count_text(DataFolder(data)) if data is not None and frame.groups("unlabelled") else {}
    return found


def _count_words(frame: Frame, report: Report) -> list[Analysis]:
    """The words that only ZGUL, and that only the other row, tags correctly: by group, row and seed."""
    counts = []
    groups = frame.groups()
    for done, group in enumerate(groups, start=1):
        gold = [s.tags or [] for code in frame.languages(group) for s in frame.store.gold(group, code)]
        own = _pooled_tags(frame, group, ZGUL)
        for row in frame.rows(group):
            other = _pooled_tags(frame, group, row) if row != ZGUL else {}
            for seed in sorted(own.keys() & other.keys()):
                test = mcnemar(gold, own[seed], other[seed])
                words = {"only_zgul": test.only_first, "only_row": test.only_second, "words": sum(map(len, gold))}
                counts.append({"part": "zero-shot", "group": group, "row": row, "seed": seed} | words)
        report(Status("comparing", done, len(groups)))
    return counts


def _pooled_tags(frame: Frame, group: str, row: str) -> dict[int, list[list[str]]]:
    """For each seed that has all languages: what a row says on the sentences of the group."""
    entries = {(entry.run.seed, entry.score.language): entry for entry in frame.entries(row, group)}
    places = {seed: [(seed, code) for code in frame.languages(group)] for seed, _ in entries}
    return {
        seed: [tags for place in needed for tags in frame.tags(entries[place])]
        for seed, needed in places.items()
        if all(place in entries for place in needed)
    }


def _choose_examples(frame: Frame) -> tuple[list[Analysis], list[Analysis]]:
    """The most disputed sentences of each language, of equals the shorter and the earlier, and those of the paper.

    They have the tags of the compared rows at the lowest seed that all of these have.
    """
    disputed, printed = [], []
    for group, language in [(name, code) for name in frame.groups() for code in frame.languages(name)]:
        by_row = {row: {e.run.seed: e for e in frame.entries(row, group, language=language)} for row in COMPARED}
        if seeds := set.intersection(*map(set, by_row.values())):
            place = {"group": group, "language": language, "seed": min(seeds)}
            tags = {row: frame.tags(entries[min(seeds)]) for row, entries in by_row.items()}
            sentences: list[Analysis] = []
            for index, gold in enumerate(frame.store.gold(group, language)):
                said = {row: by_sentence[index] for row, by_sentence in tags.items()}
                sentences.append(place | {"sentence": index + 1, "words": gold.words, "gold": gold.tags, "tags": said})
            candidates = [item for item in sentences if WORDS[0] <= len(item["words"]) <= WORDS[1] and _disputes(item)]
            disputed += sorted(candidates, key=lambda item: (-_disputes(item), len(item["words"])))[:DISPUTED]
            for example in (example for example in EXAMPLES if example.language == language):
                same = (item for item in sentences if example.stands_in(item["words"]))
                printed += [item | {"label": example.label} for item in same]
    return disputed, printed


def _disputes(sentence: Analysis) -> int:
    """The words on which the rows differ."""
    return sum(len(set(tags)) > 1 for tags in zip(*sentence["tags"].values(), strict=True))


def _count_text(data: DataFolder) -> dict[str, dict[str, int]]:
    """Lines of unlabelled text, open and research, of all targets that have some."""
    files = [(code, kind) for code in sorted(TARGETS) for kind in TEXT_KINDS if data.text_files(code, [kind])]
    sizes: dict[str, dict[str, int]] = {code: {} for code, _ in files}
    for code, kind in files:
        sizes[code][kind] = sum(1 for _ in data.text_lines(code, [kind]))
    return sizes

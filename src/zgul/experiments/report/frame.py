"""The results as the report asks for them: scores by part, group and row, and their spread over seeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zgul.evaluation.compare import MeanStd, mean_std
from zgul.experiments.store import DONE, Results, Score, StoredRun
from zgul.languages import GROUPS

ENGLISH_ROWS = ("SFT-En", "MADX-En", "MADX-Rel", "MADX-EMEA")
MULTI_ROWS = ("MADX^multi-En", "MADX^multi-Rel", "MADX^multi-Uniform", "MADX^multi-EMEA", "SFT-M", "CPG")
BASELINES = ENGLISH_ROWS + MULTI_ROWS
ZGUL = "ZGUL"
ABLATIONS = ("ZGUL w/o EM", "ZGUL w/o L", "ZGUL w/o F")
ZERO_SHOT_ROWS = (*BASELINES, ZGUL, *ABLATIONS)
COMPARED = (ZGUL, "CPG", "SFT-M")  # the rows of the paper's class tables, few-shot curves and examples
PARTS = ("zero-shot", "treated")  # those with the zero-shot tables


@dataclass(frozen=True)
class Entry:
    """A score with the run it belongs to."""

    run: StoredRun
    score: Score

    @property
    def draw(self) -> tuple[int, int]:
        """What is repeated to see the spread: the seed and, for few-shot, the draw of the examples."""
        return self.run.seed, int(self.run.extra.get("draw", 0))


class Frame:
    """All finished scores of a store; of runs that differ in nothing but code or settings, the newest."""

    def __init__(self, results: Results) -> None:
        newest: dict[tuple[Any, ...], StoredRun] = {}
        for run in sorted(results.runs(status=DONE), key=lambda run: (run.started, run.hash)):
            extra = tuple(sorted((name, str(value)) for name, value in run.extra.items()))
            newest[run.part, run.group, run.method, run.seed, encoder(run), extra] = run
        self.runs = list(newest.values())
        by_hash = {run.hash: run for run in self.runs}
        entries = [Entry(by_hash[score.run], score) for score in results.scores() if score.run in by_hash]
        counts = Counter(encoder(entry.run) for entry in entries)
        self.encoders = [name for name, _ in counts.most_common()]  # the first is the one the report is on
        self._index: dict[tuple[str, str, str, str], list[Entry]] = defaultdict(list)
        for entry in entries:
            key = (encoder(entry.run), entry.run.part, entry.run.group, entry.score.row)
            self._index[key].append(entry)

    @property
    def encoder(self) -> str:
        return self.encoders[0] if self.encoders else ""

    def entries(
        self, part: str, group: str, row: str, *, encoder: str | None = None, language: str | None = None, **extra: Any
    ) -> list[Entry]:
        """The scores of a row; ``extra`` picks runs, as in ``examples=30``."""
        found = self._index.get((encoder or self.encoder, part, group, row), [])
        return [
            entry
            for entry in found
            if language in (None, entry.score.language)
            and all(entry.run.extra.get(name) == value for name, value in extra.items())
        ]

    def groups(self, part: str, encoder: str | None = None) -> list[str]:
        """The groups that have scores in a part, in the paper's order."""
        there = {key[2] for key in self._index if key[:2] == (encoder or self.encoder, part)}
        return [name for name in GROUPS if name in there]

    def rows(self, part: str, group: str, encoder: str | None = None) -> list[str]:
        """The rows that have scores, the known ones in the paper's order, others after them."""
        there = sorted(key[3] for key in self._index if key[:3] == (encoder or self.encoder, part, group))
        known = [row for row in ZERO_SHOT_ROWS if row in there]
        return known + [row for row in there if row not in known]

    def languages(self, part: str, group: str, encoder: str | None = None) -> list[str]:
        """The targets of a group that have scores, in the paper's order."""
        there = {
            entry.score.language
            for key, entries in self._index.items()
            if key[:3] == (encoder or self.encoder, part, group)
            for entry in entries
        }
        return [code for code in GROUPS[group].targets if code in there]

    def runs_of(self, part: str, group: str, method: str | None = None) -> list[StoredRun]:
        return [
            run
            for run in self.runs
            if (run.part, run.group) == (part, group) and method in (None, run.method) and encoder(run) == self.encoder
        ]


def encoder(run: StoredRun) -> str:
    """The name of a run's encoder without its folders; copies of the embedded one without unused pieces are it."""
    name = str(run.config.get("encoder") or "embedded").rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
    return "embedded" if name.endswith(".q4.safetensors") else name


def f1(entries: Iterable[Entry]) -> MeanStd | None:
    """Mean and deviation over seeds and draws."""
    values = [entry.score.f1 for entry in entries]
    return mean_std(values) if values else None


def averages(entries: Iterable[Entry], languages: Sequence[str]) -> dict[tuple[int, int], float]:
    """The average over languages of each seed and draw that has them all."""
    by_draw: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for entry in entries:
        by_draw[entry.draw][entry.score.language] = entry.score.f1
    return {
        draw: sum(values[code] for code in languages) / len(languages)
        for draw, values in sorted(by_draw.items())
        if languages and all(code in values for code in languages)
    }


def average(entries: Iterable[Entry], languages: Sequence[str]) -> MeanStd | None:
    """Mean and deviation, over seeds and draws, of the average over languages."""
    values = list(averages(entries, languages).values())
    return mean_std(values) if values else None


def closest_baseline(frame: Frame, part: str, group: str) -> str | None:
    """The row with the highest average of those that are not ZGUL's."""
    languages = frame.languages(part, group)
    found = {row: average(frame.entries(part, group, row), languages) for row in BASELINES}
    known = {row: value.mean for row, value in found.items() if value is not None}
    return max(known, key=lambda row: known[row]) if known else None

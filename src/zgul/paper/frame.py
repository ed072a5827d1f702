"""The results as the report asks for them: scores by part, group and row, and their spread over seeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zgul.evaluation import MeanStd, mean_std
from zgul.languages import GROUPS
from zgul.paper.rows import BASELINES, ROWS
from zgul.paper.store import DONE, Score, Store, StoredRun

PARTS = ("zero-shot", "few-shot", "unlabelled", "tuning", "variants")  # runs of other parts are not reported


@dataclass(frozen=True)
class Entry:
    """A score and the run it belongs to."""

    run: StoredRun
    score: Score

    @property
    def draw(self) -> tuple[int, int]:
        """What is repeated to see the spread: the seed and, in few-shot runs, the draw of the examples."""
        return self.run.seed, int(self.run.extra.get("draw", 0))


class Frame:
    """All finished scores of a store. Of runs that differ only in code or settings the newest counts.

    Without ``analyses`` those that an export carries are taken. ``seeds`` keeps the runs of these seeds only.
    """

    def __init__(
        self, store: Store, analyses: dict[str, Any] | None = None, *, seeds: Iterable[int] | None = None
    ) -> None:
        self.store, self.analyses = store, analyses or store.analyses or {}
        newest: dict[tuple[Any, ...], StoredRun] = {}
        for run in sorted(store.runs(status=DONE), key=lambda run: (run.started, run.hash)):
            if run.part in PARTS and (seeds is None or run.seed in seeds):
                extra = tuple(sorted((name, str(value)) for name, value in run.extra.items()))
                newest[run.part, run.group, run.method, run.seed, encoder_of(run), extra] = run
        self.runs = list(newest.values())
        by_hash = {run.hash: run for run in self.runs}
        entries = [Entry(by_hash[score.run], score) for score in store.scores() if score.run in by_hash]
        counts = Counter(encoder_of(entry.run) for entry in entries)
        self.encoders = [name for name, _ in counts.most_common()]
        self.encoder = self.encoders[0] if self.encoders else ""  # the one that the report is about
        self._index: dict[tuple[str, str, str, str], list[Entry]] = defaultdict(list)
        for entry in entries:
            self._index[encoder_of(entry.run), entry.run.part, entry.run.group, entry.score.row].append(entry)

    def entries(self, group: str, row: str, part: str = "zero-shot", encoder: str = "", **where: Any) -> list[Entry]:
        """The scores of a row. ``where`` selects by language and by what tells runs apart, as in ``examples=30``."""
        entries = self._index.get((encoder or self.encoder, part, group, row), [])
        wanted = {name: value for name, value in where.items() if value is not None}
        return [e for e in entries if wanted.items() <= (e.run.extra | {"language": e.score.language}).items()]

    def groups(self, part: str = "zero-shot") -> list[str]:
        """The groups that have scores in a part, in the paper's order."""
        scored = {key[2] for key in self._index if key[:2] == (self.encoder, part)}
        return [name for name in GROUPS if name in scored]

    def rows(self, group: str, part: str = "zero-shot") -> list[str]:
        """The rows that have scores, in the order of the registry."""
        scored = {key[3] for key in self._index if key[:3] == (self.encoder, part, group)}
        return [row.title for row in ROWS if row.title in scored]

    def languages(self, group: str, part: str = "zero-shot", encoder: str = "") -> list[str]:
        """The targets of a group that have scores, in the paper's order."""
        place = (encoder or self.encoder, part, group)
        scored = {entry.score.language for key in self._index if key[:3] == place for entry in self._index[key]}
        return [code for code in GROUPS[group].targets if code in scored]

    def runs_of(self, part: str, group: str | None = None, method: str | None = None) -> list[StoredRun]:
        """The runs with the report's encoder, by seed."""
        runs = (run for run in self.runs if run.part == part and self.encoder in ("", encoder_of(run)))
        chosen = (run for run in runs if group in (None, run.group) and method in (None, run.method))
        return sorted(chosen, key=lambda run: run.seed)

    def closest_baseline(self, group: str) -> str | None:
        """The baseline with the highest average."""
        languages = self.languages(group)
        by_row = {row: average(self.entries(group, row), languages) for row in BASELINES}
        known = {row: value.mean for row, value in by_row.items() if value is not None}
        return max(known, key=lambda row: known[row]) if known else None


def encoder_of(run: StoredRun) -> str:
    """The name of a run's encoder without folders. The embedded encoder may have lost the pieces that nobody uses."""
    name = str(run.config.get("encoder") or "embedded").rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
    return "embedded" if name.endswith(".q4.safetensors") else name


def f1(entries: Iterable[Entry]) -> MeanStd | None:
    """Mean and deviation over seeds and draws."""
    values = [entry.score.f1 for entry in entries]
    return mean_std(values) if values else None


def averages(entries: Iterable[Entry], languages: Sequence[str]) -> dict[tuple[int, int], float]:
    """The average over languages, for each seed and draw that has all of them."""
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

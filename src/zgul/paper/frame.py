"""The results in the form that the report needs: scores by part, group and row, and their spread over seeds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import fmean as mean
from typing import Any, NamedTuple

from zgul.evaluation import MeanStd, mean_std
from zgul.languages import GROUPS
from zgul.paper.rows import ROWS
from zgul.paper.store import DONE, PARTS, Score, Store, StoredRun

Value = Callable[[Score], float]
F1: Value = attrgetter("f1")


class Entry(NamedTuple):
    """A score and the run it belongs to."""

    run: StoredRun
    score: Score
    keys: dict[str, Any]  # to select it by: language, encoder, and what distinguishes the runs of a part


class Frame:
    """All finished scores of a store. Of runs of one name, only the last that was planned is in it."""

    def __init__(self, store: Store, analyses: dict[str, Any] | None = None) -> None:
        self.store, self.analyses = store, analyses or store.analyses or {}
        self.runs = [run for run in store.runs(status=DONE) if run.part in PARTS]  # others are of earlier versions
        by_hash = {run.hash: run for run in self.runs}
        self._index: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
        counts: Counter[str] = Counter()
        for score in (score for score in store.scores() if score.run in by_hash):
            run = by_hash[score.run]
            keys = {"share": 1.0} | run.extra | {"language": score.language, "encoder": encoder_of(run)}
            self._index[run.part, run.group, score.row].append(Entry(run, score, keys))
            counts[keys["encoder"]] += 1
        self.encoders = [name for name, _ in counts.most_common()]
        self.encoder = self.encoders[0] if self.encoders else ""  # the one that the report is about

    def entries(self, row: str, group: str = "", part: str = "zero-shot", **where: Any) -> list[Entry]:
        """The scores of a row, by default in all groups. ``where`` selects by the entries' keys."""
        wanted = {"encoder": self.encoder} | where
        entries = (entry for name in GROUPS if group in ("", name) for entry in self._index[part, name, row])
        return [entry for entry in entries if wanted.items() <= entry.keys.items()]

    def groups(self, part: str = "zero-shot") -> list[str]:
        """The groups that have scores in a part, in the paper's order."""
        return [group for group in GROUPS if self.rows(group, part)]

    def rows(self, group: str, part: str = "zero-shot") -> list[str]:
        """The rows that have scores, in the order of the registry."""
        return [row.title for row in ROWS if self.entries(row.title, group, part)]

    def languages(self, group: str, part: str = "zero-shot") -> list[str]:
        """The targets of a group that have scores, in the paper's order."""
        scored = {entry.score.language for row in ROWS for entry in self.entries(row.title, group, part)}
        return [code for code in GROUPS[group].targets if code in scored]

    def runs_of(self, part: str, group: str | None = None, method: str | None = None) -> list[StoredRun]:
        """The runs with the report's encoder, by seed."""
        runs = (run for run in self.runs if run.part == part and self.encoder in ("", encoder_of(run)))
        chosen = (run for run in runs if group in (None, run.group) and method in (None, run.method))
        return sorted(chosen, key=lambda run: run.seed)

    def tags(self, entry: Entry) -> list[list[str]]:
        """The predictions behind a score."""
        return self.store.predictions(entry.run.hash, entry.score.row, entry.score.language)


def encoder_of(run: StoredRun) -> str:
    """The name of the encoder of a run."""
    return encoder_name(run.config.get("encoder") or "embedded")


def encoder_name(place: str) -> str:
    """The name of an encoder without folders. A pruned embedded encoder counts as the embedded one."""
    return "embedded" if place.endswith(".q4.safetensors") else Path(place).name


def averages(entries: Iterable[Entry], languages: Collection[str], value: Value = F1) -> dict[tuple[int, int], float]:
    """The average over languages, for each seed and draw of examples that has all of them."""
    by_draw: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for run, score, _ in entries:
        by_draw[run.seed, run.extra.get("draw", 0)][score.language] = value(score)
    complete = {draw: values for draw, values in sorted(by_draw.items()) if languages and {*languages} <= {*values}}
    return {draw: mean(values[code] for code in languages) for draw, values in complete.items()}


def average(entries: Iterable[Entry], languages: Collection[str], value: Value = F1) -> MeanStd | None:
    """Mean and deviation, over seeds and draws, of the average over languages."""
    return spread(averages(entries, languages, value).values())


def spread(values: Iterable[float]) -> MeanStd | None:
    """Mean and deviation, or None if there are no values."""
    return mean_std(found) if (found := list(values)) else None


@dataclass(frozen=True)
class TunedMethod:
    """The settings tried for one method and task: dev F1 by rate and reduction, averaged over groups."""

    task: str
    method: str
    groups: tuple[str, ...]
    dev_f1: dict[tuple[float, float | None], float]  # (rate, reduction) -> F1; the reduction of SFT is None

    @property
    def chosen(self) -> tuple[float, float | None]:
        return min(self.dev_f1, key=lambda setting: (-round(self.dev_f1[setting], 6), setting[0], setting[1] or 0))


def choose_tuned(runs: Iterable[StoredRun]) -> list[TunedMethod]:
    """The settings chosen from finished runs of the part "tuning", by task and method.

    The highest F1 on the dev sets of the sources wins. The best epoch of a run counts, and the groups of a task are
    averaged. Of equals, the smaller rate wins, then the smaller reduction. A setting that lacks a group is left out.
    """
    tried: dict[tuple[str, str], dict[tuple[float, float | None], dict[str, float]]] = defaultdict(dict)
    for run in runs:
        if run.part == "tuning" and run.facts.get("dev_f1"):
            setting = (float(run.extra["rate"]), run.extra.get("reduction"))
            by_setting = tried[GROUPS[run.group].task, run.method]
            by_setting.setdefault(setting, {})[run.group] = max(run.facts["dev_f1"])
    tuned = []
    for (task, method), settings in tried.items():
        groups = tuple(name for name in GROUPS if any(name in by_group for by_group in settings.values()))
        complete = {key: mean(by_group.values()) for key, by_group in settings.items() if len(by_group) == len(groups)}
        tuned += [TunedMethod(task, method, groups, complete)] if complete else []
    return tuned

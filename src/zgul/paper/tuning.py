"""The learning rate and reduction factor of each method, chosen on dev sets of the sources before any target is scored.

The rule: for each task and method, the setting with the highest F1 on the sources' dev sets. Of a run the best epoch
counts, and the runs of a task's groups are averaged. Of equals the smaller rate is taken, then the smaller reduction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from zgul.languages import GROUPS
from zgul.paper.store import StoredRun

RULE = (
    "For each task and method the setting with the highest F1 on the dev sets of the sources is chosen: of a run the "
    "best epoch counts, and the runs of the task's tuning groups are averaged. Of equals the smaller rate is taken. "
    "No target was scored for this."
)


@dataclass(frozen=True)
class TunedMethod:
    """What was tried for one method and task: dev F1 by rate and reduction, averaged over groups."""

    task: str
    method: str
    groups: tuple[str, ...]
    dev_f1: dict[tuple[float, float | None], float]  # (rate, reduction) -> F1; of SFT the reduction is None

    @property
    def chosen(self) -> tuple[float, float | None]:
        return min(self.dev_f1, key=lambda setting: (-round(self.dev_f1[setting], 6), setting[0], setting[1] or 0))


def choose_settings(runs: Iterable[StoredRun]) -> list[TunedMethod]:
    """The settings chosen from finished runs of the part "tuning". A setting that lacks a group is left out."""
    tried: dict[tuple[str, str], dict[tuple[float, float | None], dict[str, float]]] = defaultdict(dict)
    for run in runs:
        if run.part == "tuning" and run.facts.get("dev_f1"):
            setting = (float(run.extra["rate"]), run.extra.get("reduction"))
            by_setting = tried[GROUPS[run.group].task, run.method]
            by_setting.setdefault(setting, {})[run.group] = max(run.facts["dev_f1"])
    tuned = []
    for (task, method), settings in tried.items():
        groups = tuple(name for name in GROUPS if any(name in by_group for by_group in settings.values()))
        means = {
            setting: sum(by_group.values()) / len(groups)
            for setting, by_group in sorted(settings.items(), key=lambda item: (item[0][0], item[0][1] or 0))
            if len(by_group) == len(groups)
        }
        if means:
            tuned.append(TunedMethod(task, method, groups, means))
    return tuned

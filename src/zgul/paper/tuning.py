"""The learning rate and reduction factor of each method, chosen on dev sets of the sources before any target is scored.

For each task and method the highest F1 wins: of a run the best epoch counts, and the groups of a task are averaged. Of
equals the smaller rate is taken, then the smaller reduction.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean

from zgul.languages import GROUPS
from zgul.paper.store import StoredRun


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
        complete = {setting: by_group for setting, by_group in settings.items() if len(by_group) == len(groups)}
        if complete:
            means = {setting: mean(by_group.values()) for setting, by_group in complete.items()}
            tuned.append(TunedMethod(task, method, groups, means))
    return tuned

"""The taggers that come with the package, and which of them serves a language. Needs no torch.

A shipped tagger is a folder beside ``adapters.safetensors``, called after its group and task (``germanic-pos``) or,
for the taggers over all sources, ``all-pos`` and ``all-ner``. `zgul.tagging.loading` loads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zgul.errors import ZgulError
from zgul.files import read_json, shipped_folder
from zgul.languages import Language, explain_group, find

TASKS = {"pos": "parts of speech", "ner": "named entities"}
GENERAL = "all"  # the name of the taggers over all sources


@dataclass(frozen=True)
class Served:
    """The tagger that serves a language for a task, and why."""

    name: str  # of the tagger, such as "germanic-pos"
    task: str
    group: str | None  # the language's group; None outside every group
    reason: str
    warning: str | None = None  # for a language that the tagger was not made for


def shipped_names() -> list[str]:
    """The taggers that are installed."""
    return sorted(path.parent.name for path in shipped_folder().glob("*/config.json"))


def serving(lang: str | Language, task: str) -> Served:
    """The tagger that serves a language: its group's, if that has this task, else the one over all sources.

    Where several groups are equally near (French, Breton, Greek), none fits: the one over all sources, with a warning.
    """
    check_task(task)
    language = find(lang)
    assignment = explain_group(language)
    group = assignment.group
    general = f"{GENERAL}-{task}"
    if group is None:
        reason = f"{language.name} belongs to no group ({assignment.reason})"
        warning = (
            f"{language} is related to none of the languages that zgul's taggers learnt from: {assignment.reason}. "
            f'The tagger "{general}" rests on {_rests_on(general)} alone. Check its tags before you rely on them.'
        )
        return Served(general, task, None, reason, warning)
    if not assignment.alone:
        distant = assignment.reason.partition(";")[0]
        reason = f"it {distant}, so none of them fits; this one rests on {_rests_on(general)}"
        warning = (
            f"{language} is only distantly related to the languages that zgul's taggers learnt from: it {distant}. "
            f'The tagger "{general}" rests on {_rests_on(general)}. Check its tags before you rely on them.'
        )
        return Served(general, task, group.name, reason, warning)
    if group.task == task:
        return Served(f"{group.name}-{task}", task, group.name, f"{group.name}: {assignment.reason}")
    reason = f"the {group.name} group has no tagger for {TASKS[task]}; this one rests on {_rests_on(general)}"
    return Served(general, task, group.name, reason)


def shipped_config(name: str) -> dict[str, Any]:
    """The ``config.json`` of a shipped tagger; empty if it is not installed."""
    path = shipped_folder() / name / "config.json"
    return read_json(path) if path.is_file() else {}


def check_task(task: str) -> str:
    if task not in TASKS:
        raise ZgulError(f"There is no task {task!r}. Choose pos, ner or both.")
    return task


def _rests_on(name: str) -> str:
    """The languages that a tagger learnt from."""
    codes = shipped_config(name).get("sources", ())
    return ", ".join(find(code).name for code in codes) or "all source languages"

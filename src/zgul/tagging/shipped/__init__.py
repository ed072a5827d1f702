"""The taggers that come with the package, and which of them serves a language.

``adapters.safetensors`` holds the language adapters of all sources; each tagger is a folder beside it, called after
its group and task (``germanic-pos``) or, for the taggers over all sources, ``all-pos`` and ``all-ner``. The
environment variable ``ZGUL_TAGGERS`` names another folder of this form. Needs no torch until a tagger is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from zgul.errors import ZgulError
from zgul.languages import Language, explain_group, find

if TYPE_CHECKING:
    from zgul.adapters.bank import LanguageAdapter
    from zgul.methods.tagger import Tagger

TASKS = {"pos": "parts of speech", "ner": "named entities"}
GENERAL = "all"  # what the taggers over all sources are called


@dataclass(frozen=True)
class Served:
    """The tagger that serves a language for a task, and why."""

    name: str  # of the tagger, such as "germanic-pos"
    task: str
    group: str | None  # the language's group; None outside every group
    reason: str
    warning: str | None = None  # for a language that the tagger was not made for


def folder() -> Path:
    """Where the taggers are: ``ZGUL_TAGGERS``, else inside the package."""
    chosen = os.environ.get("ZGUL_TAGGERS")
    return Path(chosen).expanduser() if chosen else Path(__file__).parent


def names() -> list[str]:
    """The taggers that are there."""
    return sorted(path.parent.name for path in folder().glob("*/config.json"))


def serving(lang: str | Language, task: str) -> Served:
    """Which tagger serves a language: its group's, if that group has this task, else the one over all sources.

    Where several groups are equally near (French, Breton, Greek) none fits: the one over all sources, with a warning.
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
            f'The tagger "{general}" rests on {_rests_on(general)} alone; check its tags before you rely on them.'
        )
        return Served(general, task, None, reason, warning)
    if not assignment.alone:
        distant = assignment.reason.partition(";")[0]
        reason = f"it {distant}, so none of them fits; this one rests on {_rests_on(general)}"
        warning = (
            f"{language} is only distantly related to the languages that zgul's taggers learnt from: it {distant}. "
            f'The tagger "{general}" rests on {_rests_on(general)}; check its tags before you rely on them.'
        )
        return Served(general, task, group.name, reason, warning)
    if group.task == task:
        return Served(f"{group.name}-{task}", task, group.name, f"{group.name}: {assignment.reason}")
    reason = f"the {group.name} group has no tagger for {TASKS[task]}; this one rests on {_rests_on(general)}"
    return Served(general, task, group.name, reason)


def sources(name: str) -> list[str]:
    """The codes of the languages that a tagger learnt from; none if it is not there."""
    from zgul.tensors import read_json

    path = folder() / name / "config.json"
    return [str(code) for code in read_json(path)["sources"]] if path.is_file() else []  # type: ignore[attr-defined]


def encoder_name(path: Path) -> str:
    """The encoder that a tagger's folder was trained on."""
    from zgul.tensors import read_json

    info = read_json(path / "config.json").get("encoder")
    return str(info.get("name")) if isinstance(info, dict) else ""


def tagger(lang: str | Language, task: str) -> Tagger:
    """The tagger that serves a language, loaded once."""
    return load(serving(lang, task).name)


def load(name: str) -> Tagger:
    """The shipped tagger of this name, loaded once."""
    path = folder() / name
    if not (path / "config.json").is_file():
        there = ", ".join(names()) or "none"
        raise ZgulError(
            f'The tagger "{name}" is not there: {path} has no config.json (there: {there}). Install the package '
            "with its weights again, or give a folder of your own: zgul tag --model FOLDER, zgul.load(model=FOLDER)."
        )
    return _load(path)


@lru_cache(maxsize=8)
def _load(path: Path) -> Tagger:
    from zgul.methods.tagger import Tagger

    if encoder_name(path) == "embedded":  # without the seconds that importing transformers' models takes
        from zgul.encoders import light

        return Tagger.from_pretrained(path, encoder=light.load())
    return Tagger.from_pretrained(path)


def adapters(sources: Sequence[str]) -> list[LanguageAdapter]:
    """The shipped language adapters of these languages, in this order."""
    path = folder() / "adapters.safetensors"
    if not path.is_file():
        raise ZgulError(f"{path}: the shipped language adapters are not there; install the package again")
    known = {adapter.language: adapter for adapter in _load_adapters(path)}
    if missing := [code for code in sources if code not in known]:
        raise ZgulError(f"{path} has no language adapter for {', '.join(missing)}; it has {', '.join(known)}")
    return [known[code] for code in sources]


@lru_cache(maxsize=2)
def _load_adapters(path: Path) -> list[LanguageAdapter]:
    from zgul.adapters.storage import load_adapters

    return load_adapters(path)


def check_task(task: str) -> str:
    if task not in TASKS:
        raise ZgulError(f"unknown task {task!r}: choose pos, ner or both")
    return task


def _rests_on(name: str) -> str:
    learnt = sources(name)
    return ", ".join(find(code).name for code in learnt) if learnt else "all source languages"

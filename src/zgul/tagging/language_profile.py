"""What zgul knows about a language: who it is, its relatives, which taggers serve it, what accuracy to expect.

``zgul languages`` prints these objects. The accuracy comes from the ``about`` part of the taggers' ``config.json``.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

from zgul.errors import ZgulWarning
from zgul.languages import (
    GROUPS,
    SOURCES,
    Assignment,
    Language,
    assign_group,
    explain_group,
    feature_source,
    find,
    most_related,
    similarity,
)
from zgul.languages.relatedness import KINDS, Kind
from zgul.tagging.serving import TASKS, Served, serving, shipped_config, shipped_names


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The F1 to expect of a tagger for a language, in per cent."""

    f1: float
    measured_on: tuple[str, ...]  # codes: the language itself, its closest measured relative, or the sources
    note: str  # what was measured


@dataclass(frozen=True)
class ServingTagger(Served):
    """The tagger that serves a language for a task, why, and what accuracy to expect."""

    installed: bool = False
    expected: ExpectedAccuracy | None = None  # None where nothing related was measured


@dataclass(frozen=True)
class LanguageProfile:
    """What is known about a language, and what zgul has for it."""

    language: Language
    assignment: Assignment  # its group, and why that one
    features_of: str  # code of the language whose URIEL features are used
    most_related: str  # source of its group, or of all groups if it has none
    similarity: dict[str, dict[Kind, float]]  # to each source by kind, the most similar source first
    taggers: tuple[ServingTagger, ...]  # one per task


@dataclass(frozen=True)
class PaperLanguage:
    """A source or target of one of the paper's groups."""

    group: str
    task: str
    role: str  # source or target
    language: Language
    most_related: str | None  # of a target: the source
    taggers: dict[str, str]  # by task


def describe(language: str | Language) -> LanguageProfile:
    """Collect what is known about a language, which may be given by any code or name."""
    language = find(language)
    with _no_warnings():
        assignment = explain_group(language)
        similar = {code: {kind: round(similarity(language, code, kind), 4) for kind in KINDS} for code in SOURCES}
        return LanguageProfile(
            language,
            assignment,
            feature_source(language.iso3).code,
            most_related(language, assignment.group.sources if assignment.group else SOURCES),
            dict(sorted(similar.items(), key=lambda item: -item[1]["average"])),
            tuple(_serving_tagger(language, task) for task in TASKS),
        )


def paper_languages() -> list[PaperLanguage]:
    """The sources and targets of the paper's groups."""
    rows = []
    roles = [(group, role) for group in GROUPS.values() for role in ("source", "target")]
    for group, role in roles:
        for code in group.sources if role == "source" else group.targets:
            with _no_warnings():
                nearest = most_related(code, group.sources) if role == "target" else None
                taggers = {task: serving(code, task).name for task in TASKS}
            rows.append(PaperLanguage(group.name, group.task, role, find(code), nearest, taggers))
    return rows


def expected_accuracy(language: str | Language, task: str) -> ExpectedAccuracy | None:
    """Return the F1 to expect of the shipped tagger that serves a language.

    It is the F1 measured on the language's own test file, if there is one. For a source it is that on the sources' dev
    sets. For other languages it is that of the closest relative in the same group that was measured. Without such a
    relative the answer is None.
    """
    language = find(language)
    served = serving(language, task)
    config = shipped_config(served.name)
    measured = _test_scores(config)
    if language.code in measured:
        return ExpectedAccuracy(measured[language.code], (language.code,), "measured on its test file")
    history = config.get("about", {}).get("history")
    if history and language.code in config["sources"]:
        best = round(max(entry["dev_f1"] for entry in history), 1)
        return ExpectedAccuracy(best, tuple(config["sources"]), "measured on the dev sets of all its source languages")
    with _no_warnings():
        group = assign_group(language)
        relatives = {code: f1 for code, f1 in measured.items() if assign_group(code) == group}
        if served.warning or group is None or not relatives:
            return None
        nearest = most_related(language, relatives)
    spread = f"related languages have {min(relatives.values()):.0f} to {max(relatives.values()):.0f}"
    note = f"a guess, as measured on its closest relative {find(nearest)}; {spread}. Check a sample by hand"
    return ExpectedAccuracy(relatives[nearest], (nearest,), note)


def _no_warnings() -> warnings.catch_warnings[None]:
    """A profile says whose features are used, so a warning about it would only repeat that."""
    return warnings.catch_warnings(action="ignore", category=ZgulWarning)


def _serving_tagger(language: Language, task: str) -> ServingTagger:
    served = serving(language, task)
    installed = served.name in shipped_names()
    return ServingTagger(**asdict(served), installed=installed, expected=expected_accuracy(language, task))


def _test_scores(config: dict[str, Any]) -> dict[str, float]:
    """The F1 on the targets' test files by language: in the precision that ships, with the tagger's own strategy."""
    by_precision = config.get("about", {}).get("scores", {})
    as_shipped: dict[str, float] = next((scores for name, scores in by_precision.items() if name != "full"), {})
    ending = f"/test/{config.get('strategy')}"
    return {key.removesuffix(ending): round(f1, 1) for key, f1 in as_shipped.items() if key.endswith(ending)}

"""Find the shipped tagger that serves a language, and the accuracy to expect. This module needs no torch.

A shipped tagger is a folder beside ``adapters.safetensors``, named after its group and task (``germanic-pos``) or,
for the taggers over all sources, ``all-pos`` and ``all-ner``. The accuracy comes from the ``about`` part of its
``config.json``. A folder that is named after a language (``hsb-pos``) holds an *adapted* tagger: a delta that
``zgul adapt`` made from raw text of the language (`zgul.tagging.delta`). `zgul.tagging.loading` loads taggers,
``zgul languages`` prints `LanguageProfile`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from zgul.corpora.sentence import TASKS, check_task
from zgul.files import read_json, shipped_folder
from zgul.languages import GROUPS, SOURCES, Language, find
from zgul.languages.groups import Assignment, assign_group, explain_group
from zgul.languages.relatedness import KINDS, Kind, feature_source, most_related, similarity

CHECK = "Check its tags before you rely on them."


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The F1 to expect of a tagger for a language, in per cent."""

    f1: float
    measured_on: tuple[str, ...]  # codes: the language itself, its closest measured relative, or the sources
    note: str  # what was measured


@dataclass(frozen=True)
class Served:
    """The tagger that serves a language for a task, and why."""

    name: str  # of the tagger, such as "germanic-pos" or, if it is adapted to the language, "hsb-pos"
    task: str
    group: str | None  # the language's group; None outside every group
    reason: str
    warning: str | None = None  # for a language that the tagger was not made for
    installed: bool = True
    expected: ExpectedAccuracy | None = None  # in a `LanguageProfile`, if a related language was measured
    base: str | None = None  # of an adapted tagger: the one that it starts from, which is zero-shot
    zero_shot: ExpectedAccuracy | None = None  # in a `LanguageProfile`: what to expect of `base`
    learnt_from: tuple[str, ...] = ()  # in a `LanguageProfile`: the languages of its labelled sentences


@dataclass(frozen=True)
class LanguageProfile:
    """What is known about a language, and what zgul has for it."""

    language: Language
    assignment: Assignment  # its group, and why that one
    features_of: str  # code of the language whose URIEL features are used
    most_related: str  # source of its group, or of all groups if it has none
    similarity: dict[str, dict[Kind, float]]  # to each source by kind, the most similar source first
    taggers: tuple[Served, ...]  # one per task


@dataclass(frozen=True)
class PaperLanguage:
    """A source or target of one of the paper's groups."""

    group: str
    task: str
    role: str  # source or target
    language: Language
    most_related: str | None  # of a target: the source
    taggers: dict[str, str]  # by task


def shipped_names() -> list[str]:
    """The taggers that are installed, without adapted ones."""
    return sorted(path.parent.name for path in shipped_folder().glob("*/config.json"))


def shipped_config(name: str) -> dict[str, Any]:
    """The ``config.json`` of a shipped tagger; empty if it is not installed."""
    path = shipped_folder() / name / "config.json"
    return read_json(path) if path.is_file() else {}


def adapted_names() -> list[str]:
    """The adapted taggers that are installed."""
    return sorted(path.parent.name for path in shipped_folder().glob("*/delta.json"))


def installed_names() -> list[str]:
    """The taggers that can be named, adapted ones last."""
    return [*shipped_names(), *adapted_names()]


def adapted_note(name: str) -> dict[str, Any]:
    """The ``delta.json`` of an adapted tagger; empty if it is not installed."""
    path = shipped_folder() / name / "delta.json"
    return read_json(path) if path.is_file() else {}


def learnt_from(sources: Iterable[str], about: Mapping[str, Any]) -> list[str]:
    """The languages whose labelled sentences a tagger learnt from: its sources, and others that have no adapter."""
    training = about.get("training")
    given = training if isinstance(training, Mapping) else {}
    further = [code for code in given.get("sources") or () if code not in (given.get("leave_out") or ())]
    return list(dict.fromkeys([*sources, *further]))


def serving(lang: str | Language, task: str, *, adapted: bool = True) -> Served:
    """Find the tagger that serves a language: its group's if the group has this task, else the one over all sources.

    If several groups are equally near (French, Breton, Greek), it is the tagger over all sources, with a warning.
    If that tagger was adapted to the language, it is the adapted one, unless ``adapted`` is False.
    """
    check_task(task)
    language = find(lang)
    assignment = explain_group(language)
    group, name, warning = assignment.group, f"all-{task}", None
    codes = shipped_config(name).get("sources", ())
    sources = ", ".join(find(code).name for code in codes) or "all source languages"
    if group is None:
        reason = f"{language.name} belongs to no group ({assignment.reason})"
        related = f"{language} is related to none of the languages that zgul's taggers learnt from: {assignment.reason}"
        warning = f'{related}. The tagger "{name}" learnt from {sources} alone. {CHECK}'
    elif not assignment.alone:
        distant = assignment.reason.partition(";")[0]
        reason = f"it {distant}, so none of them fits; this one learnt from {sources}"
        related = f"{language} is only distantly related to the languages that zgul's taggers learnt from: it {distant}"
        warning = f'{related}. The tagger "{name}" learnt from {sources}. {CHECK}'
    elif group.task == task:
        reason, of_group = f"{group.name}: {assignment.reason}", f"{group.name}-{task}"
        if of_group in shipped_names() or name not in shipped_names():
            name = of_group
    else:
        reason = f"the {group.name} group has no tagger for {TASKS[task]}; this one learnt from {sources}"
    served = Served(name, task, group.name if group else None, reason, warning, name in shipped_names())
    own = f"{language.code}-{task}"
    if adapted and adapted_note(own).get("base") == name:
        reason = f"{name}, adapted to raw text of {language.name} without labels; {reason}"
        served = replace(served, name=own, reason=reason, base=name)
    return served


def describe(language: str | Language) -> LanguageProfile:
    """Collect what is known about a language. ``language`` may be any code or name."""
    language = find(language)
    assignment = explain_group(language)
    similar = {code: {kind: round(similarity(language, code, kind), 4) for kind in KINDS} for code in SOURCES}
    ranked = dict(sorted(similar.items(), key=lambda item: -item[1]["average"]))
    nearest = most_related(language, assignment.group.sources if assignment.group else SOURCES)
    features = feature_source(language.iso3).code
    return LanguageProfile(language, assignment, features, nearest, ranked, tuple(_judged(language, t) for t in TASKS))


def _judged(language: Language, task: str) -> Served:
    served = serving(language, task)
    zero_shot = expected_accuracy(language, task, adapted=False) if served.base else None
    config = shipped_config(served.base or served.name)
    learnt = tuple(learnt_from(config.get("sources", ()), config.get("about", {})))
    return replace(served, expected=expected_accuracy(language, task), zero_shot=zero_shot, learnt_from=learnt)


def paper_languages() -> list[PaperLanguage]:
    """The sources and targets of the paper's groups."""
    rows = []
    for group in GROUPS.values():
        for code in (*group.sources, *group.targets):
            role = "target" if code in group.targets else "source"
            nearest = most_related(code, group.sources) if role == "target" else None
            taggers = {task: serving(code, task, adapted=False).name for task in TASKS}
            rows.append(PaperLanguage(group.name, group.task, role, find(code), nearest, taggers))
    return rows


def expected_accuracy(language: str | Language, task: str, *, adapted: bool = True) -> ExpectedAccuracy | None:
    """Return the F1 to expect of the shipped tagger that serves a language, which may be one that was adapted to it.

    It is the F1 measured on the language's own test file, if there is one. For a source it is that on the sources' dev
    sets. For other languages it is that of the closest relative in the same group that was measured. Without such a
    relative the answer is None.
    """
    language = find(language)
    served = serving(language, task, adapted=adapted)
    delta = adapted_note(served.name)
    config = shipped_config(delta.get("base", served.name))
    measured = _test_scores(config)
    f1 = delta.get("about", {}).get("test_f1")
    if f1 is not None:
        measured[language.code] = round(f1, 1)
    if language.code in measured:
        return ExpectedAccuracy(measured[language.code], (language.code,), "measured on its test file")
    history = config.get("about", {}).get("history")
    own = learnt_from(config.get("sources", ()), config.get("about", {}))
    if history and language.code in own:
        best = round(max(entry["dev_f1"] for entry in history), 1)
        return ExpectedAccuracy(best, tuple(own), "measured on the dev sets of all its source languages")
    group = assign_group(language)
    relatives = {code: f1 for code, f1 in measured.items() if assign_group(code) == group}
    if served.warning or group is None or not relatives:
        return None
    nearest = most_related(language, relatives)
    spread = f"related languages have {min(relatives.values()):.0f} to {max(relatives.values()):.0f}"
    note = f"a guess, as measured on its closest relative {find(nearest)}; {spread}. Check a sample by hand"
    return ExpectedAccuracy(relatives[nearest], (nearest,), note)


def _test_scores(config: dict[str, Any]) -> dict[str, float]:
    """The F1 on the targets' test files by language: as it ships, else as it was measured when the tagger was made."""
    about = config.get("about", {})
    if "as_shipped" in about:
        return {code: round(f1, 1) for code, f1 in about["as_shipped"].items()}
    by_precision = about.get("scores", {})
    as_shipped: dict[str, float] = next((scores for name, scores in by_precision.items() if name != "full"), {})
    ending = f"/test/{config.get('strategy')}"
    return {key.removesuffix(ending): round(f1, 1) for key, f1 in as_shipped.items() if key.endswith(ending)}

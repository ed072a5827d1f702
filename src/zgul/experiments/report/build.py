"""The report put together: what it holds, in which order; parts without runs say which command makes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from zgul.experiments.plan import Protocol
from zgul.experiments.report import claims, plots, tables
from zgul.experiments.report.document import Block, Document, Figure, Items, Prose, Section, Table, join
from zgul.experiments.report.frame import Frame
from zgul.experiments.store import FAILED, Results
from zgul.languages import GROUPS, find

COMMAND = "zgul experiment paper --data DIR --output DIR"
PAIRS = (("pos", ("germanic", "slavic")), ("ner", ("african", "indo-aryan")))  # the groups that share a table in print
DEPARTURES = {  # what of the protocol is said at the head where it is not the paper's
    "limit": "at most {} training sentences of a source",
    "dev_limit": "at most {} dev sentences of a source",
    "test_limit": "at most {} test sentences of a target",
    "epochs": "{} epochs (paper: 5 for POS, 10 for NER)",
    "em_sentences": "EM's settings chosen on {} dev sentences",
    "em_steps": "EM steps tried: {}",
    "em_rates": "EM rates tried: {}",
    "few_epochs": "{} epochs on few-shot examples",
    "text_lines": "at most {} lines of unlabelled text",
    "text_steps": "{} masked-LM steps on unlabelled text",
}
FACTS = {  # notes of the store that stand at the head
    "command": "Command",
    "version": "Version",
    "commit": "Commit",
    "code": "Code",
    "encoder": "Encoder",
    "adapters": "Language adapters",
    "machine": "Machine",
}


@dataclass(frozen=True)
class Report:
    """The main document, a page for each language, and the tables as they are printed."""

    main: Document
    pages: dict[str, Document]  # file name -> page
    printed: tuple[Table, ...]  # for LaTeX: two groups side by side


def build(results: Results, analyses: dict[str, Any]) -> Report:
    """Everything that the results allow."""
    frame = Frame(results)
    counts = analyses.get("mcnemar") or []
    sections = [
        _claims(frame, counts),
        _zero_shot(frame, "zero-shot", counts),
        _em(frame),
        _attention(frame),
        _unlabelled(frame, analyses.get("text") or {}),
        _few_shot(frame),
        _encoders(frame),
        _classes(frame),
        _cost(frame),
        _data(analyses.get("statistics"), int(results.meta.get("protocol", {}).get("limit") or 0)),
        _examples(analyses.get("examples", [])),
        _zero_shot(frame, "treated", counts),
        _runs(frame, results),
    ]
    pages = {
        f"language-{code}": _page(frame, group, code, analyses)
        for group in frame.groups("zero-shot")
        for code in frame.languages("zero-shot", group)
    }
    links = tuple((find(name.removeprefix("language-")).name, name) for name in pages)
    main = Document("The paper's experiments", header(results, frame), tuple(sections), links)
    return Report(main, pages, _printed(frame, main, counts))


def header(results: Results, frame: Frame, seeds: Sequence[int] = ()) -> tuple[tuple[str, str], ...]:
    """How the results were made, in a few lines; the last section has the rest."""
    meta = results.meta
    commands = commands_of(results)
    facts = [("Commands", f"{len(commands)}, listed at the end")] if len(commands) > 1 else []
    facts += [("Command", f"`{command}`") for command in commands if len(commands) == 1]
    facts += [(title, _told(meta[key])) for key, title in FACTS.items() if key in meta and key != "command"]
    checksums = meta.get("checksums") or {}
    if checksums:
        facts.append(("Data", f"{len(checksums)} files, together `sha256:{_together(checksums)}`"))
    facts.append(("Seeds", ", ".join(map(str, seeds or sorted({run.seed for run in frame.runs})))))
    if told := departures(meta.get("protocol", {})):
        facts.append(("Note", f"**another protocol than the paper's: {'; '.join(told)}**"))
    return tuple((title, value) for title, value in facts if value)


def departures(told: dict[str, Any]) -> list[str]:
    """Where the runs were made in another way than the paper's, in words."""
    paper = json.loads(json.dumps(asdict(Protocol())))
    return [
        words.format(_told([f"{value:g}" for value in np.atleast_1d(told[name])]))
        for name, words in DEPARTURES.items()
        if name in told and told[name] != paper[name]
    ]


def commands_of(results: Results) -> list[str]:
    """The commands that filled the store, in their order."""
    told = results.meta.get("commands") or [results.meta.get("command", "")]
    return [command for command in dict.fromkeys(told) if command]


def command_list(results: Results) -> list[Block]:
    """The commands, where there are too many for the head."""
    commands = commands_of(results)
    if len(commands) < 2:
        return []
    return [Prose("Commands, in their order:"), Items(tuple(f"`{command}`" for command in commands))]


def _told(value: Any) -> str:
    """A note in one line; what is not a word of a language is set as code."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_told(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_told, value))
    text = str(value)
    return f"`{text}`" if len(text) > 30 and " " not in text else text


def _together(checksums: dict[str, str]) -> str:
    """One checksum of all."""
    return hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()[:16]


def _section(title: str, anchor: str, blocks: Sequence[Block | None], fill: str) -> Section:
    """A section of what there is, or one line that says which command fills it."""
    there = tuple(block for block in blocks if block is not None)
    return Section(title, anchor, there or (Prose(f"No results yet: `{fill}` makes them."),))


def _claims(frame: Frame, counts: list[dict[str, Any]]) -> Section:
    rule = Prose(
        "Sentences by rule from the numbers below. A difference **holds** if it has the claimed sign in every seed and "
        "McNemar's test on the group's pooled words supports it in every seed (p < 0.005, the paper's level); it is "
        "**not beyond chance** if it has the sign on average only; otherwise it **does not hold**. McNemar counts "
        "words and F1 counts chunks, so the two may disagree."
    )
    blocks: list[Block] = []
    for part, told in (("zero-shot", ""), ("treated", ", every method treated alike")):
        for question, answers in (
            (f"Is ZGUL first in each group{told}?", claims.first_in_group(frame, part, counts)),
            (f"Does each component help{told}?", claims.components(frame, part, counts)),
        ):
            if answers:
                blocks += [Prose(f"**{question}**"), Items(tuple(answers))]
        if part == "zero-shot":
            for question, answers in (
                ("Is EM's gain entropy or flattening?", claims.em(frame)),
                ("Does attention follow relatedness?", claims.attention(frame)),
            ):
                if answers:
                    blocks += [Prose(f"**{question}**"), Items(tuple(answers))]
    return _section("Do the paper's claims hold here?", "claims", [rule, *blocks] if blocks else [], COMMAND)


def _zero_shot(frame: Frame, part: str, counts: list[dict[str, Any]]) -> Section:
    groups = frame.groups(part)
    blocks: list[Block | None] = [tables.zero_shot_table(frame, part, group, counts) for group in groups]
    if groups:
        blocks.append(tables.significance(frame, part, counts))
    if part == "zero-shot":
        return _section("Zero-shot", part, blocks, f"{COMMAND} --only zero-shot")
    if groups:
        blocks.insert(
            0,
            Prose(
                "The tables once more with what helps every method given to all of them alike: the tag X and, where a "
                "source does not mark them, dates count as unannotated, and characters of the training words are "
                "edited at random. The paper's numbers beside are without either."
            ),
        )
    return _section("Zero-shot, every method treated alike", part, blocks, f"{COMMAND} --only treated")


def _em(frame: Frame) -> Section:
    blocks: list[Block | None] = [tables.em_gains(frame)]
    blocks += [tables.em_table(frame, group) for group in frame.groups("zero-shot")]
    return _section("Entropy minimisation", "em", blocks, f"{COMMAND} --only zero-shot/zgul")


def _attention(frame: Frame) -> Section:
    table = tables.correlations(frame)
    blocks: list[Block | None] = [table, *plots.weight_maps(frame)] if table else []
    if not table:
        blocks.append(Prose(f"No weights yet: `{COMMAND} --only zero-shot/zgul,zero-shot/madx-multi` makes them."))
    blocks += plots.similarity_maps(list(GROUPS))
    return _section("Attention and relatedness", "attention", blocks, COMMAND)


def _unlabelled(frame: Frame, text: dict[str, dict[str, int]]) -> Section:
    blocks = [tables.unlabelled_table(frame, text), plots.unlabelled_curve(frame)]
    return _section("Unlabelled target text", "unlabelled", blocks, f"{COMMAND} --only unlabelled")


def _few_shot(frame: Frame) -> Section:
    blocks: list[Block | None] = [plots.few_shot_groups(frame)]
    blocks += [tables.few_shot_table(frame, group) for group in frame.groups("few-shot")]
    blocks.append(plots.few_shot_languages(frame))
    return _section("Few-shot", "few-shot", blocks, f"{COMMAND} --only few-shot")


def _encoders(frame: Frame) -> Section:
    return _section(
        "Encoders",
        "encoders",
        [tables.encoders(frame)],
        "zgul experiment paper --encoder FOLDER --data DIR --output DIR",
    )


def _classes(frame: Frame) -> Section:
    blocks = [tables.classes(frame, task) for task in ("pos", "ner")]
    return _section("Class-wise F1", "classes", blocks, f"{COMMAND} --only zero-shot")


def _cost(frame: Frame) -> Section:
    return _section("Parameters and time", "cost", [tables.cost(frame)], f"{COMMAND} --only zero-shot")


def _data(statistics: dict[str, Any] | None, limit: int) -> Section:
    blocks = [tables.data_groups(statistics, limit), tables.data_targets(statistics)] if statistics else []
    return _section("Data", "data", blocks, "zgul report DIR --data DATA --output DIR")


def _examples(examples: list[dict[str, Any]] | None) -> Section:
    if examples is None:  # exported so
        told = "Sentences of the test files are left out here; `zgul report` on the folder of the results shows them."
        return Section("Where the methods disagree", "examples", (Prose(told),))
    rule = Prose(
        "Chosen by rule, not by hand: of each language the test sentence (4 to 12 words, lowest seed) in which ZGUL, "
        "CPG and SFT-M differ on most words; of equals the shorter, then the earlier. The pages of the languages show "
        "one more."
    )
    first = {item["language"]: item for item in reversed(examples)}
    blocks = [tables.example(item, 1) for item in reversed(first.values())]
    return _section(
        "Where the methods disagree", "examples", [rule, *blocks] if blocks else [], f"{COMMAND} --only zero-shot"
    )


def _runs(frame: Frame, results: Results) -> Section:
    failed = [f"`{run.name}`: {run.error}" for run in results.runs(status=FAILED)]
    blocks: list[Block | None] = [tables.runs_table(frame), *command_list(results)]
    if failed:
        blocks += [Prose("Runs that failed:"), Items(tuple(failed))]
    meta = results.meta
    if meta.get("protocol"):
        told = ", ".join(
            f"{name} {_told(value)}" for name, value in meta["protocol"].items() if value not in ((), [], "")
        )
        several = " of the last command" if len(commands_of(results)) > 1 else ""
        blocks.append(Prose(f"Protocol{several}: {told}."))
    if meta.get("checksums"):
        blocks.append(tables.checksums(meta["checksums"]))
    return _section("Runs", "runs", blocks, COMMAND)


def _page(frame: Frame, group: str, code: str, analyses: dict[str, Any]) -> Document:
    """What there is on one target."""
    name = find(code).name
    statistics = analyses.get("statistics")
    examples = [item for item in analyses.get("examples") or [] if item["language"] == code]
    sections = [
        Section("Scores", "scores", (tables.language_rows(frame, group, code),)),
        _optional("Weights and relatedness", "weights", [tables.language_weights(frame, group, code)]),
        _optional("Few-shot", "few-shot", [plots.few_shot_languages(frame, code)]),
        _optional("Class-wise F1", "classes", [tables.classes(frame, GROUPS[group].task, code)]),
        _optional("Examples", "examples", [tables.example(item, n) for n, item in enumerate(examples, start=1)]),
        _optional("Data", "data", [tables.data_targets(statistics, code) if statistics else None]),
    ]
    facts = (
        ("Language", f"{name} ({code})"),
        ("Group", tables.group_title(group)),
        ("Task", GROUPS[group].task.upper()),
    )
    return Document(name, facts, tuple(s for s in sections if s is not None), (("All results", "index"),))


def _optional(title: str, anchor: str, blocks: Sequence[Table | Figure | None]) -> Section | None:
    there = tuple(block for block in blocks if block is not None)
    return Section(title, anchor, there) if there else None


def _printed(frame: Frame, main: Document, counts: list[dict[str, Any]]) -> tuple[Table, ...]:
    """The document's tables, with the groups of a task side by side as the paper prints them."""
    joined, used = [], set()
    for part, told in (("zero-shot", "zero-shot F1"), ("treated", "zero-shot F1, every method treated alike")):
        for task, names in PAIRS:
            there = [group for group in names if group in frame.groups(part)]
            single = {group: tables.zero_shot_table(frame, part, group, counts) for group in there}
            if not single:
                continue
            titles = " and ".join(map(tables.group_title, there))
            caption = (
                f"{titles}, {task.upper()}, {told}: {tables.BESIDE} in brackets; "
                f"* McNemar's test against the closest baseline, p < {tables.ALPHA} in every seed"
            )
            heads = [(tables.group_title(group), table) for group, table in single.items()]
            joined.append(join(f"{part}-{task}", caption, heads))
            used |= {table.name for table in single.values()}
    return (*joined, *(table for table in main.tables() if table.name not in used))

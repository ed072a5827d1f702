"""``zgul languages`` and ``zgul relate``: who a language is, what it is related to, what serves it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from zgul.cli import app
from zgul.errors import ZgulError, ZgulWarning

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from zgul.languages import Language

TASKS = {"pos": "part of speech", "ner": "named entities"}
SHADES = " ░▒▓█"  # so that the heat map reads without colour
KINDS = ("average", "genetic", "syntactic")


@app.command("languages")
def languages(
    language: str | None = typer.Argument(
        None, help="Code, tag or name of any language: fo, fao, sr-Latn, Faroese, føroyskt.", show_default=False
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON for other programs."),
) -> None:
    """Show the paper's languages and groups, or one language: who it is and what serves it.

    Examples:

    `zgul languages`

    `zgul languages fo`

    `zgul languages "Swiss German" --json`
    """
    if language is None:
        rows = _paper_languages()
        print(_dump(rows)) if as_json else _show_paper_languages(rows)
    else:
        facts = describe(language)
        print(_dump(facts)) if as_json else _show_language(facts)


@app.command("relate")
def relate(
    names: list[str] = typer.Argument(help="Two or more languages by code or name, the target first."),
    kind: str = typer.Option("average", "--kind", help="average, genetic (family) or syntactic."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON for other programs."),
) -> None:
    """Show how related languages are: a heat map from 0 (nothing in common) to 1 (alike).

    Examples:

    `zgul relate fo is de en`

    `zgul relate Luo Swahili Wolof Amharic --kind syntactic`
    """
    from zgul.languages import find

    if kind not in KINDS:
        raise ZgulError(f'There is no similarity "{kind}"; choose one of {", ".join(KINDS)}.')
    found = list({language.iso3: language for language in map(find, names)}.values())
    if len(found) < 2:
        raise ZgulError("Name at least two different languages, for instance: zgul relate fo is de en")
    matrices = _matrices(found)
    if as_json:
        print(_dump({"languages": [language.code for language in found], **matrices}))
    else:
        _show_heat_map(found, matrices, kind)


@contextmanager
def _stand_in_is_shown() -> Iterator[None]:
    """Whose features stand in for a language is part of the sheet; a warning beside it would repeat it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZgulWarning)
        yield


@_stand_in_is_shown()
def describe(name: str) -> dict[str, Any]:
    """All that is known about a language and what zgul has for it, as plain data."""
    from zgul.languages import GROUPS, SOURCES, closest_relative, explain_group, find, most_related, similarity
    from zgul.languages import table as languages_table

    language = find(name)
    assignment = explain_group(language)
    group = assignment.group
    own_features = bool(languages_table.load().has_features[language.row])
    sources = [
        {
            "code": source,
            "name": find(source).name,
            "groups": [group.name for group in GROUPS.values() if source in group.sources],
            **{kind: round(similarity(language, source, kind), 4) for kind in KINDS},  # type: ignore[arg-type]
        }
        for source in SOURCES
    ]
    return {
        "code": language.code,
        "iso3": language.iso3,
        "name": language.name,
        "autonym": language.autonym,
        "family": list(language.family),
        "scripts": list(language.scripts),
        "script_names": list(language.script_names),
        "territory": language.territory_name,
        "area": language.area,
        "features_of": language.code if own_features else closest_relative(language).code,
        "relatedness": sorted(sources, key=lambda source: -source["average"]),
        "group": group.name if group else None,
        "group_reason": assignment.reason,
        "task": group.task if group else None,
        "adapters": list(group.sources) if group else [],
        "most_related": most_related(language, group.sources if group else SOURCES),
        "taggers": [_served(language, task) for task in TASKS],
    }


def _served(language: Language, task: str) -> dict[str, Any]:
    """The tagger that ``zgul tag`` takes for a language and task, and why that one."""
    from zgul.tagging import shipped

    served = shipped.serving(language, task)
    return {
        "task": task,
        "name": served.name,
        "installed": served.name in shipped.names(),
        "reason": served.reason,
        "warning": served.warning,
    }


@_stand_in_is_shown()
def _paper_languages() -> list[dict[str, Any]]:
    from zgul.languages import GROUPS, find, most_related
    from zgul.tagging import shipped

    rows = []
    for group in GROUPS.values():
        for role, codes in (("source", group.sources), ("target", group.targets)):
            for code in codes:
                language = find(code)
                rows.append(
                    {
                        "group": group.name,
                        "task": group.task,
                        "role": role,
                        "code": code,
                        "name": language.name,
                        "autonym": language.autonym,
                        "scripts": list(language.scripts),
                        "most_related": most_related(code, group.sources) if role == "target" else None,
                        "taggers": {task: shipped.serving(language, task).name for task in TASKS},
                    }
                )
    return rows


def _show_paper_languages(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("", "code", "language", "own name", "script", "nearest"):
        table.add_column(heading, no_wrap=True)
    group = role = ""
    for row in rows:
        if row["group"] != group:
            table.add_row(Text(row["group"], style="bold"), "", Text(TASKS[row["task"]], style="dim"))
            role = ""
        table.add_row(
            f"  {row['role']}s" if row["role"] != role else "",
            row["code"],
            row["name"],
            row["autonym"] or "",
            row["scripts"][0],
            row["most_related"] or "",
        )
        group, role = row["group"], row["role"]
    console = _console(at_least=80)
    console.print(table)
    console.print("\nA tagger learns from the sources of a group and tags its targets:", style="dim")
    for name, taggers in {row["group"]: row["taggers"] for row in rows if row["role"] == "target"}.items():
        told = "; ".join(f"{TASKS[task]} by {tagger}" for task, tagger in taggers.items())
        console.print(f"  {name}: {told}", style="dim")
    console.print("Any other language: zgul languages NAME", style="dim")


def _show_language(facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from zgul.languages import find

    console = _console()
    title = Text(facts["name"], style="bold")
    if facts["autonym"] and facts["autonym"] != facts["name"]:
        title.append(f"  {facts['autonym']}", style="not bold")
    console.print(title)
    sheet = Table.grid(padding=(0, 2, 0, 0))
    sheet.add_column(style="dim")
    sheet.add_column()
    for key, value in _sheet(facts):
        sheet.add_row(f"  {key}", value)
    console.print(sheet)

    relatives = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    relatives.add_column("  source")
    relatives.add_column("average", no_wrap=True)
    for heading in ("genetic", "syntactic"):
        relatives.add_column(heading, justify="right")
    relatives.add_column("group")
    for source in facts["relatedness"]:
        in_group = facts["group"] in source["groups"]
        relatives.add_row(
            f"  {find(source['code'])}",
            Text(f"{source['average']:.2f} ", style=_colour(source["average"])).append(_bar(source["average"])),
            f"{source['genetic']:.2f}",
            f"{source['syntactic']:.2f}",
            "every group" if len(source["groups"]) > 1 else source["groups"][0],
            style="" if in_group else "dim",
        )
    console.print("\nRelatedness to the source languages", style="bold")
    console.print(relatives)

    console.print("\nServed by", style="bold")
    served = Table.grid(padding=(0, 2, 0, 0))
    served.add_column(style="dim")
    served.add_column()
    for key, value in _served_by(facts):
        served.add_row(f"  {key}", value)
    console.print(served)


def _sheet(facts: dict[str, Any]) -> list[tuple[str, str]]:
    from zgul.languages import find

    codes = [f"{facts['code']} (ISO 639-1)"] if facts["code"] != facts["iso3"] else []
    private = "qaa" <= facts["iso3"] <= "qtz"
    codes.append(f"{facts['iso3']} ({'private use, not ISO 639' if private else 'ISO 639-3'})")
    pairs = zip(facts["script_names"], facts["scripts"], strict=True)
    features = "its own, of URIEL"
    if facts["features_of"] != facts["code"]:
        features = f"URIEL has none; those of its closest relative {find(facts['features_of'])} are used"
    return [
        ("codes", ", ".join(codes)),
        ("family", " › ".join(facts["family"]) or "none known"),
        ("script", ", ".join(f"{name} ({code})" for name, code in pairs) or "not known"),
        ("spoken in", ", ".join(part for part in (facts["territory"], facts["area"]) if part) or "not known"),
        ("features", features),
    ]


def _served_by(facts: dict[str, Any]) -> list[tuple[str, str]]:
    from zgul.languages import find

    nearest = find(facts["most_related"])
    if facts["group"]:
        bank = ", ".join(str(find(code)) for code in facts["adapters"])
        rows = [
            ("group", f"{facts['group']}: {facts['group_reason']}"),
            ("adapters", f"{bank}: the group's bank; most related is {nearest}"),
        ]
    else:
        rows = [
            ("group", f"none: {facts['group_reason']}"),
            ("adapters", f"none is related; the least distant source is {nearest}"),
        ]
    for tagger in facts["taggers"]:
        note = tagger["reason"] if tagger["installed"] else f"{tagger['reason']} (not installed)"
        rows.append((TASKS[tagger["task"]], f"{tagger['name']}: {note}"))
    if any(tagger["warning"] for tagger in facts["taggers"]):
        rows.append(("", "expect little: nothing that these taggers learnt from is closely related"))
    return rows


def _matrices(found: list[Language]) -> dict[str, list[list[float]]]:
    from zgul.languages import similarity

    return {
        kind: [[round(similarity(a, b, kind), 4) for b in found] for a in found]  # type: ignore[arg-type]
        for kind in KINDS
    }


def _show_heat_map(found: list[Language], matrices: dict[str, list[list[float]]], kind: str) -> None:
    from rich.table import Table

    matrix = matrices[kind]
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", title_justify="left")
    table.add_column("", no_wrap=True)
    for language in found:
        table.add_column(language.code, justify="right", no_wrap=True)
    for language, values in zip(found, matrix, strict=True):
        table.add_row(str(language), *(_cell(value) for value in values))
    console = _console(at_least=24 + 9 * len(found) + max(len(str(language)) for language in found))
    console.print(f"{kind} similarity", style="dim")
    console.print(table)
    scores = matrix[0][1:]
    best = scores.index(max(scores))
    details = ", ".join(f"{other} {matrices[other][0][best + 1]:.2f}" for other in KINDS)
    console.print(f"\nMost related to {found[0]}: {found[best + 1]}\n{details}")


def _cell(value: float) -> Text:
    from rich.text import Text

    shade = SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)]
    return Text(f"{shade * 2} {value:.2f}", style=_colour(value))


def _bar(value: float, width: int = 10) -> str:
    filled = round(value * width)
    return "█" * filled + "░" * (width - filled)


def _colour(value: float) -> str:
    """From blue (unrelated) over yellow to red (alike)."""
    return ("blue", "cyan", "green", "yellow", "red")[min(int(value * 5), 4)]


def _console(at_least: int = 0) -> Console:
    """A console that never cuts values off: a table wider than the screen is left to the terminal to wrap."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.width >= at_least else Console(highlight=False, width=at_least)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)

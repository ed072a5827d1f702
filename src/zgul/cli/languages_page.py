"""The pages of ``zgul languages`` and ``zgul relate``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zgul.errors import ZgulError
from zgul.languages import GROUPS, Language, find, similarity
from zgul.languages.relatedness import KINDS
from zgul.tagging.language_profile import LanguageProfile, PaperLanguage, ServingTagger, describe, paper_languages
from zgul.tagging.serving import TASKS

SHADES = " ░▒▓█"  # so that the heat map reads without colour


def show_language(name: str, as_json: bool) -> None:
    """Print the profile of a language."""
    profile = describe(name)
    if as_json:
        _print_json(asdict(profile))
        return
    console = _console()
    title = Text(profile.language.name, style="bold")
    if profile.language.autonym not in (None, profile.language.name):
        title.append(f"  {profile.language.autonym}", style="not bold")
    console.print(title)
    console.print(_sheet(_identity(profile)))
    console.print("\nRelatedness to the source languages", style="bold")
    console.print(_sources(profile))
    console.print("\nServed by", style="bold")
    console.print(_sheet(_service(profile)))


def show_paper_languages(as_json: bool) -> None:
    """Print the paper's sources and targets by group."""
    rows = paper_languages()
    if as_json:
        _print_json([asdict(row) for row in rows])
        return
    console = _console(at_least=80)
    console.print(_paper_table(rows))
    console.print("\nA tagger learns from the sources of a group and tags its targets:", style="dim")
    for name, taggers in {row.group: row.taggers for row in rows if row.role == "target"}.items():
        by_task = "; ".join(f"{TASKS[task]} by {tagger}" for task, tagger in taggers.items())
        console.print(f"  {name}: {by_task}", style="dim")
    console.print("Any other language: zgul languages NAME", style="dim")


def show_relatedness(names: Sequence[str], kind: str, as_json: bool) -> None:
    """Print how similar languages are to each other."""
    if kind not in KINDS:
        raise ZgulError(f'There is no similarity "{kind}"; choose one of {", ".join(KINDS)}.')
    languages = list({language.iso3: language for language in map(find, names)}.values())
    if len(languages) < 2:
        raise ZgulError("Name at least two different languages, for instance: zgul relate fo is de en")
    matrices: dict[str, list[list[float]]] = {
        each: [[round(similarity(a, b, each), 4) for b in languages] for a in languages] for each in KINDS
    }
    if as_json:
        _print_json({"languages": [language.code for language in languages], **matrices})
        return
    console = _console(at_least=24 + 9 * len(languages) + max(len(str(language)) for language in languages))
    console.print(f"{kind} similarity", style="dim")
    console.print(_heat_map(languages, matrices[kind]))
    scores = matrices[kind][0][1:]
    best = 1 + scores.index(max(scores))
    details = ", ".join(f"{each} {matrix[0][best]:.2f}" for each, matrix in matrices.items())
    console.print(f"\nMost related to {languages[0]}: {languages[best]}\n{details}")


def _paper_table(rows: Sequence[PaperLanguage]) -> Table:
    table = _table("", "code", "language", "own name", "script", "nearest")
    group = role = ""
    for row in rows:
        if row.group != group:
            table.add_row(Text(row.group, style="bold"), "", Text(TASKS[row.task], style="dim"))
            role = ""
        label = f"  {row.role}s" if row.role != role else ""
        own = row.language
        table.add_row(label, own.code, own.name, own.autonym or "", own.scripts[0], row.most_related or "")
        group, role = row.group, row.role
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _sheet(rows: Sequence[tuple[str, str]]) -> Table:
    sheet = Table.grid(padding=(0, 2, 0, 0))
    sheet.add_column(style="dim")
    sheet.add_column()
    for key, value in rows:
        sheet.add_row(f"  {key}", value)
    return sheet


def _identity(profile: LanguageProfile) -> list[tuple[str, str]]:
    language = profile.language
    codes = [f"{language.code} (ISO 639-1)"] if language.code != language.iso3 else []
    private = "qaa" <= language.iso3 <= "qtz"
    codes.append(f"{language.iso3} ({'private use, not ISO 639' if private else 'ISO 639-3'})")
    scripts = zip(language.script_names, language.scripts, strict=True)
    features = "its own, of URIEL"
    if profile.features_of != language.code:
        features = f"URIEL has none; those of its closest relative {find(profile.features_of)} are used"
    return [
        ("codes", ", ".join(codes)),
        ("family", " › ".join(language.family) or "none known"),
        ("script", ", ".join(f"{name} ({code})" for name, code in scripts) or "not known"),
        ("spoken in", ", ".join(part for part in (language.territory_name, language.area) if part) or "not known"),
        ("features", features),
    ]


def _sources(profile: LanguageProfile) -> Table:
    table = _table("  source", "average", "genetic", "syntactic", "group")
    for source, values in profile.similarity.items():
        groups = [group for group in GROUPS.values() if source in group.sources]
        bar = "█" * round(10 * values["average"])
        table.add_row(
            f"  {find(source)}",
            Text(f"{values['average']:.2f} {bar:░<10}", style=_colour(values["average"])),
            f"{values['genetic']:.2f}",
            f"{values['syntactic']:.2f}",
            "every group" if len(groups) > 1 else groups[0].name,
            style="" if profile.assignment.group in groups else "dim",
        )
    return table


def _service(profile: LanguageProfile) -> list[tuple[str, str]]:
    nearest = find(profile.most_related)
    group, reason = profile.assignment.group, profile.assignment.reason
    if group:
        bank = ", ".join(str(find(code)) for code in group.sources)
        rows = [("group", f"{group.name}: {reason}")]
        rows.append(("adapters", f"{bank}: the group's bank; most related is {nearest}"))
    else:
        rows = [("group", f"none: {reason}")]
        rows.append(("adapters", f"none is related; the least distant source is {nearest}"))
    for tagger in profile.taggers:
        missing = "" if tagger.installed else " (not installed)"
        rows.append((TASKS[tagger.task], f"{tagger.name}: {tagger.reason}{missing}"))
        rows.append(("", _accuracy(tagger)))
    return rows


def _accuracy(tagger: ServingTagger) -> str:
    if tagger.expected:
        return f"expect an F1 of about {tagger.expected.f1:.0f}: {tagger.expected.note}"
    if tagger.warning:
        return "expect little: nothing that this tagger learnt from is closely related"
    return "the accuracy is not known: no related language was measured"


def _heat_map(languages: Sequence[Language], matrix: Sequence[Sequence[float]]) -> Table:
    table = _table("", *(language.code for language in languages))
    for language, values in zip(languages, matrix, strict=True):
        table.add_row(str(language), *(_cell(value) for value in values))
    return table


def _cell(value: float) -> Text:
    shade = SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)]
    return Text(f"{shade * 2} {value:.2f}", style=_colour(value))


def _colour(value: float) -> str:
    """From blue (unrelated) over yellow to red (alike)."""
    return ("blue", "cyan", "green", "yellow", "red")[min(int(value * 5), 4)]


def _console(at_least: int = 0) -> Console:
    """A console that never cuts values off: a table wider than the screen is left to the terminal to wrap."""
    console = Console(highlight=False)
    return console if console.width >= at_least else Console(highlight=False, width=at_least)


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))

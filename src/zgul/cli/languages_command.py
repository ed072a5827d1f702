"""``zgul languages``: show a language, the taggers that serve it, and the accuracy to expect."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from zgul.cli import new_app
from zgul.cli.printing import AsJson, make_table, new_console, print_result, similarity_colour
from zgul.corpora.sentence import TASKS
from zgul.languages import GROUPS, find
from zgul.tagging.serving import LanguageProfile, PaperLanguage, Served, adapted_names, describe, paper_languages

app = new_app()
NAMES = "Code, tag or name of any language: fo, fao, sr-Latn, Faroese, føroyskt."


@app.command()
def languages(language: Annotated[str | None, typer.Argument(help=NAMES)] = None, as_json: AsJson = False) -> None:
    """Show the paper's languages and groups, or one language with the taggers that serve it and their accuracy."""
    if language is None:
        print_result(paper_languages(), _show_paper_languages, as_json)
    else:
        print_result(describe(language), _show_profile, as_json)


def _show_profile(profile: LanguageProfile) -> None:
    console = new_console()
    title = Text(profile.language.name, style="bold")
    if profile.language.autonym not in (None, profile.language.name):
        title.append(f"  {profile.language.autonym}", style="not bold")
    console.print(title)
    console.print(_sheet(_identity(profile)))
    console.print("\n[bold]Relatedness to the source languages[/bold]", _similarities(profile), sep="\n")
    console.print("\n[bold]Served by[/bold]", _sheet(_service(profile)), sep="\n")


def _show_paper_languages(languages: Sequence[PaperLanguage]) -> None:
    rows: list[Sequence[object]] = []
    group = role = ""
    for one in languages:
        if one.group != group:
            rows.append((Text(one.group, style="bold"), "", Text(TASKS[one.task], style="dim")))
            role = ""
        label, own = f"  {one.role}s" if one.role != role else "", one.language
        rows.append((label, own.code, own.name, own.autonym or "", own.scripts[0], one.most_related or ""))
        group, role = one.group, one.role
    console = new_console(at_least=80)
    console.print(make_table(("", "code", "language", "own name", "script", "nearest"), rows, words=6))
    console.print("\nA tagger learns from the sources of a group and tags its targets:", style="dim")
    for name, taggers in {row.group: row.taggers for row in languages if row.role == "target"}.items():
        by_task = "; ".join(f"{TASKS[task]} by {tagger}" for task, tagger in taggers.items())
        console.print(f"  {name}: {by_task}", style="dim")
    if adapted := ", ".join(adapted_names()):
        note = f"Adapted to raw text of one language each (zgul tag --no-adapted leaves this out): {adapted}"
        console.print(note, style="dim")
    console.print("Any other language: zgul languages NAME", style="dim")


def _sheet(rows: Sequence[tuple[str, str]]) -> Table:
    return make_table(("", ""), [(Text(f"  {key}", style="dim"), value) for key, value in rows], words=2)


def _identity(profile: LanguageProfile) -> list[tuple[str, str]]:
    language = profile.language
    codes = f"{language.code} (ISO 639-1), " if language.code != language.iso3 else ""
    private = "qaa" <= language.iso3 <= "qtz"
    codes += f"{language.iso3} ({'private use, not ISO 639' if private else 'ISO 639-3'})"
    scripts = zip(language.script_names, language.scripts, strict=True)
    features = "its own, from URIEL"
    if profile.features_of != language.code:
        features = f"none in URIEL; those of its closest relative {find(profile.features_of)} are used"
    return [
        ("codes", codes),
        ("family", " › ".join(language.family) or "none known"),
        ("script", ", ".join(f"{name} ({code})" for name, code in scripts) or "not known"),
        ("spoken in", ", ".join(part for part in (language.territory_name, language.area) if part) or "not known"),
        ("features", features),
    ]


def _similarities(profile: LanguageProfile) -> Table:
    rows = []
    for source, values in profile.similarity.items():
        groups = [group.name for group in GROUPS.values() if source in group.sources]
        average = values["average"]
        bar = Text(f"{average:.2f} {'█' * round(10 * average):░<10}", style=similarity_colour(average))
        others = [f"{values[kind]:.2f}" for kind in ("genetic", "syntactic")]
        rows.append((f"  {find(source)}", bar, *others, "every group" if len(groups) > 1 else groups[0]))
    return make_table(("  source", "average", "genetic", "syntactic", "group"), rows, words=5)


def _service(profile: LanguageProfile) -> list[tuple[str, str]]:
    nearest = find(profile.most_related)
    group, reason = profile.assignment.group, profile.assignment.reason
    bank = f"no source is related; the least distant one is {nearest}"
    if group:
        bank = f"{', '.join(str(find(code)) for code in group.sources)}: the group's bank; most related is {nearest}"
    rows = [("group", f"{group.name if group else 'none'}: {reason}"), ("adapters", bank)]
    for tagger in profile.taggers:
        missing = "" if tagger.installed else " (not installed)"
        rows.append((TASKS[tagger.task], f"{tagger.name}: {tagger.reason}{missing}"))
        if tagger.learnt_from and "learnt from" not in tagger.reason:
            rows.append(("", f"learnt from {', '.join(find(code).name for code in tagger.learnt_from)}"))
        rows.append(("", _accuracy(tagger)))
        if tagger.base:
            before = f", where an F1 of about {tagger.zero_shot.f1:.0f} is expected" if tagger.zero_shot else ""
            rows.append(("", f"zgul tag --no-adapted uses {tagger.base} as it is (zero-shot){before}"))
    return rows


def _accuracy(tagger: Served) -> str:
    if tagger.expected:
        return f"expect an F1 of about {tagger.expected.f1:.0f}: {tagger.expected.note}"
    if tagger.warning:
        return "expect poor tags: this tagger learnt from no closely related language"
    return "the accuracy is not known: no related language was measured. Check a sample by hand"

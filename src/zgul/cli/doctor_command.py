"""``zgul doctor``: what this installation can do, and what to do about what it cannot."""

from typing import Annotated

import typer
from rich.text import Text

from zgul.cli import new_app
from zgul.cli.printing import AsJson, make_table, new_console, print_result
from zgul.tagging.diagnosis import Diagnosis, diagnose

app = new_app()
CHECK = "Also tag a sentence."


@app.command()
def doctor(check: Annotated[bool, typer.Option("--check", help=CHECK)] = False, as_json: AsJson = False) -> None:
    """Show versions, devices, cache, encoder, taggers and extras, and what to do about what does not work.

    The exit code is 0 if tagging works, else 1.
    """
    result = diagnose(check=check)
    print_result(result, _show, as_json)
    if not result.works:
        raise typer.Exit(1)


def _show(result: Diagnosis) -> None:
    console = new_console()
    rows: list[tuple[object, ...]] = []
    part = ""
    for one in result.findings:
        if one.part != part:
            rows.append((Text(one.part, style="bold"), ""))
        part = one.part
        mark, style = ("✗", "red") if one.needed and not one.ok else ("·", "dim") if not one.ok else ("✓", "green")
        found = Text(one.found)
        if one.advice:
            found.append(f"\n→ {one.advice}", style="yellow" if one.needed else "dim")
        rows.append((Text("  ").append(mark, style=style).append(f" {one.name}"), found))
    console.print(make_table(("", ""), rows, words=2))
    if result.works:
        console.print('\n[bold]Tagging works.[/bold] Next: zgul tag --lang fo "Hetta er ein lítil roynd."')
    else:
        console.print("\n[bold red]Tagging does not work.[/bold red] The lines marked ✗ say what to do.")

"""``zgul relate``: show how related languages are."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.text import Text

from zgul.cli import new_app
from zgul.cli.printing import AsJson, make_table, new_console, print_json, similarity_colour
from zgul.errors import ZgulError
from zgul.languages import find, similarity
from zgul.languages.relatedness import KINDS

app = new_app()
SHADES = " ░▒▓█"  # so that the heat map is readable without colour
NAMES = "Two or more languages by code or name, the target first."


@app.command()
def relate(
    names: Annotated[list[str], typer.Argument(help=NAMES)],
    kind: Annotated[str, typer.Option(metavar="|".join(KINDS), help="By family, by syntax, or both.")] = "average",
    as_json: AsJson = False,
) -> None:
    """Show how related languages are: a heat map from 0 (nothing in common) to 1 (alike)."""
    if kind not in KINDS:
        raise ZgulError(f'There is no similarity "{kind}"; choose one of {", ".join(KINDS)}.')
    languages = list({language.iso3: language for language in map(find, names)}.values())
    if len(languages) < 2:
        raise ZgulError("Name at least two different languages, for example: zgul relate fo is de en")
    matrices: dict[str, list[list[float]]] = {
        each: [[round(similarity(a, b, each), 4) for b in languages] for a in languages] for each in KINDS
    }
    if as_json:
        print_json({"languages": [language.code for language in languages], **matrices})
        return
    console = new_console(at_least=24 + 9 * len(languages) + max(len(str(language)) for language in languages))
    console.print(f"{kind} similarity", style="dim")
    rows = [[language, *_shade(values)] for language, values in zip(languages, matrices[kind], strict=True)]
    console.print(make_table(["", *(language.code for language in languages)], rows, words=1 + len(languages)))
    scores = matrices[kind][0][1:]
    best = 1 + scores.index(max(scores))
    details = ", ".join(f"{each} {matrix[0][best]:.2f}" for each, matrix in matrices.items())
    console.print(f"\nMost related to {languages[0]}: {languages[best]}\n{details}")


def _shade(values: list[float]) -> Iterator[Text]:
    for value in values:
        shade = SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)]
        yield Text(f"{shade * 2} {value:.2f}", style=similarity_colour(value))

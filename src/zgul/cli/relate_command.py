"""``zgul relate``: how related languages are."""

from __future__ import annotations

from typing import Annotated

import typer

from zgul.cli import languages_page, new_app

app = new_app()


@app.command()
def relate(
    names: Annotated[list[str], typer.Argument(help="Two or more languages by code or name, the target first.")],
    kind: Annotated[
        str, typer.Option(metavar="average|genetic|syntactic", help="Similarity by family, by syntax, or both.")
    ] = "average",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Show how related languages are: a heat map from 0 (nothing in common) to 1 (alike).

    Examples:

    `zgul relate fo is de en`

    `zgul relate Luo Swahili Wolof Amharic --kind syntactic`
    """
    languages_page.show_relatedness(names, kind, as_json)

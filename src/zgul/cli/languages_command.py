"""``zgul languages``: who a language is, which taggers serve it, what accuracy to expect."""

from __future__ import annotations

from typing import Annotated

import typer

from zgul.cli import languages_page, new_app

app = new_app()


@app.command()
def languages(
    language: Annotated[
        str | None,
        typer.Argument(help="Code, tag or name of any language: fo, fao, sr-Latn, Faroese, føroyskt."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Show the paper's languages and groups, or one language: who it is, what serves it, what accuracy to expect.

    Examples:

    `zgul languages`

    `zgul languages fo`

    `zgul languages "Swiss German" --json`
    """
    if language is None:
        languages_page.show_paper_languages(as_json)
    else:
        languages_page.show_language(language, as_json)

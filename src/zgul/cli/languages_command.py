"""``zgul languages`` and ``zgul relate``: who a language is, what it is related to, what serves it."""

from __future__ import annotations

import typer

from zgul.cli import app

JSON_HELP = "Print JSON for other programs."


@app.command("languages")
def languages(
    language: str | None = typer.Argument(
        None, help="Code, tag or name of any language: fo, fao, sr-Latn, Faroese, føroyskt.", show_default=False
    ),
    as_json: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """Show the paper's languages and groups, or one language: who it is, what serves it, what accuracy to expect.

    Examples:

    `zgul languages`

    `zgul languages fo`

    `zgul languages "Swiss German" --json`
    """
    from zgul.cli import languages_page

    if language is None:
        languages_page.show_paper_languages(as_json)
    else:
        languages_page.show_language(language, as_json)


@app.command("relate")
def relate(
    names: list[str] = typer.Argument(help="Two or more languages by code or name, the target first."),
    kind: str = typer.Option("average", "--kind", help="average, genetic (family) or syntactic."),
    as_json: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """Show how related languages are: a heat map from 0 (nothing in common) to 1 (alike).

    Examples:

    `zgul relate fo is de en`

    `zgul relate Luo Swahili Wolof Amharic --kind syntactic`
    """
    from zgul.cli import languages_page

    languages_page.show_relatedness(names, kind, as_json)

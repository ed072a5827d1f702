"""``zgul methods``: every method of the paper, what it trains and how it infers."""

from __future__ import annotations

import json
from typing import Any

import typer

from zgul.cli import app
from zgul.paper.numbers import COST
from zgul.paper.rows import rows_of


@app.command("methods")
def methods(as_json: bool = typer.Option(False, "--json", help="Print JSON for other programs.")) -> None:
    """Show every method: its name in the paper, what it trains and freezes, how it infers, how large it is.

    Examples:

    `zgul methods`

    `zgul methods --json`
    """
    rows = describe()
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        _show(rows)


def describe() -> list[dict[str, Any]]:
    """Every method as plain data; the numbers are counted on the methods' own modules."""
    from zgul.methods import METHODS
    from zgul.methods.sizes import RELEASE, sizes

    rows = []
    for method in METHODS.values():
        counted = sizes(method)
        printed = COST.get(method.title, "parameters")
        rows.append(
            {
                "name": method.name,
                "title": method.title,
                "trained_on": "English" if method.english_only else "all sources",
                "trained": list(counted.trained),
                "frozen": list(counted.frozen),
                "strategies": list(method.strategies),
                "rows": [
                    {"title": row.title, "strategy": row.strategy, "needs": list(row.needs)}
                    for row in rows_of(method.name)
                ],
                "trainable_parameters": counted.trainable,
                "in_the_paper": None if printed is None else f"{printed:g}M",
                "in_the_release": {
                    group: sizes(method, options).trainable
                    for group, (options, _) in RELEASE.items()
                    if method.name == "zgul"
                },
            }
        )
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 110
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("--method", "paper", "trained on", "trained", "frozen", "--strategy"):
        table.add_column(heading, overflow="fold")
    table.add_column("trainable", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["name"],
            row["title"],
            row["trained_on"],
            ", ".join(row["trained"]),
            ", ".join(row["frozen"]) or "nothing",
            ", ".join(row["strategies"]),
            f"{row['trainable_parameters'] / 1e6:.1f}M",
        )
    console.print(table)
    console.print(
        "\nTrainable parameters at the size of mBERT, 17 labels. The first strategy is the default.", style="dim"
    )
    printed = "; ".join(f"{row['title']} {row['in_the_paper']}" for row in rows if row["in_the_paper"])
    console.print(f"In the paper: {printed}.", style="dim")
    for row in rows:
        if forms := row["in_the_release"]:
            counts = "; ".join(f"{group} {count / 1e6:.1f}M" for group, count in forms.items())
            console.print(f"{row['title']} in the authors' release, which has three forms: {counts}.", style="dim")
    console.print("\nThe paper's rows:", style="dim")
    listed = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", style="dim")
    for heading in ("  paper", "--method", "--strategy", "needs"):
        listed.add_column(heading)
    for row in rows:
        for line in row["rows"]:
            listed.add_row("  " + line["title"], row["name"], line["strategy"], ", ".join(line["needs"]))
    console.print(listed)
    console.print(
        "\nAn encoder trained on the target's text: zgul adapter train --full, then zgul train --encoder DIR. The "
        "target's adapter: zgul adapter train, then zgul train --adapters shipped,DIR --extra-adapters fo.",
        style="dim",
    )

"""``zgul methods``: every method of the paper, what it trains and how it infers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from zgul.cli import new_app
from zgul.cli.shared_options import AsJson
from zgul.paper.method_descriptions import MethodDescription, describe_methods

app = new_app()


@app.command()
def methods(as_json: AsJson = False) -> None:
    """Show every method: its name in the paper, what it trains and freezes, how it infers, how large it is.

    Examples:

    `zgul methods`

    `zgul methods --json`
    """
    described = describe_methods()
    if as_json:
        print(json.dumps([asdict(method) for method in described], ensure_ascii=False, indent=2))
    else:
        _show(described)


def _show(described: Sequence[MethodDescription]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 110
    table = _table("--method", "paper", "trained on", "trained", "frozen", "--strategy")
    table.add_column("trainable", justify="right", no_wrap=True)
    for method in described:
        parts = (", ".join(method.trained), ", ".join(method.frozen) or "nothing", ", ".join(method.strategies))
        size = f"{method.trainable_parameters / 1e6:.1f}M"
        table.add_row(method.name, method.title, method.trained_on, *parts, size)
    console.print(table)
    console.print("\nTrainable parameters are counted at the size of mBERT, with 17 labels.", style="dim")
    console.print("The first strategy is the default.", style="dim")
    printed = "; ".join(f"{method.title} {method.in_the_paper:g}M" for method in described if method.in_the_paper)
    console.print(f"In the paper: {printed}.", style="dim")
    for method in described:
        if forms := method.in_the_release:
            counts = "; ".join(f"{group} {count / 1e6:.1f}M" for group, count in forms.items())
            console.print(f"{method.title} in the authors' release, which has three forms: {counts}.", style="dim")
    console.print("\nThe paper's rows:", style="dim")
    listed = _table("  paper", "--method", "--strategy", "needs")
    for method in described:
        for row in method.rows:
            listed.add_row("  " + row.title, method.name, row.strategy, ", ".join(row.needs))
    console.print(listed)
    console.print(
        "\nAn encoder trained on the target's text: zgul adapter train --full, then zgul train --encoder DIR. The "
        "target's adapter: zgul adapter train, then zgul train --adapters shipped,DIR --extra-adapters fo.",
        style="dim",
    )


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table

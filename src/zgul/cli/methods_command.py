"""``zgul methods``: every method of the paper, what it trains and how it infers."""

from collections.abc import Sequence

from zgul.cli import COMMANDS, new_app
from zgul.cli.printing import AsJson, make_table, new_console, print_result
from zgul.paper.method_descriptions import MethodDescription, describe_methods

app = new_app()
HEADINGS = ("--method", "paper", "trained on", "trained", "frozen", "--strategy", "trainable")


@app.command()
def methods(as_json: AsJson = False) -> None:
    """Show every method: its name in the paper, what it trains and freezes, how it infers, how large it is."""
    print_result(describe_methods(), _show, as_json)


def _show(described: Sequence[MethodDescription]) -> None:
    console = new_console(piped=110)
    rows = []
    for method in described:
        parts = (", ".join(method.trained), ", ".join(method.frozen) or "nothing", ", ".join(method.strategies))
        size = f"{method.trainable_parameters / 1e6:.1f}M"
        rows.append((method.name, method.title, method.trained_on, *parts, size))
    console.print(make_table(HEADINGS, rows, words=6))
    console.print("\nTrainable parameters are counted at the size of mBERT, with 17 labels.", style="dim")
    console.print("The first strategy is the default.", style="dim")
    printed = "; ".join(f"{method.title} {method.in_the_paper:g}M" for method in described if method.in_the_paper)
    console.print(f"In the paper: {printed}.", style="dim")
    for method in described:
        if forms := method.in_the_release:
            counts = "; ".join(f"{group} {count / 1e6:.1f}M" for group, count in forms.items())
            console.print(f"{method.title} in the authors' release, which has three forms: {counts}.", style="dim")
    console.print("\nThe paper's rows:", style="dim")
    listed = [(f"  {row.title}", m.name, row.strategy, ", ".join(row.needs)) for m in described for row in m.rows]
    console.print(make_table(("  paper", "--method", "--strategy", "needs"), listed, words=4))
    console.print("", COMMANDS["methods"]["note"], sep="\n", style="dim")

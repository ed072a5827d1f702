"""``zgul compare``: test whether the difference between two systems is more than chance."""

from pathlib import Path
from typing import Annotated

import typer

from zgul.cli import new_app
from zgul.cli.printing import AsJson, make_table, new_console, print_result
from zgul.paper.comparison import RunComparison, compare_runs

app = new_app()
HEADINGS = ["", "words", "first F1", "second F1", "difference", "from", "to"]
HEADINGS += ["only first right", "only second right", "McNemar p"]


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="RESULTS:RUN[:ROW], or a tagged file.")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="What to compare it with, in the same form.")],
    gold: Annotated[Path | None, typer.Option(help="File with the right tags; needed for files.")] = None,
    task: Annotated[str, typer.Option(metavar="pos|ner", help="Which tags of a file.")] = "pos",
    samples: Annotated[int, typer.Option(min=1, help="Number of bootstrap samples.")] = 1000,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the intervals.")] = 0.95,
    as_json: AsJson = False,
) -> None:
    """Compare two systems on the same sentences: F1 with a bootstrap interval of the difference, and McNemar's test.

    A system is a run of an experiment, `RESULTS:RUN[:ROW]`. RESULTS is a folder of `zgul experiment paper` or a file of
    `zgul experiment export`, RUN the first characters of a run's hash or its whole name, and ROW the paper's row if a
    run has several ("ZGUL w/o EM"). Or it is a tagged file (.conllu, .tsv, .txt, also compressed), with the right tags
    in --gold.
    """
    result = compare_runs(first, second, gold=gold, task=task, samples=samples, confidence=confidence)
    print_result(result, _show, as_json)


def _show(result: RunComparison) -> None:
    rows = []
    for row in result.rows:
        f1 = (f"{row.first_f1:.1f}", f"{row.second_f1:.1f}")
        spread = (f"{row.difference:+.1f}", f"{row.low:+.1f}", f"{row.high:+.1f}")
        right = (f"{row.only_first_right:,}", f"{row.only_second_right:,}")
        p = "< 0.0001" if row.p < 0.0001 else f"{row.p:.4f}"
        rows.append((row.language, f"{row.words:,}", *f1, *spread, *right, p))
    console = new_console()
    console.print(f"first:  {result.first}\nsecond: {result.second}", markup=False, soft_wrap=True)
    console.print(make_table(HEADINGS, rows))
    samples = f"{result.confidence:.0%} intervals by {result.samples:,} bootstrap samples of sentences"
    console.print(f"{result.verdict} ({samples}.)", markup=False)

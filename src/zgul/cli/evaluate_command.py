"""``zgul evaluate``: score a tagger on labelled text."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from zgul.cli import new_app
from zgul.cli.printing import AsJson, ProgressBars, make_table, new_console, print_result
from zgul.cli.shared_options import (
    EM,
    Adapted,
    Adaptive,
    Device,
    LanguageName,
    ModelName,
    Precision,
    StripMarks,
    Task,
    with_em_options,
)
from zgul.corpora import DataFolder, read_labelled
from zgul.errors import ZgulError
from zgul.languages import find
from zgul.methods import find_method
from zgul.tagging.evaluation_run import Evaluation, evaluate, load_for_scoring

app = new_app()
DATA_HELP = "Labelled file (.conllu, .tsv, .txt, also compressed), or a data folder."
DECODE_HELP = "Each word's best tag, or the best sequence that IOB2 allows."


@app.command("evaluate")
@with_em_options("steps", "lr", "start", "positions")
def command(
    changes: dict[str, Any],
    lang: LanguageName,
    data: Annotated[Path, typer.Option(help=DATA_HELP)],
    task: Task = None,
    model: ModelName = None,
    adapted: Adapted = True,
    strip_marks: StripMarks = None,
    split: Annotated[str, typer.Option(help="Split to read if --data is a folder.")] = "test",
    strategy: Annotated[str | None, typer.Option(help="Another way to infer: see zgul methods.")] = None,
    decode: Annotated[str | None, typer.Option(metavar="words|sequence", help=DECODE_HELP)] = None,
    as_json: AsJson = False,
    em: EM = None,
    adaptive: Adaptive = None,
    device: Device = "cpu",
    precision: Precision = "float32",
) -> None:
    """Score a tagger on labelled text: accuracy, seqeval's F1 as the paper uses it, every class, frequent mistakes.

    Shipped taggers are scored with adaptive EM, as `zgul tag` runs them; others with EM as they were tuned.
    """
    if not data.exists():
        raise ZgulError(f"{data}: no such file")
    choices = {"strategy": strategy, "em": em, "adaptive": adaptive, "changes": changes}
    place: dict[str, Any] = {"model": model, "adapted": adapted, "strip_marks": strip_marks}
    place |= {"device": device, "precision": precision}
    loaded = load_for_scoring(lang, task, decode=decode, choices=choices, **place)
    (task,), language = loaded.taggers, loaded.language.code
    if data.is_dir():
        sentences = DataFolder(data).sentences(task, language, split)
    else:
        sentences = read_labelled(data, task, language)
    if not sentences:
        raise ZgulError(f"{data} contains no sentences.")
    with ProgressBars(transient=True) as bars:
        result = evaluate(loaded, sentences, report=bars)
    print_result(result, partial(_show, switched_off=em is False or changes.get("steps") == 0), as_json)


def _show(result: Evaluation, *, switched_off: bool) -> None:
    console = new_console()
    scores, inference, language = result.scores, result.inference, find(result.language)
    method = f"{find_method(result.method).title} ({inference.strategy})"
    console.print(f"{method}, {result.task.upper()}, {language}: {result.model}")
    size = f"{scores.sentences:,} sentences, {scores.words:,} words"
    console.print(f"[bold]accuracy {scores.accuracy:.1f}   F1 {scores.f1:.1f}[/bold]   {size}")
    speed = scores.words / max(result.seconds, 1e-9)
    console.print(f"{_describe_em(result, switched_off)}. {result.seconds:.1f} seconds, {speed:,.0f} words a second.\n")
    support = sum(row["support"] for row in scores.per_class.values())
    classes: dict[str, Any] = scores.per_class | {"all (micro)": vars(scores) | {"support": support}}
    shares = {name: [f"{row[key]:.1f}" for key in ("f1", "precision", "recall")] for name, row in classes.items()}
    table = [(name, *shares[name], f"{row['support']:,}") for name, row in classes.items()]
    console.print(make_table(("class", "F1", "precision", "recall", "support"), table))
    console.print("Support is the number of seqeval's chunks: neighbouring words of one class count once.", style="dim")
    if "CONJ" in scores.per_class:
        console.print("CONJ is CCONJ and SCONJ: seqeval, the paper's measure, treats them as one class.", style="dim")
    if result.confusions:
        console.print("\nMost frequent mistakes")
        mistakes = [(pair.gold, pair.predicted, pair.words) for pair in result.confusions]
        console.print(make_table(("tag", "tagged as", "words"), mistakes, words=2))
        console.print("\nWords with the most mistakes")
        rows = [(word.word, f"{word.gold} as {word.predicted}", word.wrong, word.total) for word in result.worst_words]
        console.print(make_table(("word", "mostly", "wrong", "of"), rows, words=2))


def _describe_em(result: Evaluation, switched_off: bool) -> str:
    inference = result.inference
    if inference.runs_em:
        return str(inference).replace("EM:", "EM ran:")
    if not inference.em:
        return f"EM did not run: the strategy {inference.strategy!r} has none"
    tuned = f"the tagger was tuned to no steps for {find(result.language).name}"
    return f"EM did not run: {'you switched it off' if switched_off else tuned}"

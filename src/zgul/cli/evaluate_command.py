"""``zgul evaluate``: F1 of a tagger on labelled text."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from zgul import corpora
from zgul.cli import new_app
from zgul.cli.progress_bars import ProgressBars
from zgul.cli.shared_options import (
    EM,
    Adaptive,
    AsJson,
    Device,
    EMPositions,
    EMRate,
    EMStart,
    EMSteps,
    ModelName,
    Precision,
)
from zgul.devices import find_device
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import format_scores
from zgul.fast.engine import find_precision
from zgul.languages import find
from zgul.methods import find_method
from zgul.tagger.decoding import decoder
from zgul.tagging.evaluation_run import Evaluation, evaluate
from zgul.tagging.inference_choice import choose_inference
from zgul.tagging.loading import load_named
from zgul.tagging.serving import check_task, serving, shipped_names

app = new_app()


@app.command("evaluate")
def command(
    lang: Annotated[str, typer.Option("--lang", "-l", help="Language of the text, by code or name.")],
    data: Annotated[
        Path, typer.Option(help="Labelled file (.conllu, .tsv, .txt, perhaps compressed), or a data folder.")
    ],
    task: Annotated[str | None, typer.Option(metavar="pos|ner", help="Needed unless --model is given.")] = None,
    model: ModelName = None,
    split: Annotated[str, typer.Option(help="Which file of a data folder.")] = "test",
    strategy: Annotated[str | None, typer.Option(help="Another way to infer: see zgul methods.")] = None,
    decode: Annotated[
        str | None,
        typer.Option(metavar="words|sequence", help="Each word's best tag, or the best sequence that IOB2 allows."),
    ] = None,
    as_json: AsJson = False,
    em: EM = None,
    em_steps: EMSteps = None,
    em_lr: EMRate = None,
    em_start: EMStart = None,
    em_positions: EMPositions = None,
    adaptive: Adaptive = None,
    device: Device = "cpu",
    precision: Precision = "float32",
) -> None:
    """Score a tagger on labelled text: accuracy, seqeval's F1 as the paper uses it, every class, frequent mistakes.

    Shipped taggers are scored with adaptive EM, as `zgul tag` runs them; others with EM as they were tuned.

    Examples:

    `zgul evaluate --task pos --lang fo --data test.conllu`

    `zgul evaluate --model out/germanic --lang fo --data DIR --no-em --json`

    `zgul evaluate --model all-pos --lang fo --data DIR`

    `zgul evaluate --model out/madx --lang fo --data DIR --strategy uniform`
    """
    language = find(lang).code
    settings = {"steps": em_steps, "lr": em_lr, "start": em_start, "positions": em_positions}
    changes = {name: value for name, value in settings.items() if value is not None}
    EMConfig.from_dict(changes, "em_")  # everything is checked before the seconds that loading takes
    find_precision(precision)
    if decode is not None:
        decoder(decode, [])
    if not data.exists():
        raise ZgulError(f"{data}: no such file")
    name = _name(model, language, task)
    tagger = load_named(name, str(find_device(device)), precision)
    if task is not None and check_task(task) != tagger.task:
        raise ZgulError(f"{name} is a tagger for {tagger.task}, not for {task}. Leave the task out.")
    tagger = replace(tagger, decode=decode) if decode is not None else tagger
    inference = choose_inference(
        tagger,
        language,
        strategy=strategy,
        em=em,
        adaptive=adaptive,
        changes=changes,
        adaptive_default=name in shipped_names(),
    )
    if data.is_dir():
        sentences = corpora.load(data, tagger.task, language, split)
    else:
        sentences = corpora.read_labelled(data, tagger.task, language)
    if not sentences:
        raise ZgulError(f"{data} holds no sentences.")
    with ProgressBars(transient=True) as bars:
        result = evaluate(tagger, sentences, inference, name=name, report=bars)
    if as_json:
        print(json.dumps(result.to_dict(), ensure_ascii=False, indent=2))
    else:
        _show(result)


def _name(model: str | None, language: str, task: str | None) -> str:
    """The folder or name of the tagger; by default the shipped one that serves the language."""
    if task is not None:
        check_task(task)
    if model is not None:
        return model
    if task is None:
        raise ZgulError("Say which task: --task pos or --task ner (or give --model FOLDER).")
    served = serving(language, task)
    if served.warning:
        warnings.warn(served.warning, ZgulWarning, stacklevel=2)
    return served.name


def _show(result: Evaluation) -> None:
    console = Console(highlight=False)
    own, inference = result.scores, result.inference
    console.print(
        f"{find_method(result.method).title} ({inference.strategy}), {result.task.upper()}, {find(result.language)}: "
        f"{result.model}"
    )
    console.print(f"[bold]accuracy {own.accuracy:.1f}   F1 {own.f1:.1f}[/bold]")
    ran = str(inference).replace("EM:", "EM ran:") if inference.runs_em else f"EM did not run: {_why_not(result)}"
    console.print(
        f"{ran}. {result.seconds:.1f} seconds, {own.words / max(result.seconds, 1e-9):,.0f} words a second.\n"
    )
    console.print(format_scores(own))
    console.print("Support is the number of seqeval's chunks: neighbouring words of one class count once.", style="dim")
    if "CONJ" in own.per_class:
        console.print("CONJ is CCONJ and SCONJ: seqeval, the paper's measure, takes them for one class.", style="dim")
    if result.confusions:
        console.print("\nMost frequent mistakes")
        console.print(
            _table(("tag", "tagged as", "words"), [(c.gold, c.predicted, c.words) for c in result.confusions])
        )
        console.print("\nWords with the most mistakes")
        rows = [(w.word, w.wrong, w.total, f"{w.gold} as {w.predicted}") for w in result.worst_words]
        console.print(_table(("word", "wrong", "of", "mostly"), rows))


def _why_not(result: Evaluation) -> str:
    if result.inference.em is None:
        return f"the strategy {result.inference.strategy!r} has none"
    return f"it is switched off, or the tagger was tuned to no steps for {find(result.language).name}"


def _table(headings: tuple[str, ...], rows: Sequence[Sequence[object]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in ("words", "wrong", "of") else "left")
    for row in rows:
        table.add_row(*map(str, row))
    return table

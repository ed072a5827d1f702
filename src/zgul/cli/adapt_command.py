"""``zgul adapt``: adapt a shipped tagger to a language, from raw text or a few labelled sentences."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zgul.adaptation.adapting import WORK, Adaptation, AdaptConfig, adapt, parse_budget
from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.cli.printing import AsJson, make_table, new_console, print_result, stoppable
from zgul.cli.shared_options import Device, LanguageName, ModelName, Task
from zgul.languages import find
from zgul.training import distributed

app = new_app()
TEXT = "Raw text of the language: a file (also compressed) or a folder. Can be given several times."
LABELLED = "A few labelled sentences of the language (.tsv, .conllu)."
DATA = "Data folder with labelled sentences of the tagger's sources, which are learnt beside the text."
DEV = "Labelled sentences that are only scored, before and after."


@app.command("adapt")
@with_options(AdaptConfig, skip=("rank", "adapter"), panel="Recipe")
def command(
    given: dict[str, Any],
    lang: LanguageName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the result, a few megabytes.")],
    text: Annotated[list[Path] | None, typer.Option(help=TEXT)] = None,
    labelled: Annotated[Path | None, typer.Option(help=LABELLED)] = None,
    task: Task = None,
    data: Annotated[Path | None, typer.Option(help=DATA)] = None,
    dev: Annotated[Path | None, typer.Option(help=DEV)] = None,
    model: ModelName = None,
    budget: Annotated[str | None, typer.Option(help="Time for the work, such as 30m or 1h [default: any].")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in --output.")] = False,
    as_json: AsJson = False,
    device: Device = "cpu",
) -> None:
    """Adapt a tagger to a language that it has never seen: raw text or a few labelled sentences in, a tagger out.

    The result is a small folder, which `zgul tag --model`, `zgul.load`, spaCy and `zgul export` take. Steps that do not
    help are undone, and the command says so. Ctrl-C saves the work; the same command with --resume continues it.
    """
    parse_budget(budget)
    config = AdaptConfig.from_dict(given)
    files: dict[str, Any] = {"text": text or (), "labelled": labelled, "data": data, "dev": dev}
    settings: dict[str, Any] = {"task": task, "model": model, "budget": budget, "device": device, "config": config}
    settings |= {"resume": resume, "overwrite": overwrite}
    with distributed.processes(device):
        with stoppable((output / WORK).is_dir) as bars:
            result = adapt(lang, output=output, **files, **settings, report=bars)
        print_result(result, _show, as_json)


def _show(result: Adaptation) -> None:
    console = new_console()
    console.print(f"[bold]{find(result.language)}, {result.task.upper()}[/bold], from {result.base}: {result.output}")
    if result.text:
        facts = result.text
        left = ", ".join(f"{count:,} {reason}" for reason, count in facts["dropped"].items() if count) or "none"
        kept = f"{facts['kept']:,} used ({facts['words']:,} words), {facts['held_out']:,} of them held out"
        console.print(f"Text: {facts['read']:,} sentences read, {kept}. Dropped: {left}.")
    for step in result.steps:
        figures = ", ".join(f"{name} {_figure(name, value)}" for name, value in step.figures.items())
        console.print(f"{step.name}: {'kept' if step.kept else 'undone'}, because {step.reason} ({figures}).")
    where = "held-out text" if result.text else "the labelled sentences"
    console.print(f"Tags changed: {result.changed:.1f} % of the words of {where}.")
    if result.examples:
        rows = [(f"… {one.before}", one.word, f"{one.after} …", one.old, one.new) for one in result.examples]
        console.print(make_table(("before", "word", "after", "was", "is"), rows, words=5))
    if result.dev_before is not None and result.dev_after is not None:
        console.print(f"F1 on --dev: {result.shipped} {result.dev_before:.1f}, the result {result.dev_after:.1f}.")
    console.print(f"{result.megabytes:.1f} MB, {result.seconds / 60:.1f} minutes.")
    console.print(f"[bold]{result.verdict}[/bold]", soft_wrap=True)


def _figure(name: str, value: float) -> str:
    return f"{value:.0f}" if name == "judged on" else f"{value:.1f}"  # a number of sentences, or per cent

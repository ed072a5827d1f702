"""``zgul train``: train a method of the paper on the sources of a group."""

import shlex
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.cli.printing import ProgressBars, make_table, new_console, stoppable
from zgul.errors import ZgulError
from zgul.files import write_json
from zgul.languages import find
from zgul.options import read_yaml
from zgul.training import distributed, run
from zgul.training.config import WHAT, TrainingConfig
from zgul.training.trainer import CHECKPOINT

app = new_app()
INSIDE = tuple(f"options.{name}" for name, *_ in TrainingConfig.option_groups()["options"].declared())  # by --set
OUTPUT = "Folder for the tagger [default: out/GROUP-METHOD]."
SET = "Set any option: options.combine=max."
LEFT_OUT = "For each source, train without it and score it as an unseen language."
file_option = partial(typer.Option, rich_help_panel="Files")


@app.command()
@with_options(TrainingConfig, skip=("language_lr", *INSIDE), flags={"noise.sentences": "--noise"})
def train(
    given: dict[str, Any],
    output: Annotated[Path | None, file_option("--output", "-o", help=OUTPUT)] = None,
    config: Annotated[Path | None, file_option(help="YAML file with options; the command line overrides it.")] = None,
    resume: Annotated[bool, file_option("--resume", help="Continue from the checkpoint in --output.")] = False,
    overwrite: Annotated[bool, file_option("--overwrite", help="Replace what is in --output.")] = False,
    save_encoder: Annotated[bool, file_option("--save-encoder", help="Also save the encoder in the folder.")] = False,
    bits: Annotated[int, file_option(help="Bits per saved number: 32, 16, or 9 for a small tagger.")] = 32,
    leave_one_out: Annotated[bool, typer.Option("--leave-one-out", help=LEFT_OUT, rich_help_panel=WHAT)] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SET)] = None,
) -> None:
    """Train a tagger on source languages. The defaults are the paper's.

    You can also set every option in a YAML file (--config). The options of a run are saved as train.yaml beside the
    model. Ctrl-C saves a checkpoint, and `zgul train --output DIR --resume` continues from it.
    """
    if output is None and not leave_one_out:
        if "group" not in given:
            raise ZgulError("Name the folder for the tagger with --output DIR. (Only --group has a default folder.)")
        output = Path("out") / f"{given['group']}-{given.get('method', 'zgul')}"
    begun = output / (run.LEAVE_ONE_OUT if leave_one_out else run.CONFIG) if resume and output is not None else None
    base = config or (begun if begun is not None and begun.is_file() else None)
    chosen = TrainingConfig.from_dict(_merge(read_yaml(base) if base is not None else {}, given, settings or []))
    saving = run.Saving(resume, overwrite, save_encoder, bits)
    with distributed.processes(chosen.device):
        if leave_one_out:
            _leave_one_out(chosen, output, saving)
        elif output is not None:
            _train(chosen, output, saving)


def _merge(base: dict[str, Any], given: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """Merge the values of a file, of options and of --set. Later ones win."""
    implied = ("task", "sources", "targets", "leave_out") if "group" in given else ()  # a group has its own
    values = {name: value for name, value in base.items() if name not in implied}
    for changes in (given, *map(_parse_setting, settings)):
        for name, value in changes.items():
            before = values.get(name)
            values[name] = {**before, **value} if isinstance(value, dict) and isinstance(before, dict) else value
    return values


def _parse_setting(setting: str) -> dict[str, Any]:
    """Parse a setting such as ``options.combine=max`` into nested values."""
    name, equals, text = setting.partition("=")
    if not equals:
        raise ZgulError(f"--set takes NAME=VALUE, such as options.combine=max, not {setting!r}.")
    try:
        value = yaml.safe_load(text)
    except Exception as error:  # PyYAML raises anything, for example for !!timestamp x
        raise ZgulError(f"--set {setting}: the value is not valid YAML.") from error
    outer, dot, inner = name.strip().partition(".")
    return {outer: {inner: value} if dot else value}


def _stoppable(
    output: Path | None, begun: str, saving: run.Saving, more: str = ""
) -> AbstractContextManager[ProgressBars]:
    """Progress bars. If the user stops the work after the file ``begun`` was written, the message says how to go on."""
    more += " --save-encoder" if saving.save_encoder else ""
    more += f" --bits {saving.bits}" if saving.bits != 32 else ""
    again = f"zgul train --output {shlex.quote(str(output))} --resume{more}"
    return stoppable(lambda: output is not None and (output / begun).is_file(), f"Continue with: {again}")


def _train(config: TrainingConfig, output: Path, saving: run.Saving) -> None:
    with _stoppable(output, CHECKPOINT, saving) as bars:
        tagger = run.train(config, output, report=bars, saving=saving)
    about = tagger.about
    print(f"{tagger.method.title} ({tagger.task.upper()}), sources {', '.join(tagger.parts.sources)}: {output}")
    cost = f"{about['steps']} step{'s' * (about['steps'] != 1)}, {about['seconds']:.0f} seconds"
    scored = "There is no dev set, so the last weights are kept"
    if about["dev_f1"] is not None:
        scored = f"F1 on the sources' dev sets: {about['dev_f1']:.1f}"
    print(f"{scored} ({cost})")
    if "em" in about:
        print(f"EM settings by {about['em']['by']}:")
        for target, facts in about["em"]["targets"].items():
            em = tagger.em[target]
            scores = f"F1 {facts['f1']:.1f}, without EM {facts['f1_without_em']:.1f}"
            chosen = f"{em.steps} step{'s' * (em.steps != 1)}, rate {em.lr:g}, on {', '.join(facts['on'])} ({scores})"
            print(f"  {target or 'other languages'}: {chosen}")
    print(f"Next: zgul evaluate --model {shlex.quote(str(output))} --lang LANG --data DIR")


def _leave_one_out(config: TrainingConfig, output: Path | None, saving: run.Saving) -> None:
    with _stoppable(output, run.LEAVE_ONE_OUT, saving, " --leave-one-out") as bars:
        result = run.leave_one_out(config, output, report=bars, saving=saving)
    if output is not None and distributed.is_first():
        write_json(output / "leave_one_out.json", result)
    strategies = list(next(iter(result.values())))
    means = {strategy: sum(f1[strategy] for f1 in result.values()) / len(result) for strategy in strategies}
    named = {str(find(language)): f1 for language, f1 in result.items()} | {"mean": means}
    rows = [(name, *(f"{f1[strategy]:.1f}" for strategy in strategies)) for name, f1 in named.items()]
    title = "Leave one source out: F1 on its dev set, as an unseen language"
    new_console().print(make_table(("left out", *strategies), rows, title=title))

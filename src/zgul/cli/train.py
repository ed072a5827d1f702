"""``zgul train``: train a method of the paper on the sources of a group."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from zgul.cli import app
from zgul.errors import ZgulError

if TYPE_CHECKING:
    from zgul.methods.tagger import Tagger

WHAT, HOW, NOISE, EM, FILES = "What to train", "How to train", "Annotation and noise", "EM settings", "Files"


@app.command("train")
def train(
    method: Annotated[str | None, typer.Option(help="zgul, sft-m, …: see zgul methods.", rich_help_panel=WHAT)] = None,
    group: Annotated[
        str | None, typer.Option(help="germanic, slavic, african or indo-aryan.", rich_help_panel=WHAT)
    ] = None,
    task: Annotated[str | None, typer.Option(help="pos or ner, where no group says it.", rich_help_panel=WHAT)] = None,
    sources: Annotated[
        str | None, typer.Option(help="Source languages with commas, instead of a group's.", rich_help_panel=WHAT)
    ] = None,
    leave_out: Annotated[
        str | None, typer.Option(help="Sources to train without, with commas.", rich_help_panel=WHAT)
    ] = None,
    leave_one_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-out", help="Train once without each source; score it as unseen.", rich_help_panel=WHAT
        ),
    ] = False,
    encoder: Annotated[str | None, typer.Option(help="embedded, a folder or a hub name.", rich_help_panel=WHAT)] = None,
    adapters: Annotated[
        str | None,
        typer.Option(help="shipped, new, files or folders with commas, or {lang}/wiki@ukp.", rich_help_panel=WHAT),
    ] = None,
    extra_adapters: Annotated[
        str | None, typer.Option(help="Further languages of the bank: a target's, for ZGUL++.", rich_help_panel=WHAT)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Data folder with TASK/LANG/train.tsv and the like.", rich_help_panel=FILES)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the tagger [default: out/GROUP-METHOD]", rich_help_panel=FILES),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML with options; the command line wins.", rich_help_panel=FILES)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint in --output.", rich_help_panel=FILES)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is in --output.", rich_help_panel=FILES)
    ] = False,
    save_encoder: Annotated[
        bool, typer.Option("--save-encoder", help="Put the encoder into the folder too.", rich_help_panel=FILES)
    ] = False,
    bits: Annotated[
        int,
        typer.Option(help="Of a saved number: 32, 16, or 9 for a small tagger to use only.", rich_help_panel=FILES),
    ] = 32,
    tensorboard: Annotated[
        bool | None,
        typer.Option("--tensorboard", help="Log to OUTPUT/tensorboard.", rich_help_panel=FILES, show_default=False),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="[default: 5 for POS, 10 for NER]", rich_help_panel=HOW)
    ] = None,
    lr: Annotated[float | None, typer.Option(help="[default: 1e-4]", rich_help_panel=HOW)] = None,
    batch_size: Annotated[int | None, typer.Option(help="[default: 32]", rich_help_panel=HOW)] = None,
    accumulate: Annotated[int | None, typer.Option(help="Batches in a step [default: 4]", rich_help_panel=HOW)] = None,
    warmup: Annotated[float | None, typer.Option(help="Share of the steps.", rich_help_panel=HOW)] = None,
    weight_decay: Annotated[float | None, typer.Option(rich_help_panel=HOW)] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of a gradient.", rich_help_panel=HOW)] = None,
    seed: Annotated[int | None, typer.Option(help="[default: 0]", rich_help_panel=HOW)] = None,
    eval_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations [default: an epoch]", rich_help_panel=HOW)
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after this many evaluations without gain.", rich_help_panel=HOW)
    ] = None,
    select: Annotated[str | None, typer.Option(help="best or last weights.", rich_help_panel=HOW)] = None,
    max_pieces: Annotated[int | None, typer.Option(help="Longer sentences are cut.", rich_help_panel=HOW)] = None,
    limit: Annotated[int | None, typer.Option(help="Sentences of each language.", rich_help_panel=HOW)] = None,
    decode: Annotated[
        str | None, typer.Option(help="words, or sequence: the best that IOB2 allows.", rich_help_panel=HOW)
    ] = None,
    precision: Annotated[str | None, typer.Option(help="auto, float32, bfloat16.", rich_help_panel=HOW)] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.", rich_help_panel=HOW)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any option by its name, such as options.combine=max.", rich_help_panel=HOW),
    ] = None,
    unannotated: Annotated[
        str | None, typer.Option(help="Labels that mean none was given, such as X.", rich_help_panel=NOISE)
    ] = None,
    label_set_per_corpus: Annotated[
        bool | None,
        typer.Option(help="A label a corpus never uses is unknown there.", rich_help_panel=NOISE, show_default=False),
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="Share of sentences with spelling noise.", rich_help_panel=NOISE)
    ] = None,
    noise_words: Annotated[
        float | None, typer.Option(help="Share of their words that are edited.", rich_help_panel=NOISE)
    ] = None,
    noise_edits: Annotated[int | None, typer.Option(help="Edits in such a word.", rich_help_panel=NOISE)] = None,
    em_by: Annotated[
        str | None, typer.Option(help="source, loso or target: whose dev set decides.", rich_help_panel=EM)
    ] = None,
    em_target_dev: Annotated[
        bool, typer.Option("--em-target-dev", help="The same as --em-by target.", rich_help_panel=EM)
    ] = False,
    em_sentences: Annotated[
        int | None, typer.Option(help="Sentences to choose on; 0: no choice.", rich_help_panel=EM)
    ] = None,
) -> None:
    """Train a tagger on source languages. The defaults are the paper's.

    Every option can also stand in a YAML file for --config; the resolved ones are saved as train.yaml beside the model.
    Ctrl-C leaves a checkpoint: `zgul train --output DIR --resume` goes on from it.

    Examples:

    `zgul train --method zgul --group germanic --data DIR`

    `zgul train --method sft-m --group african --data DIR --output out/sft --noise 0.5 --label-set-per-corpus`

    `zgul train --group slavic --data DIR --leave-one-out --limit 2000`

    `zgul train --config out/germanic/train.yaml --set options.combine=max --seed 1 --output out/max`
    """
    from zgul.training import run
    from zgul.training.config import TrainingConfig

    if em_target_dev and em_by not in (None, "target"):
        raise ZgulError(f"--em-target-dev and --em-by {em_by} ask for different things; give one")
    given = {
        "method": method,
        "group": group,
        "task": task,
        "sources": sources,
        "leave_out": leave_out,
        "encoder": encoder,
        "adapters": adapters,
        "extra_adapters": extra_adapters,
        "data": str(data) if data is not None else None,
        "tensorboard": tensorboard,
        "epochs": epochs,
        "lr": lr,
        "batch_size": batch_size,
        "accumulate": accumulate,
        "warmup": warmup,
        "weight_decay": weight_decay,
        "clip": clip,
        "seed": seed,
        "eval_every": eval_every,
        "patience": patience,
        "select": select,
        "max_pieces": max_pieces,
        "limit": limit,
        "decode": decode,
        "precision": precision,
        "device": device,
        "unannotated": unannotated,
        "label_set_per_corpus": label_set_per_corpus,
        "noise.sentences": noise,
        "noise.words": noise_words,
        "noise.edits": noise_edits,
        "em_by": "target" if em_target_dev else em_by,
        "em_sentences": em_sentences,
    }
    if output is None and not leave_one_out:
        if group is None:
            raise ZgulError("say where the tagger goes: --output DIR (only --group has a place by default)")
        output = Path("out") / f"{group}-{method or 'zgul'}"
    begun = run.LEAVE_ONE_OUT if leave_one_out else run.CONFIG
    resumed = output / begun if resume and output is not None else None
    base = config or (resumed if resumed is not None and resumed.is_file() else None)
    values = TrainingConfig.from_yaml(base) if base is not None else {}
    chosen = TrainingConfig.from_dict(_merge(values, given, settings or []))
    how = {"resume": resume, "overwrite": overwrite, "save_encoder": save_encoder, "bits": bits}
    if leave_one_out:
        _leave_one_out(chosen, output, how)
    else:
        assert output is not None
        _train(chosen, output, how)


def _merge(base: dict[str, Any], given: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """File, then options, then --set; dots lead into a group of options."""
    import yaml

    values = {key: dict(value) if isinstance(value, dict) else value for key, value in base.items()}
    told = {name: value for name, value in given.items() if value is not None}
    if "group" in told:  # a group brings its own task and sources
        values = {name: value for name, value in values.items() if name not in ("task", "sources", "leave_out")}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ZgulError(f"--set takes NAME=VALUE, such as options.combine=max, not {setting!r}")
        try:
            told[name.strip()] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ZgulError(f"--set {setting}: the value cannot be read") from error
    for name, value in told.items():
        outer, dot, inner = name.partition(".")
        if not dot:
            values[name] = value
        else:
            group = values.get(outer)
            values[outer] = {**(group if isinstance(group, dict) else {}), inner: value}
    return values


def _train(config: Any, output: Path, how: dict[str, Any]) -> None:
    from zgul.cli.progress import ReportBar
    from zgul.training import run
    from zgul.training.loop import CHECKPOINT

    try:
        with ReportBar() as bar:
            tagger = run.train(config, output, bar, **how)
    except KeyboardInterrupt:
        _stopped(output if (output / CHECKPOINT).is_file() else None, how)
    _summary(tagger, output)


def _stopped(output: Path | None, how: dict[str, Any], more: str = "") -> NoReturn:
    """Say how to go on with what is in the folder, if there is anything."""
    if output is None:
        typer.echo("zgul: stopped before there was anything to keep", err=True)
    else:
        more += " --save-encoder" if how["save_encoder"] else ""
        more += f" --bits {how['bits']}" if how["bits"] != 32 else ""
        again = f"zgul train --output {shlex.quote(str(output))} --resume{more}"
        typer.echo(f"zgul: stopped; nothing is lost. Go on with: {again}", err=True)
    raise typer.Exit(130)


def _summary(tagger: Tagger, output: Path) -> None:
    about = tagger.about
    print(f"{tagger.method.title} ({tagger.task.upper()}), sources {', '.join(tagger.parts.sources)}: {output}")
    print(
        f"F1 on the sources' dev sets: {about['dev_f1']:.1f} ({about['steps']} steps, {about['seconds']:.0f} seconds)"
    )
    if "em" in about:
        print(f"EM settings by {about['em']['by']}:")
        for target, facts in about["em"]["targets"].items():
            em = tagger.em[target]
            print(
                f"  {target or 'other languages'}: {em.steps} steps, rate {em.lr:g}, on {', '.join(facts['on'])} "
                f"(F1 {facts['f1']:.1f}, without EM {facts['f1_without_em']:.1f})"
            )
    print(f"Next: zgul evaluate --model {shlex.quote(str(output))} --lang LANG --data DIR")


def _leave_one_out(config: Any, output: Path | None, how: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from zgul.cli.progress import ReportBar
    from zgul.languages import find
    from zgul.tensors import write_json
    from zgul.training import run

    try:
        with ReportBar() as bar:
            result = run.leave_one_out(config, output, bar, **how)
    except KeyboardInterrupt:
        if output is None:
            raise
        _stopped(output if (output / run.LEAVE_ONE_OUT).is_file() else None, how, " --leave-one-out")
    if output is not None:
        write_json(output / "leave_one_out.json", result)
    strategies = list(next(iter(result.values())))
    table = Table(title="Leave one source out: F1 on its dev set, as an unseen language", title_justify="left")
    table.add_column("left out")
    for strategy in strategies:
        table.add_column(strategy, justify="right")
    for language, f1 in result.items():
        table.add_row(str(find(language)), *(f"{f1[strategy]:.1f}" for strategy in strategies))
    table.add_section()
    means = [sum(f1[strategy] for f1 in result.values()) / len(result) for strategy in strategies]
    table.add_row("mean", *(f"{mean:.1f}" for mean in means))
    Console(highlight=False).print(table)

"""``zgul adapter train``: a language adapter from raw text."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.cli.progress_bars import ProgressBars
from zgul.cli.shared_options import Device
from zgul.languages import find
from zgul.training.adapter_training import AdapterConfig, train_adapter_files

app = new_app("Train language adapters from raw text.")


@app.callback()
def _group() -> None:
    pass


@app.command("train")
@with_options(AdapterConfig, skip=("mix",))
def train(
    given: dict[str, Any],
    lang: Annotated[str, typer.Option("--lang", "-l", help="Language of the text, by code or name.")],
    text: Annotated[list[Path], typer.Option(help="Text, a sentence or paragraph a line (also .xz, .gz).")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="More text.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder; adapters of several languages can share it [default: adapters; with --full encoder-LANG].",
        ),
    ] = None,
    encoder: Annotated[str, typer.Option(help="embedded, a folder or a hub name.")] = "embedded",
    head: Annotated[
        Path | None,
        typer.Option(help="Masked-LM head; made there if it is missing [default: OUTPUT/head.safetensors]."),
    ] = None,
    adapterhub: Annotated[bool, typer.Option("--adapterhub", help="Also write AdapterHub's form.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the adapter that is there.")] = False,
    device: Device = "auto",
) -> None:
    """Train one language's adapter by masked language modelling on a frozen encoder (MAD-X).

    Every 40th line is held out. On these lines masked accuracy and perplexity are printed: with the adapter, with
    those of other languages that are in the folder already, and with none. The masked-LM head is trained first and
    kept beside the adapter; adapters that are to be mixed need the same one. With --full the encoder itself is
    trained (the paper's mBERT^tgt) and saved as a folder for --encoder.

    Examples:

    `zgul adapter train --lang is --text icelandic.txt`

    `zgul adapter train --lang fo --text a.txt.xz b.txt --output mine --head adapters/head.safetensors`

    `zgul adapter train --lang fo --text fo.txt --full --output encoder-fo`
    """
    config = AdapterConfig.from_dict(given)
    folder = output or Path(f"encoder-{find(lang).code}" if config.full else "adapters")
    with ProgressBars() as bars:
        result = train_adapter_files(
            lang,
            [*text, *(more or [])],
            folder,
            config,
            encoder=encoder,
            head=head,
            adapterhub=adapterhub,
            overwrite=overwrite,
            device=device,
            report=bars,
        )
    _show(result.scores)
    option = "--encoder" if config.full else "--adapters"
    print(f"Saved in {folder}. Next: zgul train {option} {shlex.quote(str(folder))} …")


def _show(scores: dict[str, tuple[float, float]]) -> None:
    table = Table(title="Held-out text", title_justify="left")
    table.add_column("adapter" if "none" in scores else "encoder")
    table.add_column("masked accuracy", justify="right")
    table.add_column("perplexity", justify="right")
    for name, (accuracy, perplexity) in scores.items():
        table.add_row(name, f"{accuracy:.1f}", f"{perplexity:,.1f}")
    Console(highlight=False).print(table)

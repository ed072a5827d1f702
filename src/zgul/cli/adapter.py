"""``zgul adapter train``: a language adapter from raw text."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zgul.cli import app
from zgul.errors import ZgulError

if TYPE_CHECKING:
    from zgul.adapters.bank import LanguageAdapter
    from zgul.encoders import Encoder

adapter_app = typer.Typer(
    no_args_is_help=True,
    help="Train language adapters from raw text.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)
app.add_typer(adapter_app, name="adapter")


@adapter_app.callback()
def _group() -> None:
    pass


@adapter_app.command("train")
def train(
    lang: Annotated[str, typer.Option(help="Language of the text, by code or name.")],
    text: Annotated[list[Path], typer.Option(help="Text, a sentence or paragraph a line (also .xz, .gz).")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="More text.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder; adapters of several languages can share it [default: adapters; with --full encoder-LANG]",
        ),
    ] = None,
    encoder: Annotated[str, typer.Option(help="embedded, a folder or a hub name.")] = "embedded",
    invertible: Annotated[bool, typer.Option("--invertible", help="With MAD-X's block after the embeddings.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Train the whole encoder on the text instead.")] = False,
    head: Annotated[
        Path | None, typer.Option(help="Masked-LM head; made there if absent [default: OUTPUT/head.safetensors]")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of training.")] = 2000,
    head_steps: Annotated[int, typer.Option(min=0, help="Steps for a new head [default: as --steps].")] = 0,
    size: Annotated[int, typer.Option(min=0, help="Bottleneck [default: half the width].")] = 0,
    lr: Annotated[float | None, typer.Option(help="[default: 1e-3; with --full 5e-5]")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="Blocks in a step.")] = 16,
    block: Annotated[int, typer.Option(min=8, help="Pieces in a block.")] = 128,
    seed: Annotated[int, typer.Option(help="Order, masks and start.")] = 0,
    adapterhub: Annotated[bool, typer.Option("--adapterhub", help="Also write AdapterHub's form.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the adapter that is there.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train one language's adapter by masked language modelling on a frozen encoder (MAD-X).

    Every 40th line is held out; on it masked accuracy and perplexity are printed, with the adapter, with those of
    other languages that lie in the folder already, and with none. The masked-LM head is trained first and kept beside
    the adapter; adapters that are to be mixed need the same one. With --full the encoder itself is trained (the
    paper's mBERT^tgt) and saved as a folder for --encoder.

    Examples:

    `zgul adapter train --lang is --text icelandic.txt`

    `zgul adapter train --lang fo --text a.txt.xz b.txt --output mine --head adapters/head.safetensors`

    `zgul adapter train --lang fo --text fo.txt --full --output encoder-fo`
    """
    from zgul import encoders
    from zgul.adapters.mlm import MLMConfig
    from zgul.adapters.storage import save_adapters
    from zgul.adapters.train import AdapterConfig, load_head, read_blocks, save_head, train_adapter
    from zgul.cli.progress import ReportBar
    from zgul.corpora.encode import PieceEncoder
    from zgul.devices import find_device
    from zgul.encoders import Encoder
    from zgul.languages import find

    language = find(lang).code
    output = output or Path(f"encoder-{language}" if full else "adapters")
    made = output / ("config.json" if full else f"{language}.safetensors")
    if made.exists() and not overwrite:
        raise ZgulError(f"{made} is there already; choose another --output, or --overwrite it")
    if full and (invertible or adapterhub or size):
        raise ZgulError("--full trains the encoder, not an adapter: leave out --invertible, --adapterhub and --size")
    files = [*text, *(more or [])]
    if folders := [str(path) for path in files if path.is_dir()]:
        raise ZgulError(f"{', '.join(folders)} is a folder; files are needed here: --text FILE --text FILE")
    if absent := [str(path) for path in files if not path.is_file()]:  # before the seconds that loading takes
        raise ZgulError(f"{', '.join(absent)}: no such file")
    mlm = MLMConfig(steps=steps, blocks=blocks, lr=lr if lr is not None else (5e-5 if full else 1e-3), seed=seed)
    config = AdapterConfig(size=size, invertible=invertible, full=full, block=block, head_steps=head_steps, mlm=mlm)
    model, tokenizer = encoders.load(encoder)
    body = Encoder(model)
    if tokenizer.mask_token_id is None:
        raise ZgulError(f"the tokenizer of {encoder} has no mask, so nothing can be masked")
    pieces = PieceEncoder(tokenizer, body.max_pieces)
    packed = read_blocks(files, pieces, min(block, body.max_pieces))
    head_path = head or output / "head.safetensors"
    known = load_head(head_path, body) if head_path.is_file() else None
    others = [] if full or known is None else _others(output, language, body)
    body.to(find_device(device))
    with ReportBar() as bar:
        result = train_adapter(language, packed, body, pieces, config, head=known, others=others, report=bar)

    output.mkdir(parents=True, exist_ok=True)
    if full:
        model.cpu().save_pretrained(output)
        tokenizer.save_pretrained(output)
    if known is None or full:  # a head that was trained with the encoder belongs to it
        save_head(output / "head.safetensors" if full else head_path, result.head, encoder)
    if result.adapter is not None:
        result.adapter.about = {
            "encoder": encoder,
            "lines": packed.lines,
            "blocks": len(packed.train),
            "steps": steps,
            "seed": seed,
            "scores": {name: {"accuracy": a, "perplexity": p} for name, (a, p) in result.scores.items()},
        }
        save_adapters(made, [result.adapter])
        if adapterhub:
            from zgul.adapters.adapterhub import write_adapter

            write_adapter(result.adapter, output / language, model_type=model.config.model_type, model_name=encoder)
    _show(result.scores, len(packed.held_out))
    place = shlex.quote(str(output))
    print(
        f"Saved in {output}. Next: "
        + (f"zgul train --encoder {place} …" if full else f"zgul train --adapters {place} …")
    )


def _others(folder: Path, language: str, encoder: Encoder) -> list[LanguageAdapter]:
    """The adapters of other languages in a folder that fit the encoder."""
    from zgul.adapters.storage import load_adapters

    found = []
    for path in sorted(folder.glob("*.safetensors")):
        if path.name not in ("head.safetensors", f"{language}.safetensors"):
            found += [other for other in load_adapters(path) if other.language != language]
    return [other for other in found if other.layers[0].down.in_features == encoder.width]


def _show(scores: dict[str, tuple[float, float]], blocks: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Held-out text, {blocks} blocks", title_justify="left")
    table.add_column("adapter" if "none" in scores else "encoder")
    table.add_column("masked accuracy", justify="right")
    table.add_column("perplexity", justify="right")
    for name, (accuracy, perplexity) in scores.items():
        table.add_row(name, f"{accuracy:.1f}", f"{perplexity:,.1f}")
    Console(highlight=False).print(table)

"""``zgul adapter train``: train a language adapter from raw text."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.cli.printing import make_table, new_console, stoppable
from zgul.cli.shared_options import Device, LanguageName
from zgul.languages import find
from zgul.training import distributed
from zgul.training.adapter_training import AdapterConfig, TrainedAdapter, train_adapter_files

app = new_app("Train language adapters from raw text.")
app.callback()(lambda: None)  # so that `train` stays the name of a command
TEXT = "Text file, one sentence or paragraph a line (also .xz, .gz)."
OUTPUT = "Folder; adapters of several languages can share it [default: adapters; with --full: encoder-LANG]."
HEAD = "File of the masked-LM head; it is created if it does not exist [default: OUTPUT/head.safetensors]."


@app.command("train")
@with_options(AdapterConfig, panel="How to train")
def train(
    given: dict[str, Any],
    lang: LanguageName,
    text: Annotated[list[Path], typer.Option(metavar="FILE", help=TEXT)],
    more: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="More text files.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=OUTPUT)] = None,
    encoder: Annotated[str, typer.Option(help="embedded, a folder or a hub name.")] = "embedded",
    head: Annotated[Path | None, typer.Option(help=HEAD)] = None,
    adapterhub: Annotated[bool, typer.Option("--adapterhub", help="Also write AdapterHub's files.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing adapter.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    device: Device = "auto",
) -> None:
    """Train one language's adapter by masked language modelling on a frozen encoder (MAD-X).

    Every 40th line is held out. The command prints masked accuracy and perplexity on these lines: with the adapter,
    with the adapters of other languages in the folder, and without any. The masked-LM head is trained first and stays
    in the folder. Adapters that will be mixed must share one head. With --full the encoder itself is trained (the
    paper's mBERT^tgt) and saved as a folder for --encoder.
    """
    config = AdapterConfig.from_dict(given)
    folder = output or Path(f"encoder-{find(lang).code}" if config.full else "adapters")
    how: dict[str, Any] = {"encoder": encoder, "head": head, "adapterhub": adapterhub, "overwrite": overwrite}
    how |= {"resume": resume, "device": device}
    with distributed.processes(device):
        with stoppable(lambda: list(folder.glob("checkpoint-*"))) as bars:
            result = train_adapter_files(lang, [*text, *(more or [])], folder, config, **how, report=bars)
        _show(result, folder, config)


def _show(result: TrainedAdapter, folder: Path, config: AdapterConfig) -> None:
    headings = ("adapter" if "none" in result.scores else "encoder", "masked accuracy", "perplexity")
    rows = [(name, f"{score:.1f}", f"{perplexity:,.1f}") for name, (score, perplexity) in result.scores.items()]
    new_console().print(make_table(headings, rows, title="Held-out text"))
    option = "--encoder" if config.full else "--adapters"
    print(f"Saved in {folder}. Next: zgul train {option} {shlex.quote(str(folder))} …")

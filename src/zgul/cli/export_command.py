"""``zgul export``: write a tagger in a form that runs without zgul."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

from zgul.cli import new_app
from zgul.cli.shared_options import Adapted, LanguageName, ModelName, Task, machine_option
from zgul.errors import ZgulError
from zgul.tagging.loading import load
from zgul.tagging.onnx_export import export_onnx

app = new_app()
PRECISION = "int8 is small and fast; float32 is exact; auto is int8 for parts of speech on the embedded encoder."


@app.command()
def export(
    lang: LanguageName,
    onnx: Annotated[Path, typer.Option(help="Folder to write: model.onnx, tokenizer.json, labels and an example.")],
    task: Task = None,
    model: ModelName = None,
    adapted: Adapted = True,
    strategy: Annotated[str | None, typer.Option(help="Another way to infer, without EM: see zgul methods.")] = None,
    precision: Annotated[str, machine_option(metavar="auto|float32|int8", help=PRECISION)] = "auto",
) -> None:
    """Write a tagger as ONNX. It needs only onnxruntime and tokenizers, and runs without entropy minimisation."""
    if task == "both":
        raise ZgulError("An ONNX file has one task: --task pos or --task ner.")
    console = Console(stderr=True, highlight=False)
    with console.status("Exporting…"):
        text_tagger = load(lang, cast(Any, task), model=model, adapted=adapted)
        ((name, tagger),) = text_tagger.taggers.items()
        language, served = text_tagger.language.code, text_tagger.served[name].name
        export_onnx(tagger, onnx, language=language, strategy=strategy, name=served, precision=precision)
    size = (onnx / "model.onnx").stat().st_size / 1e6
    console.print(f"{onnx}: model.onnx ({size:,.0f} MB), tokenizer.json, config.json, tag.py, README.md")

"""``zgul export``: a tagger in a form that runs without zgul."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from zgul.cli import app
from zgul.errors import ZgulError, ZgulWarning


@app.command("export")
def export(
    lang: Annotated[str, typer.Option("--lang", "-l", help="Language to be tagged, by code or name.")],
    onnx: Annotated[Path, typer.Option(help="Folder to write: model.onnx, tokenizer.json, labels and an example.")],
    task: Annotated[
        str | None, typer.Option(help="pos or ner [default: what the language's group was made for].")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Another tagger: a shipped one by name, such as slavic-pos, or a folder.")
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="Another way to infer, without EM: see zgul methods.")] = None,
) -> None:
    """Write a tagger as ONNX, to be run with onnxruntime and tokenizers alone. Without entropy minimisation.

    Examples:

    `zgul export --lang fo --task pos --onnx faroese`

    `zgul export --lang luo --model out/african --onnx luo && python luo/tag.py Grace odhi Kisumu`
    """
    from rich.console import Console

    from zgul.tagging import load

    if task == "both":
        raise ZgulError("an ONNX file has one task: --task pos or --task ner")
    console = Console(stderr=True, highlight=False)
    with console.status("Exporting…"):
        text_tagger = load(lang, task, model=model)
        ((name, tagger),) = text_tagger.taggers.items()
        from zgul.tagging.onnx import export_onnx

        export_onnx(
            tagger, onnx, language=text_tagger.language.code, strategy=strategy, name=text_tagger.served[name].name
        )
    em = tagger.em_for(text_tagger.language.code)  # its own steps, not adaptive EM's
    if strategy is None and em is not None and em.steps:
        warnings.warn(
            f"this tagger was tuned with {em.steps} steps of entropy minimisation for {text_tagger.language.name}; "
            "the ONNX file has none, so its tags are those of zgul tag --no-em",
            ZgulWarning,
            stacklevel=2,
        )
    size = (onnx / "model.onnx").stat().st_size / 1e6
    console.print(f"{onnx}: model.onnx ({size:,.0f} MB), tokenizer.json, config.json, tag.py, README.md")

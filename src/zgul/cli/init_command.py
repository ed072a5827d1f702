"""``zgul init``: begin a configuration for a language group of one's own."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from zgul.cli import new_app
from zgul.training.config_file import OWN_ADAPTERS, missing_adapters, starting_config, write_config

app = new_app()
NAMES = "A group (germanic, slavic, african, indo-aryan), or source languages by code or name."
TARGETS = "Unseen languages that the tagger is for, separated by commas."


@app.command("init")
def init(
    names: Annotated[list[str] | None, typer.Argument(metavar="GROUP|LANGUAGE", help=NAMES)] = None,
    targets: Annotated[str, typer.Option("--targets", "-t", help=TARGETS)] = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("my-group.yaml"),
    task: Annotated[str, typer.Option(metavar="pos|ner", help="Task [default: the group's, or pos].")] = "",
    data: Annotated[str, typer.Option(metavar="DIR", help="Data folder with TASK/LANG/train.tsv.")] = "data",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Write a YAML file for a language group of your own, with every option explained, for `zgul train --config`."""
    wanted = [name.strip() for name in targets.split(",") if name.strip()]
    config = starting_config(names or [], targets=wanted, task=task, data=data)
    write_config(config, output, force=force)
    print(f"{output} is ready. Look through it; then:")
    for code in missing_adapters(config.sources):
        print(f"  zgul adapter train --lang {code} --text TEXT.txt --output {OWN_ADAPTERS}    # not shipped")
    print(f"  put labelled sentences into {data}/{config.task}/LANG/train.tsv, for {', '.join(config.sources)}")
    print(f"  zgul train --config {shlex.quote(str(output))} --output out/{output.stem}")

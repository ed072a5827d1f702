"""Options that several commands share, each with one text."""

from typing import Annotated

import typer

from zgul.cli.option_signature import Decorator, with_options
from zgul.ensemble.em import EMConfig

EM_PANEL = "Entropy minimisation"
MACHINE_PANEL = "Machine"


def with_em_options(*names: str) -> Decorator:
    """Add ``--em-NAME`` for these settings of EM. The command receives them in the parameter ``changes``."""
    flags = {name: f"--em-{name}" for name, *_ in EMConfig.declared()}
    skip = flags.keys() - set(names)
    note = "as the tagger was tuned"
    return with_options(EMConfig, skip=skip, flags=flags, into="changes", panel=EM_PANEL, default=note)


LanguageName = Annotated[str, typer.Option("--lang", "-l", help="Language of the text, by code or name.")]
Task = Annotated[
    str | None,
    typer.Option(metavar="pos|ner|both", help="What to tag [default: what the language's group was made for]."),
]
ModelName = Annotated[
    str | None, typer.Option("--model", help="Another tagger: a shipped one by name, such as slavic-pos, or a folder.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto.", rich_help_panel=MACHINE_PANEL)]
Precision = Annotated[
    str,
    typer.Option(
        metavar="float32|bfloat16",
        help="bfloat16 is faster on CPUs and GPUs that have it, for nearly the same tags.",
        rich_help_panel=MACHINE_PANEL,
    ),
]
EM = Annotated[
    bool | None,
    typer.Option(
        "--em/--no-em",
        help="Switch entropy minimisation on or off [default: as the tagger was tuned].",
        rich_help_panel=EM_PANEL,
    ),
]
Adaptive = Annotated[
    bool | None,
    typer.Option(
        "--adaptive/--full-em",
        help="EM at a fraction of its work, or as in the paper [default: adaptive, unless its settings are given].",
        rich_help_panel=EM_PANEL,
    ),
]

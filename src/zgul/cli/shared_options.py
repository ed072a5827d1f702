"""Options that several commands share, each with one text."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from zgul.ensemble.em import EMConfig

EM_PANEL = "Entropy minimisation"
MACHINE_PANEL = "Machine"


def _em_option(name: str) -> Any:
    """An option for a setting of EM, with the text of its declaration."""
    declared = {option: about for option, about, _ in EMConfig.declared()}[name]
    return typer.Option(
        f"--em-{name}",
        help=f"{declared.help} [default: as the tagger was tuned]",
        metavar="|".join(declared.choices) or None,
        rich_help_panel=EM_PANEL,
    )


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
EMSteps = Annotated[int | None, _em_option("steps")]
EMRate = Annotated[float | None, _em_option("lr")]
EMStart = Annotated[str | None, _em_option("start")]
EMPositions = Annotated[str | None, _em_option("positions")]
Adaptive = Annotated[
    bool | None,
    typer.Option(
        "--adaptive/--full-em",
        help="EM at a fraction of its work, or as in the paper [default: adaptive, unless its settings are given].",
        rich_help_panel=EM_PANEL,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]

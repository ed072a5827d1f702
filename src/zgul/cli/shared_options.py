"""Options that several commands share, each with one help text."""

from functools import partial
from typing import Annotated

import typer

from zgul.cli.option_signature import Decorator, with_options
from zgul.ensemble.em import EMConfig

EM_PANEL = "Entropy minimisation"
TUNED = "as the tagger was tuned"
TASK = "What to tag [default: the task of the language's group]."
EM_HELP = f"Entropy minimisation (EM): fit the mix of source languages to each sentence [default: {TUNED}]."
ADAPTIVE = "Run EM at a fraction of its cost, or as in the paper [default: adaptive, unless EM settings are given]."
ADAPTED = "Use what the tagger learnt from raw text of the language itself; --no-adapted is zero-shot."
MARKS = "Leave stress, length and tone marks out of sentences that are full of them [default: as the tagger is]."
PRECISION = "bfloat16 and int8 (CPUs) are faster, with nearly the same tags; auto is int8 where that keeps F1."
em_option = partial(typer.Option, rich_help_panel=EM_PANEL)
machine_option = partial(typer.Option, rich_help_panel="Machine")


def with_em_options(*names: str) -> Decorator:
    """Add ``--em-NAME`` for these settings of EM. The command receives them in the parameter ``changes``."""
    flags = {name: f"--em-{name}" for name, *_ in EMConfig.declared()}
    skip = flags.keys() - set(names)
    return with_options(EMConfig, skip=skip, flags=flags, into="changes", panel=EM_PANEL, default=TUNED)


LanguageName = Annotated[str, typer.Option("--lang", "-l", help="Language of the text, by code or name.")]
Task = Annotated[str | None, typer.Option(metavar="pos|ner", help=TASK)]
TaskOrBoth = Annotated[str | None, typer.Option(metavar="pos|ner|both", help=TASK)]
ModelName = Annotated[
    str | None, typer.Option("--model", help="Another tagger: a shipped one by name, such as slavic-pos, or a folder.")
]
Adapted = Annotated[bool, typer.Option("--adapted/--no-adapted", help=ADAPTED)]
StripMarks = Annotated[bool | None, typer.Option("--strip-marks/--keep-marks", help=MARKS)]
Device = Annotated[str, machine_option(metavar="cpu|cuda|mps|auto", help="Where to compute; mps is for Macs.")]
Precision = Annotated[str, machine_option(metavar="auto|float32|bfloat16|int8", help=PRECISION)]
EM = Annotated[bool | None, em_option("--em/--no-em", help=EM_HELP)]
Adaptive = Annotated[bool | None, em_option("--adaptive/--full-em", help=ADAPTIVE)]

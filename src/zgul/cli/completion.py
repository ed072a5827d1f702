"""What the tab key offers, without loading a command: most commands import torch, which takes seconds.

``completions.json`` lists the options of every command with what each takes: nothing, any text, some fixed words, or
one of the named sets of values, such as the languages. `scripts/build_completions.py` writes it from the commands.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

Values = Mapping[str, str]  # with what each means
FILE = Path(__file__).with_name("completions.json")


@cache
def load_completions() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text("utf-8")))


def light_command(name: str, new_app: Callable[..., typer.Typer]) -> Any:
    """A command that has all options and does nothing. None if the table has no such command."""
    commands: dict[str, Any] = load_completions()["commands"]
    if name in commands:
        app = new_app()
        app.command()(_function(commands[name]))
        return typer.main.get_command(app)
    inner = {full.removeprefix(f"{name} "): about for full, about in commands.items() if full.startswith(f"{name} ")}
    group = new_app("")
    group.callback()(lambda: None)
    for own, about in inner.items():
        group.command(own, help=about["help"])(_function(about))
    return typer.main.get_command(group) if inner else None


def _function(about: dict[str, Any]) -> Callable[..., None]:
    """A function with the parameters of a command."""

    def nothing(**_: object) -> None:
        pass

    parameters = []
    for number, (flags, help_text, takes) in enumerate(about["options"]):
        kind: Any = bool if takes is None else list[str]  # a list: an option may be given twice
        option = typer.Option(*flags, help=help_text, autocompletion=None if takes is None else _offer(takes))
        parameters.append((f"option{number}", Annotated[kind | None, option]))
    argument = typer.Argument(autocompletion=_offer(about["takes"]))
    parameters.append(("words", Annotated[list[str] | None, argument]))
    keyword = inspect.Parameter.KEYWORD_ONLY
    made = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in parameters]
    nothing.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    nothing.__annotations__ = dict(parameters)
    return nothing


def _offer(takes: str | list[str]) -> Callable[[str], list[tuple[str, str]]]:
    """What completes a value. Several values are separated by commas; the last one is completed."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        values: Values = load_completions()["values"].get(takes, {}) if isinstance(takes, str) else {}
        if isinstance(takes, list):
            values = dict.fromkeys(takes, "")
        before, comma, last = incomplete.rpartition(",")
        return [(f"{before}{comma}{value}", meaning) for value, meaning in values.items() if value.startswith(last)]

    return complete

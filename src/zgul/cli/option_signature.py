"""Command-line options generated from `zgul.options.Options` classes.

The decorator gives a command one option for each declared field. The command receives the values that the user gave,
as a nested dictionary that `Options.from_dict` reads:

    @app.command("train")
    @with_options(TrainingConfig)
    def train(given: dict[str, Any], output: Path) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from zgul.options import Declared, Options


def with_options(
    cls: type[Options], *, skip: Collection[str] = (), flags: Mapping[str, str] | None = None, into: str = "given"
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option for every field of ``cls`` and its groups, except those in ``skip``.

    The command receives the values that the user gave in the parameter ``into``.

    ``noise.words`` becomes ``--noise-words``; ``flags`` gives other names: ``{"noise.sentences": "--noise"}``.
    """
    named = flags or {}
    declared = [entry for entry in _declared(cls) if entry[0] not in skip]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        added = [_parameter(name, about, default, named.get(name)) for name, about, default in declared]

        @wraps(command)
        def called(**values: Any) -> None:
            given: dict[str, Any] = {}
            for (name, _, _), parameter in zip(declared, added, strict=True):
                if (value := values.pop(parameter.name)) is not None:
                    _put(given, name, value)
            command(**values, **{into: given})

        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, one in own.items() if name != into]
        required = [parameter for parameter in keywords if parameter.default is inspect.Parameter.empty]
        parameters = [*required, *added, *(parameter for parameter in keywords if parameter not in required)]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del called.__wrapped__
        return called

    return decorate


def _declared(cls: type[Options], prefix: str = "") -> Iterator[tuple[str, Declared, Any]]:
    for name, about, default in cls.declared():
        yield prefix + name, about, default
    for name, group in cls.option_groups().items():
        yield from _declared(group, f"{prefix}{name}.")


def _parameter(name: str, about: Declared, default: Any, flag: str | None) -> inspect.Parameter:
    """The parameter of one option. Its default is None, so that the command knows what the user gave."""
    flag = flag or "--" + name.replace(".", "-").replace("_", "-")
    kind: Any = str if isinstance(default, tuple) else type(default)
    if kind is bool and default:
        flag += f"/--no-{flag.removeprefix('--')}"
    annotation = Annotated[
        kind | None,
        typer.Option(
            flag,
            help=f"{about.help}{_note(about, default)}",
            rich_help_panel=about.panel or None,
            metavar=about.metavar or ("|".join(about.choices) or None),
            show_default=False,
        ),
    ]
    return inspect.Parameter(
        flag.split("/")[0].removeprefix("--").replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=annotation,
    )


def _note(about: Declared, default: Any) -> str:
    """The default, unless the help text names it itself or there is none."""
    if "[default" in about.help or default in ("", (), False):
        return ""
    text = ",".join(map(str, default)) if isinstance(default, tuple) else default
    return f" [default: {text:g}]" if isinstance(default, float) else f" [default: {text}]"


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    """Set a value by its dotted name."""
    *groups, last = name.split(".")
    for group in groups:
        values = values.setdefault(group, {})
    values[last] = value

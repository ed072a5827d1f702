"""Command-line options generated from `zgul.options.Options` classes.

The decorator gives a command one option for each declared field. The command receives the values that the user gave,
as a nested dictionary that `Options.from_dict` reads:

    @app.command("train")
    @with_options(TrainingConfig)
    def train(given: dict[str, Any], output: Path) -> None: ...
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import reduce, wraps
from typing import Annotated, Any

import typer

from zgul.options import Declared, Options

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def with_options(
    cls: type[Options],
    *,
    skip: Collection[str] = (),
    flags: Mapping[str, str] | None = None,
    into: str = "given",
    panel: str = "",
    default: str = "",
) -> Decorator:
    """Add an option for every field of ``cls`` and its groups, except those in ``skip``.

    The command receives the values that the user gave in the parameter ``into``.

    ``noise.words`` becomes ``--noise-words``; ``flags`` gives other names: ``{"noise.sentences": "--noise"}``.
    ``panel`` and ``default`` replace the panel and the default that the declaration gives for the help page.
    """
    parameters = {
        name: _parameter((flags or {}).get(name, name), about, about.describe(value, default), value, panel)
        for name, about, value in _declared(cls)
        if name not in skip
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**values: Any) -> None:
            given: dict[str, Any] = {}
            for name, parameter in parameters.items():
                if (value := values.pop(parameter.name)) is not None:
                    *groups, last = name.split(".")
                    reduce(lambda inner, group: inner.setdefault(group, {}), groups, given)[last] = value
            command(**values, **{into: given})

        own = inspect.signature(command, eval_str=True).parameters
        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, one in own.items() if name != into]
        required = [parameter for parameter in keywords if parameter.default is inspect.Parameter.empty]
        others = [parameter for parameter in keywords if parameter not in required]
        signature = inspect.Signature([*required, *parameters.values(), *others])
        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        del called.__wrapped__
        return called

    return decorate


def _declared(cls: type[Options], prefix: str = "") -> Iterator[tuple[str, Declared, Any]]:
    for name, about, default in cls.declared():
        yield prefix + name, about, default
    for name, group in cls.option_groups().items():
        yield from _declared(group, f"{prefix}{name}.")


def _parameter(name: str, about: Declared, help_text: str, default: Any, panel: str) -> inspect.Parameter:
    """The parameter of one option. Its default is None, so that the command knows what the user gave."""
    name = name.replace(".", "_").replace("-", "_").strip("_")
    flag = name.replace("_", "-")
    kind: Any = str if isinstance(default, tuple) else type(default)
    option = typer.Option(
        f"--{flag}/--no-{flag}" if default is True else f"--{flag}",
        help=help_text,
        rich_help_panel=panel or about.panel or None,
        metavar=about.metavar or ("|".join(about.choices) or None),
        show_default=False,
    )
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

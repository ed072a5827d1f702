"""Options of the library: dataclasses whose fields carry their own help text and limits.

An option is declared once. The command line, YAML files, the checks and the documentation all read the declaration:

    @dataclass(frozen=True)
    class NoiseConfig(Options):
        sentences: float = option(0.0, "Share of the sentences that get spelling noise.", least=0, most=1)

    NoiseConfig.from_dict({"sentences": "0.5"})
"""

import contextlib
import difflib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any, Self

import yaml

from zgul.errors import ZgulError
from zgul.files import MAX_DEPTH, check_plain, create_binary, open_binary

MAX_YAML = 30_000  # bytes; PyYAML takes a second for as many
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list"}
_LIMITS = {"least": ("at least", ge), "above": ("above", gt), "most": ("at most", le), "below": ("below", lt)}


@dataclass(frozen=True)
class Declared:
    """What `option` declares about a field, besides its name and default."""

    help: str
    choices: Collection[str]
    panel: str  # heading on the help page
    metavar: str
    limits: dict[str, float]  # by their names in _LIMITS

    def describe(self, default: Any, instead: str = "") -> str:
        """The help text with the default, or what stands ``instead`` of it, unless the text names it already."""
        if "[default" in self.help or (not instead and (default is False or default in ("", ()))):
            return self.help
        plain = f"{default:g}" if isinstance(default, float) else "yes" if default is True else str(default)
        listed = ", ".join(map(str, default)) if isinstance(default, tuple) else plain
        return f"{self.help} [default: {instead or listed}]"

    def check(self, name: str, value: Any) -> None:
        """Raise if the value, or one of several, is not allowed."""
        if isinstance(value, tuple):
            for one in value:
                self.check(name, one)
            return
        if self.choices and value not in self.choices:
            raise ZgulError(f"{name} is one of {', '.join(self.choices)}, not {value!r}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        limits = [(*_LIMITS[key], limit) for key, limit in self.limits.items()]
        if not abs(value) < math.inf or not all(fits(value, limit) for _, fits, limit in limits):
            allowed = " and ".join(f"{words} {limit}" for words, _, limit in limits) or "finite"
            raise ZgulError(f"{name} must be {allowed}, not {value}")


def option(
    default: Any, help: str, *, choices: Collection[str] = (), panel: str = "", metavar: str = "", **limits: float
) -> Any:
    """Declare a field of an `Options` class. ``limits`` are ``least``, ``above``, ``most`` and ``below``."""
    given: Any = {"default_factory": type(default)} if isinstance(default, Options) else {"default": default}
    return field(**given, metadata={"declared": Declared(help, choices, panel, metavar, limits)})


@dataclass(frozen=True)
class Options:
    """Base of all option groups. A group may contain other groups."""

    def __post_init__(self) -> None:
        for name, declared, _ in self.declared():
            declared.check(name, getattr(self, name))

    @classmethod
    def declared(cls) -> Iterator[tuple[str, Declared, Any]]:
        """Name, declaration and default of every option that is not itself a group."""
        defaults = _defaults(cls)
        for item in fields(cls):
            if not isinstance(defaults[item.name], Options):
                yield item.name, item.metadata["declared"], defaults[item.name]

    @classmethod
    def option_groups(cls) -> dict[str, type["Options"]]:
        """The option groups inside this one, by the name of their field."""
        return {name: type(value) for name, value in _defaults(cls).items() if isinstance(value, Options)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], prefix: str = "") -> Self:
        """Build the options from plain values, as YAML or the command line gives them. Text is converted."""
        defaults = _defaults(cls)
        for name in (name for name in values if name not in defaults):
            known = [prefix + other for other in defaults]
            close = difflib.get_close_matches(f"{prefix}{name}", known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known options: {', '.join(known)}."
            raise ZgulError(f"There is no option '{prefix}{name}'. {hint}")
        chosen = {name: _convert(defaults[name], value, prefix + name) for name, value in values.items()}
        for name, declared, _ in cls.declared():
            declared.check(prefix + name, chosen.get(name, defaults[name]))
        return cls(**chosen)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back and JSON and YAML can hold."""
        return dict(json.loads(json.dumps(asdict(self))))  # tuples become lists

    def save(self, path: Path) -> None:
        values = self.to_dict()
        plain = json.dumps(values, ensure_ascii=False).isprintable()  # PyYAML writes U+0085 so that it reads a space
        with create_binary(path) as file:
            yaml.safe_dump(values, file, sort_keys=False, allow_unicode=plain, encoding="utf-8")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that maps option names to values."""
    try:
        with open_binary(path) as file:
            content = file.read(MAX_YAML + 1)
        if len(content) > MAX_YAML:
            raise ZgulError(f"{path} is larger than {MAX_YAML:,} bytes, the limit for options.")
        values = yaml.load(content, Loader=_PlainLoader)
        check_plain(values, (), path)
    except ZgulError:
        raise
    except Exception as error:  # PyYAML raises errors of all kinds for values that do not fit their tag
        raise ZgulError(f"{path} is not valid YAML: {' '.join(str(error).split()) or 'nested too deeply'}") from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ZgulError(f"{path} must map option names to values, one 'name: value' a line")
    return values


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """A YAML loader without aliases and deep brackets: in a small file they take gigabytes and seconds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.flow_level > MAX_DEPTH:
            raise RecursionError
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not supported")
        return super().compose_node(parent, index)


def _defaults(cls: type[Options]) -> dict[str, Any]:
    made = {item.name: item.default_factory() for item in fields(cls) if callable(item.default_factory)}
    return {item.name: made.get(item.name, item.default) for item in fields(cls)}


def _convert(default: Any, value: Any, name: str) -> Any:
    """Convert a value to the type of the default. YAML reads 1e-4 as text, and lists may be written with commas."""
    kind = type(default)
    if isinstance(default, Options):
        if isinstance(value, Mapping):
            return default.from_dict(value, f"{name}.")
        if not isinstance(value, Options):
            raise ZgulError(f"{name} is a group of options, such as {name}.{next(default.declared())[0]}")
        return value
    if kind is tuple and isinstance(value, str | list | tuple):
        items = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        return tuple(_convert(default[0], item, name) if default else str(item) for item in items)
    if type(value) is kind:
        return value
    if kind in (int, float) and isinstance(value, int | float | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            number = kind(value)
            if isinstance(value, str) or number == value:  # 1.5 is not a whole number
                return number
    raise ZgulError(f"{name} must be {_KINDS[kind]}, not {value!r}")

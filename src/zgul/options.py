"""Options of the library: dataclasses whose fields carry their own help text and limits.

An option is declared once. The command line, YAML files, the checks and the documentation all read the declaration:

    @dataclass(frozen=True)
    class NoiseConfig(Options):
        sentences: float = option(0.0, "Share of the sentences that get spelling noise.", least=0, most=1)

    NoiseConfig.from_dict({"sentences": "0.5"})
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from zgul.errors import ZgulError
from zgul.files import atomic_write

_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list"}


@dataclass(frozen=True)
class Declared:
    """What `option` says about a field, beside its name and default."""

    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    panel: str = ""  # heading on the help page
    metavar: str = ""

    def check(self, name: str, value: Any) -> None:
        """Raise if the value is not allowed."""
        if self.choices and value not in self.choices:
            raise ZgulError(f"{name} is one of {', '.join(self.choices)}, not {value!r}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        fits = (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )
        if not math.isfinite(value) or not fits:
            raise ZgulError(f"{name} must be {self.allowed()}, not {value}")

    def allowed(self) -> str:
        """The limits in words."""
        limits = {"at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
        return " and ".join(f"{words} {limit:g}" for words, limit in limits.items() if limit is not None) or "finite"


def option(default: Any, help: str, **limits: Any) -> Any:
    """Declare a field of an `Options` class. ``limits`` are the fields of `Declared`."""
    declared = {"declared": Declared(help, **limits)}
    if is_dataclass(default):
        return field(default_factory=type(default), metadata=declared)
    return field(default=default, metadata=declared)


@dataclass(frozen=True)
class Options:
    """Base of all option groups. A group may contain other groups."""

    def __post_init__(self) -> None:
        self.check()

    def check(self, prefix: str = "") -> None:
        """Raise `ZgulError` for the first value outside its limits."""
        for name, declared, _ in self.declared():
            declared.check(prefix + name, getattr(self, name))

    @classmethod
    def declared(cls) -> Iterator[tuple[str, Declared, Any]]:
        """Name, declaration and default of every option that is not itself a group."""
        defaults = _defaults(cls)
        for item in fields(cls):
            if not isinstance(defaults[item.name], Options):
                yield item.name, item.metadata["declared"], defaults[item.name]

    @classmethod
    def option_groups(cls) -> dict[str, type[Options]]:
        """The option groups inside this one, by the name of their field."""
        return {name: type(value) for name, value in _defaults(cls).items() if isinstance(value, Options)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], prefix: str = "") -> Self:
        """Build the options from plain values, as YAML or the command line gives them.

        Unknown names raise an error that suggests the nearest known one. Text is converted to the option's type.
        """
        defaults = _defaults(cls)
        declared = {name: about for name, about, _ in cls.declared()}
        chosen: dict[str, Any] = {}
        for name, value in values.items():
            if name not in defaults:
                raise _unknown(prefix + str(name), [prefix + known for known in defaults])
            default = defaults[name]
            if isinstance(default, Options):
                if isinstance(value, Options):
                    chosen[name] = value
                elif isinstance(value, Mapping):
                    chosen[name] = type(default).from_dict(value, f"{prefix}{name}.")
                else:
                    first = next(iter(type(default).declared()))[0]
                    raise ZgulError(f"{prefix}{name} is a group of options, such as {prefix}{name}.{first}")
            else:
                chosen[name] = _convert(default, value, prefix + name)
                declared[name].check(prefix + name, chosen[name])
        return cls(**chosen)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back and JSON and YAML can hold."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def save(self, path: Path) -> None:
        """Write the options as a YAML file."""
        try:
            with atomic_write(path) as file:
                yaml.safe_dump(self.to_dict(), file, sort_keys=False, allow_unicode=True)
        except OSError as error:
            raise ZgulError(f"{path} cannot be written ({error.strerror or error}). Choose another folder.") from error


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that maps option names to values."""
    try:
        text = path.read_text(encoding="utf-8")
        values = yaml.load(text, Loader=_PlainLoader)
    except FileNotFoundError:
        raise ZgulError(f"{path}: no such file") from None
    except OSError as error:
        raise ZgulError(f"{path} cannot be read ({error.strerror}). It must be a YAML file with options.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ZgulError(f"{path} is not valid YAML: {reason}") from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ZgulError(f"{path} must map option names to values, one 'name: value' a line")
    return values


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """A YAML loader without aliases: nested aliases turn a small file into gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not supported")
        return super().compose_node(parent, index)


def _defaults(cls: type[Options]) -> dict[str, Any]:
    return {
        item.name: item.default_factory() if callable(item.default_factory) else item.default for item in fields(cls)
    }


def _unknown(name: str, known: list[str]) -> ZgulError:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known options: {', '.join(known)}."
    return ZgulError(f"There is no option {name!r}. {hint}")


def _convert(default: Any, value: Any, name: str) -> Any:
    """The value in the type of the option's default. YAML reads 1e-4 as text, and lists may be written with commas."""
    kind = type(default)
    if kind is tuple:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, list | tuple):
            return tuple(_element(default, item, name) for item in value)
    elif kind in (int, float):
        return _number(kind, value, name)
    elif isinstance(value, kind):
        return value
    raise ZgulError(f"{name} must be {_KINDS[kind]}, not {value!r}")


def _element(default: tuple[Any, ...], value: Any, name: str) -> Any:
    """An element of a list option, in the type of the default's elements; text if the default is empty."""
    if isinstance(value, list | tuple):
        return tuple(value)
    kind = type(default[0]) if default else str
    return _number(kind, value, name) if kind in (int, float) else str(value)


def _number(kind: type[int] | type[float], value: Any, name: str) -> int | float:
    whole = not isinstance(value, float) or value.is_integer()
    if not isinstance(value, bool) and isinstance(value, int | float | str) and (kind is float or whole):
        try:
            return kind(value)
        except (ValueError, OverflowError):
            pass
    raise ZgulError(f"{name} must be {_KINDS[kind]}, not {value!r}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value

"""The ``config.json`` of a saved tagger: it is not believed before every key is found to be of its kind."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from zgul import __version__
from zgul.errors import ZgulError

FORMAT = 1
BANKS = ("inside", "shipped", "none")
T = TypeVar("T")

_KEYS: dict[str, type] = {
    "task": str,
    "method": str,
    "strategy": str,
    "sources": list,
    "labels": list,
    "options": dict,
    "encoder": dict,
    "bank": str,
    "folded": bool,
    "em": dict,
    "features": dict,
    "about": dict,
}
_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def check_config(config: dict[str, Any], folder: Path) -> None:
    """Refuse what this version cannot read, and name what is missing or wrong."""
    if config.get("format") != FORMAT:
        raise ZgulError(
            f"{folder} was saved in format {config.get('format')!r} by zgul {config.get('zgul', '?')}; this is zgul "
            f"{__version__}, which reads format {FORMAT}. Save it again with this version."
        )
    if missing := set(_KEYS) - set(config):
        raise ZgulError(f"{folder}/config.json lacks {', '.join(sorted(missing))}")
    for key, kind in _KEYS.items():
        _check(config[key], kind, key, folder)
    for key in ("sources", "labels"):
        for value in config[key]:
            _check(value, str, f"one of {key}", folder)
    for key, kind in {"name": str, "width": int, "depth": int}.items():
        _check(config["encoder"].get(key), kind, f"encoder.{key}", folder)
    for code, vector in config["features"].items():
        _check(vector, list, f"features.{code}", folder)
        for value in vector:
            _check(value, float, f"one of features.{code}", folder)
    if config["bank"] not in BANKS:
        raise ZgulError(f"{folder}/config.json is damaged: bank is {config['bank']!r}, not one of {', '.join(BANKS)}")


def settings(kind: type[T], values: object, key: str, folder: Path) -> T:
    """Stored settings; one that this version does not know, or that is of another kind, is named."""
    _check(values, dict, key, folder)
    assert isinstance(values, dict)
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(values) - known):
        raise ZgulError(
            f"{folder}/config.json has settings that zgul {__version__} does not know: {', '.join(unknown)}; "
            "use the version it was made with"
        )
    kinds = get_type_hints(kind)
    for name, value in values.items():  # what is no plain type is a choice of texts
        _check(value, kinds[name] if kinds[name] in _NAMES else str, f"{key}.{name}", folder)
    return kind(**values)


def _check(value: object, kind: type, key: str, folder: Path) -> None:
    of_kind = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not of_kind or (isinstance(value, bool) and kind is not bool):
        told = repr(value)
        told = told if len(told) <= 40 else told[:40] + "…"
        raise ZgulError(f"{folder}/config.json is damaged: {key} is {told}, not {_NAMES[kind]}; save the tagger again")

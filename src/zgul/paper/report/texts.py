"""Words of the report. Captions, rules and departures stand in ``texts.txt``, apart from the code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_FILE = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
_TEXTS: dict[str, str] = dict(re.findall(r"^\[(.+)\]\n(.+)$", _FILE, flags=re.M))


def text(name: str, **values: object) -> str:
    """The text of this name with its {names} filled in."""
    return _TEXTS[name].format(**{"beside": _TEXTS["beside"], **values})


def group_title(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def listed(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))

"""The prose of the report, by name. It stands in ``texts.txt`` so that code and wording can change separately."""

from __future__ import annotations

import re
from pathlib import Path

_FILE = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
_TEXTS: dict[str, str] = {
    name: text.strip() for name, text in re.findall(r"^\[(.+)\]\n((?:(?!\[).*\n)*)", _FILE, flags=re.M)
}


def text(name: str, **values: object) -> str:
    """The text of this name with its {names} filled in."""
    return _TEXTS[name].format(**{"beside": _TEXTS["beside"], **values})

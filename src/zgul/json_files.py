"""Read and write JSON files. What is read may come from anybody, so its size, depth and numbers have limits."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from zgul.errors import ZgulError
from zgul.files import atomic_write

MAX_BYTES = 1_000_000  # Python's objects take up to thirty times as much memory
MAX_DEPTH = 50
MAX_DIGITS = 30  # of a whole number


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read a JSON object. Anything else raises a `ZgulError` that says what is wrong and where."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise ZgulError(f"{path} is larger than {max_bytes:,} bytes, the limit for this kind of file.")
        value = json.loads(content.decode("utf-8-sig"), parse_int=_parse_int)
        _check(value, (), path)
    except OSError as error:  # no such file, a folder of that name, no permission
        raise ZgulError(f"{path} cannot be read ({error.strerror or error}).") from error
    except RecursionError:
        raise ZgulError(f"{path} is nested too deeply; at most {MAX_DEPTH} levels are allowed.") from None
    except ValueError as error:
        raise ZgulError(f"{path} is not valid JSON ({error}).") from error
    if not isinstance(value, dict):
        raise ZgulError(f"{path} must contain a JSON object.")
    return value


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically."""
    with atomic_write(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def _parse_int(digits: str) -> int | Decimal:
    """Mark a long number as a `Decimal`, so that `_check` can name its field. ``int`` refuses 4,300 digits."""
    return int(digits) if len(digits) <= MAX_DIGITS else Decimal(digits)


def _check(value: object, field: tuple[object, ...], path: Path) -> None:
    """Refuse long numbers and deep nesting. ``field`` leads to the value: ``("files", "nd")``."""
    if len(field) > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, Decimal):
        name = ".".join(map(str, field)) or "the number"
        raise ZgulError(f"{path}: {name} has {len(str(value)):,} digits, but at most {MAX_DIGITS} are allowed.")
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _check(item, (*field, key), path)

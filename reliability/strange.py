"""Strange values and damage, drawn from a seeded generator: characters of all of Unicode, damaged bytes and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

LAST = 0x10FFFF
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßéèøåþðæñABCDEFGHIJ"
# What segmenters and formats treat in a way of its own.
SPECIAL = (
    "\t\n\r\x0b\x0c\x1c\x85\xa0\u1680\u2003\u2028\u2029\u202f\u3000\u200b\u200c\u200d\u2060\ufeff\xad\x00\x01\x1b\x7f"
    "\U0001f1e9\U0001f1ea\U0001f468\u200d\U0001f469\U0001f3fd\ufe0f\u20e3\u0301\u0308\u0e33\u0903\u1100\u1161\u11a8\uac00"
    ".!?…।።؟։。,;:'’\"“”«»()[]{}<>-–—_*=#@/\\|&%+~`$0123456789٠१𝟎"
    "中あアกကភ\U00020000\ue000\U000f0000\ufffd\ufffe\uffff"
)
SCRAPS = (
    *("https://a.b/c?d=e#f", "a@b.cd", "@x", "#tag", "U.S.", "10:30", "1,000.5", "3.", "z. B.", "etc.", "don't", "’s"),
    *(
        ":-)",
        "...",
        "--",
        "``",
        "''",
        "кн[ѧ]зю",
        "Vor- und",
        "SpaceAfter=No",
        "NER=B-PER",
        "Lang=de",
        "-DOCSTART-",
        "O",
    ),
    *("# text = a", "# newpar", "1-2", "8.1", "_", "1\t", "\t", "\n\n", "\r\n", "en:a\tB-PER", "I-LOC", "NOUN", "EOF"),
)
# Values that a field does not expect.
ODD: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 2, 17, 2**31, 2**63, -(2**63), 10**40, 0.0, 0.5, -1.5, 1e308, float("nan")),
    *(
        float("inf"),
        "",
        " ",
        "x",
        "a" * 3000,
        "../../x",
        "/etc/passwd",
        "\x00",
        "\ud800",
        "{lang}",
        "-1",
        "1e-4",
        "nan",
    ),
    *("zgul", "shipped", "none", "en", "xx", [], {}, [[]], [{}], {"": ""}, [None], ["a", "a"], [1, "a", None]),
    *([0.0] * 50, {"a": {"b": {"c": []}}}, {"__class__": "os.system"}, "!!python/object/apply:os.system [x]"),
)


def letters(random: Random, most: int = 8) -> str:
    """A word that every reader takes."""
    return "".join(random.choices(LETTERS, k=random.randint(1, most)))


def character(random: Random) -> str:
    """Any character but halves of one: mostly those that something depends on."""
    kind = random.random()
    if kind < 0.35:
        return random.choice(SPECIAL)
    if kind < 0.7:
        return random.choice(LETTERS)
    point = random.randrange(0x3000) if kind < 0.85 else random.randrange(LAST + 1)
    return chr(point) if not 0xD800 <= point <= 0xDFFF else "\ufffd"


def text(random: Random, most: int = 60) -> str:
    """Text of characters and scraps of any kind."""
    parts = [
        random.choice(SCRAPS) if random.random() < 0.1 else character(random) for _ in range(random.randint(0, most))
    ]
    return "".join(part + " " * (random.random() < 0.2) for part in parts)


def damage(random: Random, data: bytes, most: int = 4) -> bytes:
    """The same bytes with a few places changed, as discs, networks, editors and attackers do."""
    for _ in range(random.randint(1, most)):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + int(random.expovariate(1 / 16)))
        match random.randrange(8):
            case 0 if start < len(data):  # a bit
                data = data[:start] + bytes([data[start] ^ 1 << random.randrange(8)]) + data[start + 1 :]
            case 1:
                data = data[:start] + random.randbytes(random.randint(1, 8)) + data[start:]
            case 2:
                data = data[:start] + data[end:]
            case 3:
                data = data[:start] + data[start:end] * random.randint(2, 20) + data[end:]
            case 4 if random.random() < 0.3:
                data = data[:start]
            case 5:
                data = data[:start] + character(random).encode() + data[end:]
            case 6:
                data = data[:start] + random.choice(SCRAPS).encode() + data[start:]
            case _:
                data = (
                    data[:start] + bytes(random.choices((0, 9, 10, 13, 32, 127, 128, 255), k=end - start)) + data[end:]
                )
    return data


def odd_value(random: Random) -> Any:
    """A value that a field does not expect; sometimes nested deeply."""
    if random.random() < 0.03:
        value: Any = 1
        for _ in range(random.choice((20, 60, 200, 300))):
            value = [value] if random.random() < 0.7 else {"a": value}
        return value
    return _copy(random.choice(ODD)) if random.random() < 0.8 else text(random, 8)


def odd_json(random: Random, value: Any, most: int = 2) -> Any:
    """A copy with a few fields changed, removed, renamed, added or exchanged."""
    value = _copy(value)
    for _ in range(random.randint(1, most)):
        places = list(_places(value))
        if not places:
            return odd_value(random)
        holder, key = random.choice(places)
        other, place = random.choice(places)
        match random.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[text(random, 3)] = holder.pop(key)
            case 2 if isinstance(holder, dict):
                holder[random.choice(("format", "x", "", "name"))] = odd_value(random)
            case 3:
                holder[key] = _copy(other[place])
            case 4 if isinstance(holder, list):
                holder += _copy(holder) * random.randint(1, 3)
            case _:
                holder[key] = odd_value(random)
    return value


def _copy(value: Any) -> Any:
    """A copy of plain values, faster than ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _places(value: Any, depth: int = 0) -> Any:
    """Every container in a value and each of its keys."""
    if isinstance(value, dict | list) and depth < 30:
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key], depth + 1)


def json_bytes(random: Random, value: Any) -> bytes:
    """A JSON file with odd fields or, now and then, one that is no JSON."""
    kind = random.random()
    if kind < 0.7:
        return dump(odd_json(random, value))
    if kind < 0.95:
        return damage(random, dump(value))
    depth = random.choice((40, 2000, 100_000))
    return random.choice((b"", b"null", b"[]", b"\xff\xfe{", b"{" * depth, b'{"a":' * depth, b"[" * depth, b"9" * 5000))


def dump(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")

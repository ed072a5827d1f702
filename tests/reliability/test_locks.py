"""The locks hold what pyproject.toml asks for, each with checksums, and name no host."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUN = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
EXTRAS = PROJECT["project"]["optional-dependencies"]
LOCKS = {"run": RUN, "serve": RUN + EXTRAS["serve"]}  # each lock holds what the one before it holds, and more
LOCKS["dev"] = LOCKS["serve"] + EXTRAS["dev"]
LOCKS["web"] = LOCKS["dev"] + EXTRAS["web"]
LOCKS["docs"] = LOCKS["web"] + EXTRAS["docs"]
UNLOCKED = {"torch"}  # see SECURITY.md
ENTRY = re.compile(r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    assert not re.search(r"://|--index|--find-links|--trusted", text), "a lock names no host"
    assert not ENTRY.sub("", text).strip(), "every line is a version or a checksum"
    return {canonicalize_name(match[1]): match[2] for match in ENTRY.finditer(text)}


@pytest.mark.parametrize(("name", "wanted"), LOCKS.items(), ids=LOCKS)
def test_a_lock_has_what_the_project_asks_for(name: str, wanted: list[str]) -> None:
    held = pins(name)
    for asked in map(Requirement, wanted):
        if asked.name in UNLOCKED or (asked.marker and not asked.marker.evaluate()):
            continue
        version = held.get(canonicalize_name(asked.name))
        assert version and asked.specifier.contains(version), f"{asked} is not in {name}.lock. Run: make lock"


def test_all_locks_have_the_same_versions() -> None:
    for smaller, larger in itertools.pairwise(map(pins, LOCKS)):
        assert smaller.items() <= larger.items() and not UNLOCKED & larger.keys()

"""What a case of the fuzzer is, and what breaks one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol


class Broken(Exception):
    """A promise was broken."""


@dataclass
class Case:
    """One case: where its files go, and the generator that all its accidents are drawn from."""

    target: str
    seed: int
    number: int
    folder: Path
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(str(self))

    def __str__(self) -> str:
        return f"{self.target}:{self.seed}:{self.number}"


class Target(Protocol):
    """What is fuzzed. Made once in each process, with a folder for its valid files."""

    def run(self, case: Case) -> None:
        """Do one case. ``ZgulError`` is a proper refusal, `Broken` and everything else a failure."""


def check(holds: bool, promise: str) -> None:
    """Raise if a promise does not hold."""
    if not holds:
        raise Broken(promise)


def check_words(found: list[str], given: list[str]) -> None:
    """Raise if a word is lost, added or changed."""
    if found != given:
        place = next((n for n, pair in enumerate(zip(found, given, strict=False)) if pair[0] != pair[1]), None)
        place = min(len(found), len(given)) if place is None else place
        raise Broken(f"words out {found[place : place + 3]!r}, words in {given[place : place + 3]!r}, at {place}")

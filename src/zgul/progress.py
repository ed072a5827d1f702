"""Progress of long work. Library functions report a `Status`; the command line shows it as a bar."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Status:
    """The progress of one stage of some work."""

    stage: str
    done: int
    total: int  # 0 if it is not known
    figures: dict[str, float] = field(default_factory=dict)  # such as {"loss": 0.3, "dev F1": 91.2}


Report = Callable[[Status], None]


def silent(status: Status) -> None:
    """A report that does nothing."""


def within(report: Report, work: str) -> Report:
    """A report that puts the name of some work in front of its stages."""
    return lambda status: report(replace(status, stage=f"{work}: {status.stage}"))


def counter(report: Report, stage: str, total: int) -> Callable[[int], None]:
    """A function that counts what was done and reports the sum."""
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        report(Status(stage, min(done, total), total))

    return count

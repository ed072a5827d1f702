"""Run work in several threads that interrupt each other as often as Python can: ``from threads import in_threads``."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[int], T], count: int = 8) -> list[T]:
    """``work(0)`` to ``work(count - 1)`` at the same time. An error in one of them is raised here."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    together = threading.Barrier(count)

    def begin(number: int) -> T:
        together.wait()
        return work(number)

    try:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(begin, range(count)))
    finally:
        sys.setswitchinterval(interval)

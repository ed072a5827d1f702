"""Ctrl-C while training: the step it falls in is finished first, because half an update cannot be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt(wanted: bool = True) -> Iterator[threading.Event]:
    """Gives an event that the first Ctrl-C sets; the second interrupts at once, as it does everywhere else."""
    event = threading.Event()
    if not wanted or threading.current_thread() is not threading.main_thread():  # only there are signals heard
        yield event
        return

    def heard(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)

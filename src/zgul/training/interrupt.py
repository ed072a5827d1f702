"""Ctrl-C while training: the step that it falls in is finished first, because half an update cannot be resumed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupt(wanted: bool = True) -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C, or SIGTERM, sets. The second one interrupts at once, as everywhere else."""
    event = threading.Event()
    if not wanted or threading.current_thread() is not threading.main_thread():  # only there are signals received
        yield event
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    # a parent that ignores Ctrl-C (nohup) is to be obeyed, and what other languages installed cannot be put back
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def receive(number: int, frame: FrameType | None) -> None:
        event.set()
        restore()

    for number in before:
        signal.signal(number, receive)
    try:
        yield event
    finally:
        restore()

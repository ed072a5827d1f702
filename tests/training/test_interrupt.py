"""Ctrl-C is deferred once, for as long as it is asked for, and never where the parent ignores it."""

import signal
import threading
from collections.abc import Iterator

import pytest

from zgul.training.trainer import SIGNALS, deferred_interrupt


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """Whatever the parent of the tests does with Ctrl-C."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_sets_the_event_and_the_second_interrupts(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), deferred_interrupt() as event:
        assert not event.is_set()
        signal.raise_signal(number)
        assert event.is_set()
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the second Ctrl-C interrupts at once")


def test_handlers_are_put_back() -> None:
    with deferred_interrupt() as event:
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler and not event.is_set()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(ValueError, match="an error"), deferred_interrupt():
        raise ValueError("an error")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_the_parent_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with deferred_interrupt() as event:
        signal.raise_signal(signal.SIGINT)
        assert not event.is_set() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.raise_signal(signal.SIGTERM)
        assert event.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_unless_it_is_wanted_nothing_changes() -> None:
    with pytest.raises(KeyboardInterrupt), deferred_interrupt(False) as event:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.raise_signal(signal.SIGINT)
    assert not event.is_set()


def test_other_threads_receive_no_signals() -> None:
    done: list[bool] = []

    def work() -> None:
        with deferred_interrupt() as event:
            done.append(event.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [False]

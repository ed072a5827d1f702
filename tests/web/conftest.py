"""A real browser on the page of a real `zgul serve`. Every test also fails on a script error or a foreign request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

PATIENCE = 60_000  # milliseconds: the first text of a group loads its tagger
REFUSED = "Failed to load resource: the server responded with a status of 4"  # the browser's note of an API error


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.web)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from browser import find_browser, running_browser

    if not find_browser():
        pytest.skip("needs Chromium: apt-get install chromium")
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    from browser import running_service

    with running_service() as address:
        yield address


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Opens the page; takes a fragment, another address, and options of the browser's context."""
    contexts, wrong = [], []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(REFUSED):
            wrong.append(message.text)

    def open_page(fragment: str = "", at: str = address, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", note)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith((at, f"blob:{at}")) else wrong.append(one.url))
        page.goto(at + fragment)
        page.locator("#version:not(:empty)").wait_for(state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    page = open_page()
    page.locator("#examples button").first.wait_for()
    return page

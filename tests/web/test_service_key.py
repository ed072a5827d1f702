"""A service that needs a key: the page asks for it."""

from collections.abc import Callable, Iterator

import pytest
from page_actions import Page, expect, tag_example


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    from browser import running_service

    with running_service(ZGUL_API_KEY="secret") as address:
        yield address


def test_the_page_asks_for_the_key(open_page: Callable[..., Page], locked: str) -> None:
    page = open_page(at=locked)
    key = page.get_by_label("API key")
    expect(key).to_be_focused()
    key.fill("wrong")
    key.blur()
    expect(page.get_by_role("alert")).to_contain_text("needs a key")
    key.fill("secret")
    key.blur()
    tag_example(page, "Faroese")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert "secret" not in page.url


def test_an_open_service_asks_for_none(page: Page) -> None:
    expect(page.get_by_label("API key")).to_be_hidden()

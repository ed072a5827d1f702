"""What users do on the page, for the tests."""

import pytest

pytest.importorskip("playwright", reason="needs Playwright: pip install 'zgul[web]'")
pytest.importorskip("fastapi", reason="needs the service: pip install 'zgul[serve]'")

from playwright.sync_api import Locator, Page, expect  # skipped above where it is missing

LONG = 60_000  # milliseconds: the first text of a group loads its tagger
expect.set_options(timeout=30_000)  # an explanation on a busy machine


def tag(page: Page, text: str, lang: str = "") -> Locator:
    """Tag a text, perhaps in a language that is chosen first; the words of the result."""
    if lang:
        choose_language(page, lang)
    page.fill("#text", text)
    page.click("#submit")
    return result(page)


def tag_example(page: Page, name: str) -> Locator:
    page.get_by_role("button", name=name, exact=True).click()
    return result(page)


def result(page: Page) -> Locator:
    words = page.locator(".word")
    words.first.wait_for(timeout=LONG)
    return words


def choose_language(page: Page, name: str) -> None:
    page.fill("#language", name)
    page.locator("#languages [role=option]").filter(has_text=name).first.click()


def choose_task(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name).check()


def word(page: Page, form: str) -> Locator:
    return page.locator(".word").filter(has=page.get_by_text(form, exact=True)).first


def explain(page: Page, form: str) -> Locator:
    """Open the panel of a word and wait for its explanation."""
    word(page, form).click()
    panel = page.get_by_role("dialog")
    panel.locator("#slider").wait_for(timeout=LONG)
    return panel


def drop_file(page: Page, name: str, content: str) -> None:
    make = """([name, content]) => {
        const data = new DataTransfer();
        data.items.add(new File([content], name));
        return data;
    }"""
    page.dispatch_event("#drop", "drop", {"dataTransfer": page.evaluate_handle(make, [name, content])})


def download(page: Page, form: str) -> str:
    page.select_option("#format", form)
    with page.expect_download() as waiting:
        page.click("#save")
    return waiting.value.path().read_text(encoding="utf-8")


def conllu_column(text: str, column: int) -> list[str]:
    return [line.split("\t")[column] for line in text.splitlines() if line[:1].isdigit()]

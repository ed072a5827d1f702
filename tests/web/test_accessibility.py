"""Axe finds nothing serious or critical, and nothing is cut off on a narrow phone."""

from collections.abc import Callable
from typing import Any

import pytest
from page_actions import Page, choose_task, expect, explain, tag, tag_example

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe: pip install 'zgul[web]'")

PHONE = {"viewport": {"width": 320, "height": 640}, "has_touch": True}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": PHONE,
    "phone-dark": PHONE | {"color_scheme": "dark"},
}


def problems(page: Page) -> list[str]:
    page.wait_for_timeout(300)  # transitions end
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {[node['html'] for node in one['nodes']]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_serious(open_page: Callable[..., Page], look: str) -> None:
    page = open_page(**LOOKS[look])
    page.locator("#examples button").first.wait_for()
    assert not problems(page)
    page.fill("#language", "Far")
    page.locator("#languages [role=option]").first.wait_for()
    assert not problems(page)
    page.keyboard.press("Escape")
    choose_task(page, "Both")
    tag(page, "Aisha Bello ta tafi Kano jiya domin ganin kakarta.", "Hausa")
    expect(page.locator("#about h2")).to_contain_text("Hausa")
    assert not problems(page)
    explain(page, "Kano").get_by_label("Tag", exact=True).select_option("NOUN")
    assert not problems(page)
    page.keyboard.press("Escape")
    page.fill("#text", "")
    page.click("#submit")
    expect(page.get_by_role("alert")).to_be_visible()
    assert not problems(page)


@pytest.mark.parametrize("example", ["Faroese", "Sindhi", "Tigrinya", "Assamese"])
def test_nothing_is_wider_than_a_phone(open_page: Callable[..., Page], example: str) -> None:
    page = open_page(**PHONE)
    tag_example(page, example)
    page.locator("#about h2").wait_for()
    page.locator(".word").first.click()
    page.locator("#slider").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_words_come_into_sight_on_a_phone(open_page: Callable[..., Page]) -> None:
    page = open_page(**PHONE)
    tag_example(page, "Tigrinya")
    expect(page.locator("#result-heading")).to_be_focused()
    expect(page.locator(".sentences > li")).to_be_in_viewport(ratio=1)


def test_names_stand_out_where_the_system_chooses_the_colours(open_page: Callable[..., Page]) -> None:
    page = open_page(forced_colors="active")
    tag_example(page, "Hausa")
    line = "node => getComputedStyle(node).borderBlockEndColor"
    plain, name = (page.locator(where).first.evaluate(line) for where in (".unit > .word .form", ".entity .form"))
    assert plain != name
    assert page.locator(".entity").first.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"


def test_motion_can_be_reduced(open_page: Callable[..., Page]) -> None:
    page = open_page(reduced_motion="reduce")
    page.route("**/v1/tag", lambda route: None)
    page.fill("#text", "Kettan svevur.")
    page.click("#submit")
    page.locator(".loading").wait_for()
    assert page.evaluate("getComputedStyle(document.querySelector('.loading'), '::before').animationName") == "none"


def test_landmarks_and_labels(page: Page) -> None:
    for role, name in [
        ("banner", None),
        ("main", None),
        ("contentinfo", None),
        ("form", "Text and settings"),
        ("region", "Result"),
    ]:
        expect(page.get_by_role(role, name=name)).to_have_count(1)  # type: ignore[arg-type]
    for label in ("Language", "Entropy minimisation", "Text"):
        expect(page.get_by_label(label, exact=True)).to_have_count(1)
    expect(page.get_by_role("group", name="What to tag")).to_have_count(1)
    assert page.evaluate("document.documentElement.lang") == "en"

"""Tagging on the page: texts, languages, files, settings in the address, errors."""

import re
import time
from collections.abc import Callable

import pytest
from page_actions import LONG, Page, choose_language, choose_task, drop_file, expect, result, tag, tag_example, word

from zgul.tagging.serving import adapted_names, describe, expected_accuracy

FAROESE = "Kettan svevur á borðinum. Hon droymir um fisk."
CONLLU = "\n".join(
    "\t".join([str(number), form, *"________"]) for number, form in enumerate(["Kettan", "svevur", "."], start=1)
)


def test_one_click_tags_an_example(page: Page) -> None:
    expected = expected_accuracy("fo", "pos")
    assert expected
    words = tag_example(page, "Faroese")
    assert words.count() > 5
    expect(words.first.locator(".tag")).to_have_text("ADP")
    expect(page.locator("#summary")).to_contain_text("1 sentence")
    expect(page.locator("#legend")).to_contain_text("NOUN noun")
    expect(page.locator("#about")).to_contain_text("Icelandic")
    expect(page.locator("#about")).to_contain_text(f"Expect an F1 of about {expected.f1:.0f}")
    expect(page.locator("#result-heading")).to_be_focused()


def test_names_stand_as_spans_with_their_kind(page: Page) -> None:
    tag_example(page, "Hausa")
    place = page.locator(".entity", has_text="Kano")
    expect(place.locator(".entity-label")).to_have_text("LOC")
    expect(word(page, "Kano")).to_contain_text("place")  # what a screen reader says


def test_both_tasks_at_once(page: Page) -> None:
    choose_task(page, "Both")
    tag(page, "Aisha ta tafi Kano jiya.", "Hausa")
    expect(word(page, "Kano").locator(".tag")).to_have_text("PROPN")
    expect(page.locator(".entity", has_text="Kano")).to_have_count(1)


def test_a_language_is_chosen_by_keyboard_alone(page: Page) -> None:
    box = page.get_by_role("combobox", name="Language", exact=True)
    box.focus()
    page.keyboard.type("føroyskt")  # what its speakers call it
    first = page.locator("#languages [role=option]").first
    expect(first).to_contain_text("Faroese")
    expect(box).to_have_attribute("aria-expanded", "true")
    expect(first).to_have_attribute("aria-selected", "true")
    assert box.get_attribute("aria-activedescendant") == first.get_attribute("id")
    page.keyboard.press("Enter")
    expect(box).to_have_value("Faroese")
    expect(box).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#about h2")).to_contain_text("Faroese")


def test_enter_takes_what_was_typed_and_not_an_older_answer(page: Page) -> None:
    page.fill("#language", "swa")
    expect(page.locator("#languages [role=option]").first).to_contain_text("Swahili")
    page.route("**/v1/languages?*", lambda route: (time.sleep(0.5), route.continue_()))
    page.fill("#language", "sindhi")
    page.keyboard.press("Enter")
    expect(page.locator("#language")).to_have_value("Sindhi")
    expect(page.locator("#about h2")).to_contain_text("Sindhi")


def test_a_name_that_was_typed_in_full_is_taken_when_the_field_is_left(page: Page) -> None:
    page.fill("#language", "føroyskt")
    expect(page.locator("#languages [role=option]").first).to_contain_text("Faroese")
    page.locator("#text").click()
    expect(page.locator("#language")).to_have_value("Faroese")
    page.fill("#language", "sindhi")
    page.keyboard.press("Tab")  # before the list is there
    expect(page.locator("#language")).to_have_value("Sindhi")
    page.fill("#language", "hors")
    page.locator("#text").click()
    expect(page.locator("#language")).to_have_value("Sindhi")


def test_arrows_move_in_the_list_and_escape_keeps_the_language(page: Page) -> None:
    choose_language(page, "Faroese")
    box = page.locator("#language")
    box.focus()
    page.keyboard.press("ArrowDown")
    options = page.locator("#languages [role=option]")
    expect(options.first).to_contain_text("Guess the language")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#languages")).to_be_hidden()
    expect(box).to_have_value("Faroese")


def test_a_language_that_does_not_exist_is_not_found(page: Page) -> None:
    page.fill("#language", "Qqqzzz")
    expect(page.locator("#languages")).to_contain_text("No language of this name")


def test_the_language_is_guessed(page: Page) -> None:
    tag(page, FAROESE)
    expect(page.locator("#about h2")).to_contain_text("Faroese")
    expect(page.locator("#about")).to_contain_text("Guessed from the text, over 99 % sure")


def test_the_whole_way_by_keyboard(page: Page) -> None:
    page.locator("#text").focus()
    page.keyboard.type(FAROESE)
    page.keyboard.press("Control+Enter")
    result(page)
    expect(page.locator("#result-heading")).to_be_focused()
    page.keyboard.press("Tab")
    expect(word(page, "Kettan")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(word(page, "svevur")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(word(page, "Hon")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#panel-word")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(word(page, "Hon")).to_be_focused()


def test_a_text_file_is_dropped(page: Page) -> None:
    drop_file(page, "letter.txt", FAROESE)
    expect(page.locator("#text")).to_have_value(FAROESE)
    page.click("#submit")
    assert result(page).count() == 10


def test_a_conllu_file_keeps_its_words(page: Page) -> None:
    choose_language(page, "Faroese")
    drop_file(page, "letter.conllu", CONLLU + "\n\n" + CONLLU.replace("svevur", "eitur") + "\n\n")
    expect(page.locator("#file-note")).to_contain_text("letter.conllu: 2 sentences")
    expect(page.locator("#text")).to_have_attribute("readonly", "")
    page.click("#submit")
    assert result(page).count() == 6
    expect(page.locator("#summary")).to_contain_text("2 sentences")
    page.click("#clear")
    expect(page.locator("#text")).to_be_editable()


def test_one_language_is_guessed_for_all_sentences_of_a_file(page: Page) -> None:
    with page.expect_request(
        lambda one: one.url.endswith("/v1/tag") and "words" in one.post_data_json["texts"][0]
    ) as sent:
        drop_file(page, "letter.conllu", CONLLU + "\n\n" + CONLLU + "\n\n")
        expect(page.locator("#file-note")).to_be_visible()
        page.click("#submit")
    assert {text["lang"] for text in sent.value.post_data_json["texts"]} == {"fo"}
    expect(page.locator("#about")).to_contain_text("Guessed from the text", timeout=LONG)


def test_a_file_is_chosen(page: Page) -> None:
    with page.expect_file_chooser() as chooser:
        page.click("#choose")
    chooser.value.set_files({"name": "letter.txt", "mimeType": "text/plain", "buffer": FAROESE.encode("utf-16")})
    expect(page.locator("#text")).to_have_value(FAROESE)
    expect(page.locator("#file-note")).to_contain_text("not UTF-8")


def test_the_address_keeps_the_settings_and_never_the_text(open_page: Callable[..., Page]) -> None:
    page = open_page()
    choose_task(page, "Parts of speech")
    page.select_option("#em", "5")
    tag(page, FAROESE, "Faroese")
    assert page.evaluate("location.hash") == "#lang=fo&task=pos&em=5"
    assert "Kettan" not in page.url and "svevur" not in page.url
    again = open_page(page.evaluate("location.hash"))
    expect(again.locator("#language")).to_have_value("Faroese")
    expect(again.get_by_role("radio", name="Parts of speech")).to_be_checked()
    expect(again.locator("#em")).to_have_value("5")
    expect(again.locator("#text")).to_have_value("")


def test_settings_of_a_broken_address_are_left_out(open_page: Callable[..., Page]) -> None:
    page = open_page("#lang=<b>&task=all&em=99")
    expect(page.locator("#language")).to_have_value("Guess the language")
    expect(page.get_by_role("radio", name="Suggested")).to_be_checked()
    expect(page.locator("#em")).to_have_value("")


def test_the_settings_of_em_are_sent(page: Page) -> None:
    sent = {}
    for value in ("", "0", "2"):
        page.select_option("#em", value)
        with page.expect_request("**/v1/tag") as request:
            tag(page, FAROESE, "Faroese")
        body = request.value.post_data_json
        sent[value] = (body["em"], body["em_steps"])
    assert sent == {"": (None, None), "0": (False, None), "2": (True, 2)}


@pytest.mark.parametrize(("example", "direction"), [("Sindhi", "rtl"), ("Central Kurdish", "rtl"), ("Tigrinya", "ltr")])
def test_text_runs_in_the_direction_of_its_script(page: Page, example: str, direction: str) -> None:
    words = tag_example(page, example)
    expect(page.locator(".sentences > li").first).to_have_attribute("dir", direction)
    first, second = (words.nth(index).bounding_box() for index in (0, 1))
    assert first and second and (first["x"] > second["x"]) == (direction == "rtl")
    if direction == "rtl":  # the arrow goes where the eye goes
        words.first.focus()
        page.keyboard.press("ArrowLeft")
        expect(words.nth(1)).to_be_focused()


def test_an_error_of_the_service_is_shown_without_the_name_of_the_field(page: Page) -> None:
    choose_language(page, "Faroese")
    with page.expect_response("**/v1/tag") as answer:
        page.fill("#text", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ᎠᏂᏴᏫᏯ ᎤᏂᏬᏂᎯᏍᏗ")  # a script that the encoder does not know
        page.click("#submit")
    error = answer.value.json()["error"]
    assert answer.value.status == 422 and error["message"].startswith(f"{error['field']}: ")
    expect(page.get_by_role("alert").locator("p")).to_have_text(error["message"].removeprefix(f"{error['field']}: "))


def test_after_an_error_nothing_is_left_of_the_text_before(page: Page) -> None:
    tag(page, FAROESE)
    expect(page.locator("#about")).to_contain_text("Guessed from the text")
    page.fill("#text", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ")  # its language cannot be guessed
    page.click("#submit")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("#about")).to_be_hidden()


def test_a_file_that_is_refused_says_why_until_another_is_read(page: Page) -> None:
    drop_file(page, "letter.txt.gz", "not packed")
    expect(page.get_by_role("alert").locator("p")).to_have_text(re.compile("^The file is damaged"))
    expect(page.locator("#file-note")).to_be_hidden()
    drop_file(page, "letter.txt", FAROESE)
    expect(page.locator("#text")).to_have_value(FAROESE)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_no_text_is_an_error_of_the_page(page: Page) -> None:
    page.click("#submit")
    expect(page.get_by_role("alert")).to_contain_text("There is no text to tag")
    expect(page.locator("#text")).to_be_focused()


def test_markup_in_a_text_stays_text(page: Page) -> None:
    words = tag(page, "Kettan <img src=x onerror=alert(1)> svevur á <b>borðinum</b>.", "Faroese")
    assert page.locator("#sentences img, #sentences b").count() == 0
    assert words.count() > 5


def test_while_it_waits_it_says_so(page: Page) -> None:
    page.route("**/v1/tag", lambda route: None)  # never answered
    page.fill("#text", FAROESE)
    page.click("#submit")
    expect(page.locator("#message")).to_contain_text("loads its tagger")
    expect(page.locator("#result")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#submit")).to_have_text("Tagging …")


def test_a_service_that_has_stopped_is_an_error(page: Page) -> None:
    page.route("**/v1/tag", lambda route: route.fulfill(status=413, body="<html>a proxy</html>"))
    page.fill("#text", FAROESE)
    page.click("#submit")
    expect(page.get_by_role("alert")).to_contain_text("(413)")


@pytest.mark.parametrize("name", adapted_names()[:1])
def test_an_adapted_tagger_has_the_zero_shot_one_beside_it(open_page: Callable[..., Page], name: str) -> None:
    code, task = name.rsplit("-", 1)
    (served,) = [one for one in describe(code).taggers if one.task == task]
    assert served.base
    page = open_page(f"#lang={code}&task={task}")
    about, box = page.locator("#about"), page.get_by_role("checkbox", name="raw text")
    expect(about.locator("code").first).to_have_text(served.name)
    box.uncheck()
    expect(box).to_be_focused()  # though the text around it was written again
    expect(about.locator("code").first).to_have_text(served.base)
    assert page.url.endswith(f"#lang={code}&task={task}&adapted=no")
    with page.expect_response("**/v1/tag") as zero_shot:
        tag(page, "Dobrý den.")
    assert zero_shot.value.json()["texts"][0]["taggers"][0]["name"] == served.base
    page.locator(".word").first.click()
    panel = page.get_by_role("dialog")
    expect(panel.get_by_role("slider")).to_have_value("0")  # it ran no entropy minimisation
    expect(panel.get_by_role("list", name="Languages")).not_to_contain_text(describe(code).language.name)
    page.keyboard.press("Escape")
    with page.expect_response("**/v1/tag") as adapted:
        box.check()
    assert adapted.value.json()["texts"][0]["taggers"][0]["name"] == served.name
    result(page).first.click()
    expect(panel.get_by_role("list", name="Languages")).to_contain_text(describe(code).language.name)


def test_a_warning_stands_there_once_and_says_what_to_expect(page: Page) -> None:
    tag(page, "Kissa nukkuu.", "Finnish")
    expect(page.locator("#about")).to_contain_text("Expect poor tags")
    expect(page.locator("#about").get_by_text("is related to none of the languages")).to_have_count(1)

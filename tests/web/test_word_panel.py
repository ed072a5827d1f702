"""The panel of a word: probabilities, source languages, entropy minimisation, corrections, downloads."""

import json

from page_actions import (
    Page,
    choose_language,
    choose_task,
    conllu_column,
    download,
    expect,
    explain,
    tag,
    tag_example,
    word,
)

UPOS, MISC = 3, 9
HAUSA = "Aisha Bello ta tafi Kano jiya."


def shares(page: Page, heading: str) -> list[str]:
    return page.get_by_role("list", name=heading).locator(".bar-text").all_text_contents()


def test_a_word_shows_probabilities_and_source_languages(page: Page) -> None:
    tag_example(page, "Faroese")
    panel = explain(page, "báturin")
    expect(panel.get_by_role("heading", level=2)).to_have_text("báturin")
    expect(panel.get_by_role("list", name="How probable")).to_contain_text("NOUN noun")
    sources = panel.get_by_role("list", name="Languages")
    for name in ("Icelandic", "German", "English"):
        expect(sources).to_contain_text(name)
    total = sum(int(text.removesuffix(" %")) for text in shares(page, "Languages"))
    assert 98 <= total <= 102  # rounded


def test_a_layer_and_a_weighting_can_be_chosen(page: Page) -> None:
    tag_example(page, "Faroese")
    panel = explain(page, "báturin")
    average = shares(page, "Languages")
    panel.get_by_label("Layer").select_option("1")
    assert shares(page, "Languages") != average
    panel.get_by_label("Layer").select_option("")
    panel.get_by_label("Weighting").select_option("lang2vec")
    fixed = shares(page, "Languages")
    panel.get_by_label("Weighting").select_option("fusion")
    assert shares(page, "Languages") not in (fixed, average)
    panel.get_by_role("button", name="Next word").click()
    expect(panel.get_by_label("Weighting")).to_have_value("fusion")  # stays for the next word


def test_the_slider_shows_what_entropy_minimisation_changes(page: Page) -> None:
    choose_task(page, "Parts of speech")
    tag_example(page, "Gothic")
    panel = explain(page, "jah")
    slider = panel.get_by_role("slider")
    slider.fill("0")
    expect(slider).to_have_attribute("aria-valuetext", "without")
    before = shares(page, "How probable")
    expect(panel.locator(".changes")).to_have_count(0)
    slider.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "after 10 steps")
    expect(panel.locator(".changes li").first).to_contain_text("→")
    assert shares(page, "How probable") != before


def test_a_corrected_tag_is_marked_and_downloaded(page: Page) -> None:
    tag_example(page, "Faroese")
    explain(page, "báturin").get_by_label("Tag", exact=True).select_option("PROPN")
    expect(word(page, "báturin").locator(".tag")).to_have_text("PROPN")
    expect(word(page, "báturin")).to_contain_text("corrected")
    expect(page.locator("#summary")).to_contain_text("1 corrected")
    expect(page.locator("#legend")).to_contain_text("corrected by hand")
    text = download(page, "conllu")
    place = conllu_column(text, 1).index("báturin")
    assert conllu_column(text, UPOS)[place] == "PROPN"
    assert "báturin\tPROPN" in download(page, "tsv")
    (line,) = download(page, "json").splitlines()
    assert json.loads(line)["upos"][place] == "PROPN"
    assert json.loads(line)["upos_probabilities"][place] == 1


def test_a_correction_can_be_undone(page: Page) -> None:
    tag_example(page, "Faroese")
    panel = explain(page, "báturin")
    panel.get_by_label("Tag", exact=True).select_option("X")
    expect(panel).to_contain_text("The tagger said NOUN")
    panel.get_by_role("button", name="Undo").click()
    expect(word(page, "báturin").locator(".tag")).to_have_text("NOUN")
    expect(page.locator("#summary")).not_to_contain_text("corrected")


def test_corrected_names_stay_valid_iob2(page: Page) -> None:
    choose_task(page, "Names")
    tag(page, HAUSA, "Hausa")
    expect(page.locator(".entity").first).to_contain_text("Bello")  # Aisha Bello is one name
    select = explain(page, "Aisha").get_by_label("Tag", exact=True)
    assert not [
        value for value in select.locator("option").evaluate_all("all => all.map(o => o.value)") if value[:2] == "I-"
    ]
    select.select_option("O")
    misc = conllu_column(download(page, "conllu"), MISC)
    assert "NER=O" in misc[0] and "NER=B-PER" in misc[1]  # not I-PER, which nothing begins
    select = explain(page, "tafi").get_by_label("Tag", exact=True)
    select.select_option("B-ORG")
    page.get_by_role("button", name="Next word").click()
    expect(page.locator("#panel-word")).to_have_text("Kano")
    page.get_by_label("Tag", exact=True).select_option("I-ORG")
    expect(page.locator(".entity", has_text="tafi").locator(".word")).to_have_count(2)
    assert "NER=I-ORG" in conllu_column(download(page, "conllu"), MISC)[4]


def test_the_panel_of_two_tasks_has_both(page: Page) -> None:
    choose_task(page, "Both")
    tag(page, HAUSA, "Hausa")
    panel = explain(page, "Kano")
    expect(panel.get_by_role("list", name="How probable")).to_contain_text("PROPN")
    panel.get_by_role("radio", name="Names").check()
    expect(panel.get_by_role("list", name="How probable")).to_contain_text("B-LOC place")


def test_the_focus_goes_to_the_panel_and_back(page: Page) -> None:
    tag_example(page, "Faroese")
    panel = explain(page, "báturin")
    expect(panel.get_by_role("heading", level=2)).to_be_focused()
    page.keyboard.press("Escape")
    expect(word(page, "báturin")).to_be_focused()
    page.keyboard.press("Enter")
    panel.get_by_role("button", name="Close").click()
    expect(word(page, "báturin")).to_be_focused()


def test_leaving_with_corrections_asks_first(page: Page) -> None:
    tag_example(page, "Faroese")
    asked: list[str] = []

    def refuse(dialog: object) -> None:
        asked.append(dialog.type)  # type: ignore[attr-defined]
        dialog.dismiss()  # type: ignore[attr-defined]

    page.on("dialog", refuse)
    explain(page, "báturin").get_by_label("Tag", exact=True).select_option("X")
    page.click("#submit")
    assert asked == ["confirm"]
    expect(word(page, "báturin")).to_contain_text("corrected")  # still there
    page.close(run_before_unload=True)
    page.wait_for_timeout(300)
    assert asked == ["confirm", "beforeunload"]
    download(page, "conllu")
    page.click("#submit")
    expect(page.locator("#summary")).not_to_contain_text("corrected")
    assert len(asked) == 2


def test_the_result_can_be_copied(open_page) -> None:  # type: ignore[no-untyped-def]
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    choose_language(page, "Faroese")
    tag_example(page, "Faroese")
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied.")
    assert "\tADP\t" in page.evaluate("navigator.clipboard.readText()")
    page.click("#link")
    expect(page.locator("#link")).to_contain_text("never the text")
    assert page.evaluate("navigator.clipboard.readText()").endswith("#lang=fo&task=pos")


def test_the_panel_stays_in_sight_beside_a_long_text(page: Page) -> None:
    tag(page, "Kettan svevur á borðinum. " * 40 + "Hon droymir um fisk.", "Faroese")
    panel = explain(page, "fisk")
    expect(panel.get_by_role("heading", level=2)).to_be_in_viewport()
    expect(word(page, "fisk")).to_be_in_viewport()


def test_escape_closes_the_panel_from_anywhere(page: Page) -> None:
    tag_example(page, "Faroese")
    explain(page, "báturin")
    word(page, "fiska").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_service_is_asked_once_for_all_words_of_a_sentence(page: Page) -> None:
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/v1/explain") else None)
    tag_example(page, "Faroese")
    word(page, "báturin").click()
    for _ in range(3):  # before the answer comes
        page.get_by_role("button", name="Next word").click()
    page.locator("#slider").wait_for()
    expect(page.locator("#panel-word")).to_have_text("fiska")
    assert len(asked) == 1


def test_the_slider_begins_at_the_steps_that_were_chosen(page: Page) -> None:
    page.select_option("#em", "20")
    tag(page, "Kettan svevur.", "Faroese")
    slider = explain(page, "Kettan").get_by_role("slider")
    expect(slider).to_have_attribute("max", "20")
    expect(slider).to_have_value("20")

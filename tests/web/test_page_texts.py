"""The words of the page: each that is asked for exists, and none is left over."""

import json
import re
from pathlib import Path

import zgul

PAGE = Path(zgul.__file__).parent / "serve" / "page"
TEXTS = json.loads((PAGE / "texts.en.json").read_text(encoding="utf-8"))
CODE = "".join(path.read_text(encoding="utf-8") for path in [*PAGE.glob("*.js"), PAGE / "index.html"])
NAMED = set(re.findall(r"[\"`]([a-z]+\.[a-z0-9_.]+)[\"`]", CODE)) & set(TEXTS)
BUILT = ("task.", "about.", "word.", "panel.view.")  # `task.${task}` and the like


def test_every_text_is_used() -> None:
    assert not [key for key in TEXTS if key not in NAMED and not key.startswith(BUILT)]


def test_every_text_that_is_asked_for_exists() -> None:
    asked = re.findall(r'\bt\("([^"]+)"|data-(?:text|label)="([^"]+)"', CODE)
    assert not {one or other for one, other in asked} - set(TEXTS)


def test_a_plural_has_the_form_for_all_other_numbers() -> None:
    assert all("other" in text for text in TEXTS.values() if isinstance(text, dict))


def test_nothing_comes_from_another_host_and_nothing_is_inline() -> None:
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?:https?:)?//', index)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*src=)", index)

"""A page that shows the tags of two systems on one sentence, for stores and exports that carry the sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zgul.languages import find
from zgul.paper.analyses import tags_of
from zgul.paper.export import TagAlphabet
from zgul.paper.frame import Frame
from zgul.paper.report.html import SKELETON, STYLE
from zgul.paper.rows import ZERO_SHOT

NAME = "side-by-side"
SENTENCES = 250  # of each language, from the start of its test file
_BODY = Path(__file__).with_name("side_by_side.html").read_text(encoding="utf-8")


def write_side_by_side(frame: Frame) -> str | None:
    """The page as one file; nothing if the sentences or the predictions are not known."""
    alphabet = TagAlphabet()
    languages = {}
    for group in frame.groups() if frame.store.has_sentences else ():
        seed = min(run.seed for run in frame.runs_of("zero-shot", group))
        for code in frame.languages(group):
            gold = frame.store.gold(group, code)
            languages[code] = _language(frame, group, code, seed, alphabet) | {
                "words": [sentence.words for sentence in gold[:SENTENCES]],
                "gold": alphabet.encode([sentence.tags or [] for sentence in gold[:SENTENCES]]),
                "total": len(gold),
            }
    if not languages:
        return None
    data = {"languages": languages, "tags": {letter: tag for tag, letter in alphabet.items()}}
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # a word must not end the script
    title = "Two systems side by side"
    return SKELETON.format(title=title, style=STYLE, script="", body=_BODY.replace("DATA", text))


def _language(frame: Frame, group: str, code: str, seed: int, alphabet: TagAlphabet) -> dict[str, Any]:
    systems = {}
    for row in ZERO_SHOT:
        for entry in frame.entries(group, row, language=code):
            if entry.run.seed == seed:
                systems[row] = alphabet.encode(tags_of(frame, entry)[:SENTENCES])
    return {"name": f"{find(code).name}, seed {seed}", "systems": systems}

"""zgul as one of the systems, as `zgul tag` runs it, in zgul's own environment. It is not trained here.

MODEL is LANGUAGE:TASK for the shipped tagger, and LANGUAGE:TASK:FOLDER for a tagger in a folder.
"""

from __future__ import annotations

from worker import Tag, main

import zgul
from zgul.corpora.sentence import Sentence


def train(*_: object) -> None:
    raise SystemExit("the shipped taggers are trained by: make recipe")


def load(model: str) -> Tag:
    """Load a tagger."""
    language, task, *folder = model.split(":", maxsplit=2)
    tagger = zgul.load(language, task, model=folder[0] if folder else None)

    def tag(words: list[list[str]]) -> list[list[str]]:
        return [tagged.tags for tagged in tagger.tag_sentences(Sentence(own) for own in words)]

    return tag


if __name__ == "__main__":
    main("zgul", train, load)

"""The one object that flows from readers to taggers: a sentence of words with, perhaps, tags."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Sentence:
    """Words of one sentence; tags, languages and offsets run parallel to them where they are known."""

    words: list[str]
    tags: list[str] | None = None  # UPOS or IOB2, one per word
    language: str | None = None  # code of the whole sentence
    word_languages: list[str] | None = None  # code-switched text: one per word, wins over `language` unless ""
    text: str | None = None  # the raw text the words were cut from
    offsets: list[tuple[int, int]] | None = None  # [start, end) of each word in `text`
    start: int = 0  # where `text` begins in the document it was cut from

    def __post_init__(self) -> None:
        for name in ("tags", "word_languages", "offsets"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.words):
                raise ValueError(f"{len(self.words)} words but {len(values)} {name}")

    def __len__(self) -> int:
        return len(self.words)

"""The object that flows from readers to taggers: a sentence of words and, where they are known, their tags."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(slots=True)
class Sentence:
    """The words of one sentence. Tags, languages and offsets have one entry per word where they are known."""

    words: list[str]
    tags: list[str] | None = None  # UPOS or IOB2
    language: str | None = None  # code of the whole sentence
    word_languages: list[str] | None = None  # in code-switched text; "" stands for `language`
    text: str | None = None  # the raw text that the words were cut from
    offsets: list[tuple[int, int]] | None = None  # [start, end) of each word in `text`
    start: int = 0  # where `text` begins in its document
    opens: Literal["document", "paragraph"] | None = None  # what begins with this sentence, where that is known
    block: Any = None  # the `ConlluSentence` that it was read from, where its other columns are to be kept

    def __post_init__(self) -> None:
        for name in ("tags", "word_languages", "offsets"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.words):
                raise ValueError(f"{len(self.words)} words but {len(values)} {name}")

    def __len__(self) -> int:
        return len(self.words)

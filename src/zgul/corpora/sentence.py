"""The class `Sentence`, which readers of corpora produce and taggers read, and the tags of the two tasks.

Parts of speech are the 17 universal ones. Entities are read in IOB1, IOB2, BIOES or BILOU.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from zgul.errors import ZgulError

TaskChoice = Literal["pos", "ner", "both"]
TASKS = {"pos": "parts of speech", "ner": "named entities"}
UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
_NER_TAG = re.compile("O|[BIESLU]-[^ ]+")  # O, or a position and the type of an entity


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
    opens: Literal["document", "paragraph"] | None = None  # what begins with this sentence, if known
    block: Any = None  # the `ConlluSentence` that it was read from, if its other columns must be kept

    def __post_init__(self) -> None:
        for name in ("tags", "word_languages", "offsets"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.words):
                raise ValueError(f"{len(self.words)} words but {len(values)} {name}")

    def __len__(self) -> int:
        return len(self.words)


def check_task(task: str, choices: str = "pos or ner") -> None:
    if task not in TASKS:
        raise ZgulError(f"There is no task {task!r}. Choose {choices}.")


def tag_problem(task: str, tag: str) -> str | None:
    """Say what is wrong with a tag; None if it is valid for the task."""
    if task == "pos":
        return None if tag in UPOS else f"{tag!r} is not a universal part of speech ({' '.join(UPOS)})"
    check_task(task)
    if _NER_TAG.fullmatch(tag) and tag.isprintable():
        return None
    other = "; it is a part of speech, so the task may be pos" if tag in UPOS else ""
    return f"{tag!r} is not an entity tag such as O, B-PER or I-PER{other}"


def to_iob2(tags: list[str]) -> list[str]:
    """Convert entities to IOB2 as the CoNLL scorer reads them: an I- that continues nothing opens an entity."""
    result = []
    open_type = ""  # of the entity that the next word may continue
    for tag in tags:
        position, kind = tag[0], tag[2:]
        continues = kind == open_type and position not in "BSU"
        result.append(f"{'I' if continues else 'B'}-{kind}" if kind else "O")
        open_type = "" if position in "ESLU" else kind
    return result

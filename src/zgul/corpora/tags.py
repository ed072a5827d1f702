"""Tags: the tasks, the 17 universal parts of speech, and entities in IOB1, IOB2, BIOES or BILOU."""

from __future__ import annotations

from collections.abc import Iterable

from zgul.errors import ZgulError

TASKS = ("pos", "ner")
UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)

_UPOS = frozenset(UPOS)


def tag_problem(task: str, tag: str) -> str | None:
    """Say what is wrong with a tag; None if it is valid for the task."""
    if task == "pos":
        return None if tag in _UPOS else f"{tag!r} is not a universal part of speech ({' '.join(UPOS)})"
    if task == "ner":
        return None if is_ner_tag(tag) else f"{tag!r} is not an entity tag such as O, B-PER or I-PER"
    raise ZgulError(f"unknown task {task!r}: choose pos or ner")


def check_tags(task: str, tags: Iterable[str]) -> None:
    """Refuse tags that are not valid for the task."""
    for tag in tags:
        if problem := tag_problem(task, tag):
            raise ZgulError(problem)


def is_ner_tag(tag: str) -> bool:
    """Whether a tag is ``O``, or a position (B I E S L U) with an entity type as in ``B-PER``."""
    return tag == "O" or (
        len(tag) > 2 and tag[1] == "-" and tag[0] in "BIESLU" and tag[2:].isprintable() and " " not in tag
    )


def to_iob2(tags: list[str]) -> list[str]:
    """Convert entities to IOB2 as the CoNLL scorer reads them: an I- that continues nothing opens an entity."""
    result = []
    open_type = ""  # of the entity that the next word may continue
    for tag in tags:
        kind = tag[2:]
        if kind:
            continues = kind == open_type and tag[0] not in "BSU"
            result.append(f"I-{kind}" if continues else f"B-{kind}")
        else:
            result.append("O")
        open_type = "" if tag[0] in "ESLU" else kind
    return result

"""Plain text: a sentence a line, words already apart or not, or running text in paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zgul.corpora import segment
from zgul.corpora.lines import Lines, Sink, Source, write_blocks
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError

FORMS = ("sentences", "words", "raw")


def read(source: Source, form: str = "sentences", language: str | None = None) -> Iterator[Sentence]:
    """Read line by line; blank lines hold no sentence.

    ``form`` is ``sentences`` (a sentence a line), ``words`` (the same, with white space between all words) or
    ``raw`` (running text: sentences end where ``zgul.corpora.segment`` finds their end, and at blank lines).
    """
    if form not in FORMS:
        raise ZgulError(f"unknown form of text {form!r}: choose one of {', '.join(FORMS)}")
    lines = Lines(source)
    if form == "raw":
        return segment.stream(lines, language)
    cut = segment.words if form == "sentences" else _split
    return (sentence for line in lines if (sentence := cut(line, language)).words)


def write(sink: Sink, sentences: Iterable[Sentence]) -> int:
    """Write a sentence a line: its text if it has one, else its words with spaces; returns how many."""
    return write_blocks(sink, (_line(sentence) for sentence in sentences if sentence.words))


def _split(line: str, language: str | None) -> Sentence:
    words = line.split()
    offsets = []
    end = 0
    for word in words:
        start = line.index(word, end)
        end = start + len(word)
        offsets.append((start, end))
    return Sentence(words, language=language, text=line, offsets=offsets)


def _line(sentence: Sentence) -> str:
    text = " ".join(sentence.words) if sentence.text is None else sentence.text
    return " ".join(text.splitlines()) + "\n"

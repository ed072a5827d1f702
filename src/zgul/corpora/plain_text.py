"""Plain text: running text in paragraphs, or one sentence a line, perhaps with spaces between all words."""

import statistics
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise

import regex

from zgul.corpora import segment
from zgul.corpora.lines import Lines, Source
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError, ZgulWarning

FORMS = ("auto", "raw", "sentences", "words")
SAMPLE = 200  # lines that decide what a text is
SHORT_LINE = 100  # characters: the median line of poems, lists and sentences is shorter

_FINAL = regex.compile(rf"[\p{{SB=STerm}}\p{{SB=ATerm}}…][\p{{SB=Close}}{segment.BLANK}]*$", regex.VERSION1)
_CONTINUES = regex.compile(rf"[{segment.BLANK}]*\p{{Ll}}", regex.VERSION1)


def read(source: Source, form: str = "sentences", language: str | None = None) -> Iterator[Sentence]:
    """Read sentence by sentence. The first one opens a document; one after a blank line opens a paragraph.

    ``form``: ``raw`` is running text; ``sentences`` one sentence a line; ``words`` the same, with blanks between all
    words; ``auto`` is ``sentences`` if the first lines look like it, with a warning, else ``raw``.
    """
    if form not in FORMS:
        raise ZgulError(f"unknown form of text {form!r}: choose one of {', '.join(FORMS)}")
    lines = Lines(source)
    for number, sentence in enumerate(_cut(iter(lines), form, language, lines.name)):
        sentence.opens = sentence.opens if number else "document"
        yield sentence


def split(text: str, form: str = "auto", language: str | None = None) -> Iterator[Sentence]:
    """Split a text into sentences, in one of the forms of ``read``."""
    return _cut(iter(text.split("\n")), form, language, "the text")


def lines_are_sentences(lines: Sequence[str]) -> bool:
    """Whether each line is a sentence of its own, as in poems, lists, tables and corpora.

    Most lines are short, have no final punctuation, do not begin in lower case, and are not filled up to one width.
    """
    filled = [line for line in lines if line.strip()]
    pairs = [(line, after) for line, after in pairwise(map(str.rstrip, lines)) if line and after.strip()]
    if len(pairs) < 2 or statistics.median(map(len, filled)) > SHORT_LINE:
        return False
    unfinished = [(line, after) for line, after in pairs if not _FINAL.search(line)]
    if 2 * len(unfinished) <= len(pairs):
        return False
    continued = sum(_CONTINUES.match(after) is not None for _, after in unfinished)
    if len(unfinished) < len(pairs) and 2 * continued > len(unfinished):
        return False
    width = sorted(map(len, filled))[-1 - len(filled) // 20]  # a few lines may be too long
    full = sum(len(line) + 1 + len(after.split()[0]) > width for line, after in pairs)
    several_words = statistics.median(len(line.split()) for line in filled) > 3
    return not (several_words and 2 * full > len(pairs))


def _cut(lines: Iterator[str], form: str, language: str | None, name: str) -> Iterator[Sentence]:
    if form == "auto":
        first: list[str] = []
        for line in islice(lines, SAMPLE):
            first.append(line)
            if sum(map(len, first)) > segment.BUFFER:  # hold no more text than `segment.stream` does
                break
        lines, form = chain(first, lines), "sentences" if lines_are_sentences(first) else "raw"
        if form == "sentences":
            seen = "most lines are short and have no final punctuation, so each line is read as a sentence"
            advice = "If sentences go on from line to line, say that it is running text (--input text, form='raw')."
            warnings.warn(f"{name}: {seen}. {advice}", ZgulWarning, stacklevel=2)
    yield from segment.stream(lines, language) if form == "raw" else _one_a_line(lines, form, language)


def _one_a_line(lines: Iterable[str], form: str, language: str | None) -> Iterator[Sentence]:
    cut = segment.words if form == "sentences" else segment.spaced_words
    position = 0
    given = after_blank = False
    for line in lines:
        sentence = cut(line, language)
        if sentence.words:
            sentence.start = position
            sentence.opens = "paragraph" if after_blank else None
            yield sentence
        given = given or bool(sentence.words)
        after_blank = given and not sentence.words
        position += len(line) + 1

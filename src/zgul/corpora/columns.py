"""Files of one word a line with its tag, a blank line after each sentence.

Covers two columns and CoNLL-2003's four or more: the word comes first and the tag last, between tabs or, in
lines without a tab, spaces. ``-DOCSTART-`` lines are passed over. Entities may be in IOB1, IOB2, BIOES or
BILOU and come out in IOB2; a file that mixes IOB1 and IOB2 is read as the CoNLL scorer does, with a warning.
Writing gives ``word TAB tag``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from zgul.corpora.lines import Lines, Sink, Source, check_word, write_blocks
from zgul.corpora.sentence import Sentence
from zgul.corpora.tags import tag_problem, to_iob2
from zgul.errors import ZgulError

DOCSTART = "-DOCSTART-"
MAX_WORDS = 1_000_000  # in one sentence; more means that this is another kind of file


def read(source: Source, task: str | None = "ner", language: str | None = None) -> Iterator[Sentence]:
    """Read sentence by sentence. ``task`` is ``pos``, ``ner``, or None for the words alone."""
    for _, words, tags in read_rows(Lines(source), task):
        yield Sentence(words, tags, language)


def write(sink: Sink, sentences: Iterable[Sentence]) -> int:
    """Write sentence by sentence, ``_`` for the tag where there are none; returns how many."""
    return write_blocks(sink, (format_rows(sentence.words, sentence.tags) for sentence in sentences if sentence.words))


def read_rows(lines: Lines, task: str | None) -> Iterator[tuple[list[int], list[str], list[str] | None]]:
    """Line numbers, words and checked tags of each sentence, entities in IOB2."""
    stray_i = needless_b = 0
    for rows in _blocks(lines, least=1 if task is None else 2):
        numbers = [number for number, _ in rows]
        words = [columns[0] for _, columns in rows]
        if task is None:
            yield numbers, words, None
            continue
        for number, columns in rows:
            if problem := tag_problem(task, columns[-1]):
                raise lines.error(problem, number)
        tags = [columns[-1] for _, columns in rows]
        if task == "ner":
            entities = to_iob2(tags)
            stray_i += sum(old[0] == "I" and new[0] == "B" for old, new in zip(tags, entities, strict=True))
            needless_b += sum(
                tag[0] == "B" and tag[2:] != before[2:] for before, tag in zip(["O", *tags], tags, strict=False)
            )
            tags = entities
        yield numbers, words, tags
    if stray_i and needless_b:
        lines.warn(f"{stray_i} entities in this file begin with I- instead of B-; they were read as if with B-")


def _blocks(lines: Lines, least: int) -> Iterator[list[tuple[int, list[str]]]]:
    """The token lines of each sentence, numbered and cut into columns."""
    rows: list[tuple[int, list[str]]] = []
    width = 0
    for line in chain(lines, [""]):
        columns = line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]
        if not line.strip() or columns[0] == DOCSTART:
            if rows:
                yield rows
                rows = []
            continue
        width = width or len(columns)
        if len(columns) != width or width < least:
            raise lines.error(_wrong_width(line, len(columns), max(width, least)))
        if not columns[0].strip():
            raise lines.error("an empty word; every line needs a word and its tag")
        rows.append((lines.number, columns))
        if len(rows) > MAX_WORDS:
            raise lines.error(f"no blank line in {MAX_WORDS:,} lines; sentences must be set apart by one")
    if lines.unfinished:
        lines.warn("the last line has no line end; the file may have been cut short")


def _wrong_width(line: str, found: int, expected: int) -> str:
    hint = "; a word must not hold a tab" if "\t" in line and found > expected else ""
    return f"{found} columns where {expected} are expected{hint}"


def format_rows(words: list[str], tags: list[str] | None) -> str:
    for word in words:
        check_word(word)
        if word == DOCSTART:
            raise ZgulError(f"{DOCSTART} marks the start of a document and cannot be written as a word")
    tags = ["_"] * len(words) if tags is None else tags
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)) + "\n"

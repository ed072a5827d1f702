"""Files with one word and its tag a line, and a blank line after each sentence.

Two columns and CoNLL-2003's four or more are read alike: the word comes first and the tag last. Columns are separated
by tabs or, in lines without a tab, by spaces. ``-DOCSTART-`` lines are skipped. Entities may be in IOB1, IOB2, BIOES
or BILOU and are converted to IOB2. A file that mixes IOB1 and IOB2 is read as the CoNLL scorer reads it, with a
warning. ``write`` gives ``word TAB tag``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zgul.corpora.lines import Lines, Sink, Source, check_word, write_blocks
from zgul.corpora.sentence import Sentence
from zgul.corpora.tags import tag_problem, to_iob2
from zgul.errors import ZgulError

DOCSTART = "-DOCSTART-"


def read(source: Source, task: str | None = "ner", language: str | None = None) -> Iterator[Sentence]:
    """Read sentence by sentence. ``task`` is ``pos``, ``ner``, or None for the words alone."""
    for _, words, tags in read_rows(Lines(source), task):
        yield Sentence(words, tags, language)


def write(sink: Sink, sentences: Iterable[Sentence]) -> int:
    """Write sentence by sentence, with ``_`` for the tag of untagged words. Returns the number of sentences."""
    return write_blocks(sink, (_format_rows(sentence) for sentence in sentences if sentence.words))


def read_rows(lines: Lines, task: str | None) -> Iterator[tuple[list[int], list[str], list[str] | None]]:
    """Read the line numbers, words and checked tags of each sentence, with entities in IOB2."""
    stray_i = needless_b = 0  # together they mean that the file mixes IOB1 and IOB2
    for rows in _blocks(lines, least=1 if task is None else 2):
        numbers = [number for number, _ in rows]
        words = [columns[0] for _, columns in rows]
        if task is None:
            yield numbers, words, None
            continue
        tags = [columns[-1] for _, columns in rows]
        for number, tag in zip(numbers, tags, strict=True):
            if problem := tag_problem(task, tag):
                raise lines.error(problem, number)
        if task == "ner":
            entities = to_iob2(tags)
            stray_i += sum(old[0] == "I" and new[0] == "B" for old, new in zip(tags, entities, strict=True))
            pairs = zip(["O", *tags], tags, strict=False)
            needless_b += sum(tag[0] == "B" and tag[2:] != before[2:] for before, tag in pairs)
            tags = entities
        yield numbers, words, tags
    if stray_i and needless_b:
        lines.warn(f"{stray_i} entities in this file begin with I- instead of B-; they were read as if with B-")


def _blocks(lines: Lines, least: int) -> Iterator[list[tuple[int, list[str]]]]:
    """Read the rows of each sentence, with line numbers and split into columns."""
    width = 0
    for first, block in lines.blocks(separator=DOCSTART):
        rows = []
        for number, line in enumerate(block, start=first):
            columns = line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]
            width = width or len(columns)
            if len(columns) != width or width < least:
                expected = max(width, least)
                hint = "; a word must not contain a tab" if "\t" in line and len(columns) > expected else ""
                raise lines.error(f"{len(columns)} columns where {expected} are expected{hint}", number)
            if not columns[0].strip():
                raise lines.error("an empty word; every line needs a word and its tag", number)
            rows.append((number, columns))
        yield rows
    if lines.unfinished:
        lines.warn("the last line has no line end; the file may have been cut short")


def _format_rows(sentence: Sentence) -> str:
    for word in sentence.words:
        check_word(word)
        if word.startswith(DOCSTART):
            raise ZgulError(f"{DOCSTART} marks the start of a document and cannot be written as a word")
    tags = ["_"] * len(sentence) if sentence.tags is None else sentence.tags
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(sentence.words, tags, strict=True)) + "\n"

"""Files with one word and its tag a line, and a blank line after each sentence.

Files may have two columns, or more as in CoNLL-2003: the word comes first and the tag last. Columns are separated
by tabs or, in lines without a tab, by spaces. ``-DOCSTART-`` lines are skipped. Entities in IOB1, IOB2, BIOES or BILOU
become IOB2. A file that mixes IOB1 and IOB2 is read as the CoNLL scorer reads it, with a warning.

WikiAnn (PAN-X) is released with Wikipedia's language code in front of every word: ``en:word TAB B-PER``.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from zgul.corpora.lines import Lines, Source, check_words
from zgul.corpora.sentence import Sentence, tag_problem, to_iob2
from zgul.errors import ZgulError
from zgul.files import create_binary

DOCSTART = "-DOCSTART-"
WIKIANN_TOKEN = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*):(.*\S.*)", re.DOTALL)


def read(source: Source, task: str | None = "ner", language: str | None = None) -> Iterator[Sentence]:
    """Read sentence by sentence. ``task`` is ``pos``, ``ner``, or None for the words alone."""
    for _, words, tags in _read_blocks(Lines(source), task):
        yield Sentence(words, tags, language)


def read_wikiann(source: Source, task: str | None = "ner", language: str | None = None) -> Iterator[Sentence]:
    """Read WikiAnn sentence by sentence. The language comes from the tokens, for each word where they differ.

    ``language`` replaces the code of a sentence's first word, because Wikipedia's codes may mean other languages: its
    ``als`` is Alemannic, not Albanian.
    """
    lines = Lines(source)
    for first, tokens, tags in _read_blocks(lines, task):
        words, languages = [], []
        for number, token in enumerate(tokens, start=first):
            if not (match := WIKIANN_TOKEN.fullmatch(token)):
                raise lines.error(f"{token!r} is not of the form lang:token; is this a plain two-column file?", number)
            languages.append(match[1])
            words.append(match[2])
        own = language or languages[0]
        mixed = [own if code == languages[0] else code for code in languages] if len(set(languages)) > 1 else None
        yield Sentence(words, tags, own, mixed)


def write(path: Path | str, sentences: Iterable[Sentence]) -> None:
    """Write sentence by sentence, with ``_`` for the tag of untagged words."""
    with create_binary(path) as file:
        for sentence in sentences:
            check_words(sentence.words)
            if any(word.startswith(DOCSTART) for word in sentence.words):
                raise ZgulError(f"{DOCSTART} marks the start of a document and cannot be written as a word")
            tags = sentence.tags or ["_"] * len(sentence)
            rows = "".join(f"{word}\t{tag}\n" for word, tag in zip(sentence.words, tags, strict=True))
            try:
                file.write(f"{rows}\n".encode() if rows else b"")
            except UnicodeEncodeError as error:
                problem = f"{rows[error.start]!r} is half of a character and cannot be written as UTF-8"
                raise ZgulError(problem) from error


def _read_blocks(lines: Lines, task: str | None) -> Iterator[tuple[int, list[str], list[str] | None]]:
    """Read the first line number, the words and the checked tags of each sentence, with entities in IOB2."""
    width = 0
    stray_i = needless_b = 0  # together they mean that the file mixes IOB1 and IOB2
    for first, block in lines.blocks(separator=DOCSTART):
        rows = []
        for number, line in enumerate(block, start=first):
            columns = line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]
            width = width or max(len(columns), 1 if task is None else 2)
            if len(columns) != width:
                hint = "; a word must not contain a tab" if "\t" in line and len(columns) > width else ""
                raise lines.error(f"{len(columns)} columns where {width} are expected{hint}", number)
            if not columns[0].strip():
                raise lines.error("an empty word; every line needs a word and its tag", number)
            if task is not None and (problem := tag_problem(task, columns[-1])):
                raise lines.error(problem, number)
            rows.append(columns)
        tags = None if task is None else [row[-1] for row in rows]
        if task == "ner" and tags is not None:
            entities = to_iob2(tags)
            stray_i += sum(old[0] == "I" and new[0] == "B" for old, new in zip(tags, entities, strict=True))
            pairs = zip(["O", *tags], tags, strict=False)
            needless_b += sum(tag[0] == "B" and tag[2:] != before[2:] for before, tag in pairs)
            tags = entities
        yield first, [row[0] for row in rows], tags
    if lines.unfinished:
        lines.warn("the last line has no line end; the file may have been cut short")
    if stray_i and needless_b:
        lines.warn(f"{stray_i} entities in this file begin with I- instead of B-; the I- was read as B-")

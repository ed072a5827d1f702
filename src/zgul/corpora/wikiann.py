"""WikiAnn (PAN-X) as released: ``en:token TAB B-PER``, the language in front of every token.

Everything else is as in ``columns``. The prefix is Wikipedia's own language code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zgul.corpora.columns import format_rows, read_rows
from zgul.corpora.lines import Lines, Sink, Source, write_blocks
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError


def read(source: Source, task: str | None = "ner") -> Iterator[Sentence]:
    """Read sentence by sentence; the language comes from the tokens, word by word where they differ."""
    lines = Lines(source)
    for numbers, tokens, tags in read_rows(lines, task):
        pairs = [token.split(":", 1) for token in tokens]
        for number, token, pair in zip(numbers, tokens, pairs, strict=True):
            if len(pair) != 2 or not pair[0].replace("-", "").isalnum() or not pair[1].strip():
                raise lines.error(f"{token!r} is not of the form lang:token; is this a plain two-column file?", number)
        languages = [language for language, _ in pairs]
        mixed = len(set(languages)) > 1
        yield Sentence([word for _, word in pairs], tags, languages[0], languages if mixed else None)


def write(sink: Sink, sentences: Iterable[Sentence]) -> int:
    """Write sentence by sentence; returns how many. Every sentence needs its language."""
    return write_blocks(sink, (_block(sentence) for sentence in sentences if sentence.words))


def _block(sentence: Sentence) -> str:
    languages = sentence.word_languages or [sentence.language or ""] * len(sentence)
    if not all(languages):
        raise ZgulError("WikiAnn's form needs the language of every sentence; set it or write columns instead")
    tokens = [f"{language}:{word}" for language, word in zip(languages, sentence.words, strict=True)]
    return format_rows(tokens, sentence.tags)

"""WikiAnn (PAN-X) as released: ``en:token TAB B-PER``, with Wikipedia's language code in front of every token.

Everything else is as in ``columns``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zgul.corpora.columns import read_rows
from zgul.corpora.lines import Lines, Source
from zgul.corpora.sentence import Sentence

TOKEN = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*):(.*\S.*)", re.DOTALL)


def read(source: Source, task: str | None = "ner") -> Iterator[Sentence]:
    """Read sentence by sentence. The language comes from the tokens, for each word where they differ."""
    lines = Lines(source)
    for numbers, tokens, tags in read_rows(lines, task):
        words, languages = [], []
        for number, token in zip(numbers, tokens, strict=True):
            match = TOKEN.fullmatch(token)
            if match is None:
                raise lines.error(f"{token!r} is not of the form lang:token; is this a plain two-column file?", number)
            languages.append(match[1])
            words.append(match[2])
        mixed = len(set(languages)) > 1
        yield Sentence(words, tags, languages[0], languages if mixed else None)

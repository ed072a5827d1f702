"""What ``zgul tag`` reads: running text, a sentence a line, words a line, CoNLL-U, a word a line; from anywhere."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

from zgul.corpora import columns, conllu, plain_text
from zgul.corpora.lines import MAX_LINE, damage
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.files import DAMAGED, open_binary

KINDS = {
    "text": "running text",
    "lines": "a sentence a line",
    "tokens": "a sentence a line, with spaces between all words",
    "conllu": "CoNLL-U, whose other columns are kept",
    "columns": "a word a line, a blank line after each sentence; other columns are not read",
}
AUTO = "auto"
_PACKED = (".xz", ".gz", ".bz2", ".zst")
_LOOKS_LIKE_CONLLU = re.compile(
    rb"(\xef\xbb\xbf)?"  # a byte-order mark
    rb"(# *(newdoc|newpar)\s*$"
    rb"|# *((newdoc|newpar) +)?[\w.:-]+ *=\s"  # "# key = value"
    rb"|1(-\d+)?\t([^\t\n]+\t){8}[^\t\n]+$)"  # ten columns
)
_LOOKS_LIKE_A_PATH = re.compile(r"\S*[/\\]\S+|\S*[^\s.]\.[A-Za-z][A-Za-z0-9]{0,7}")


@dataclass(slots=True)
class Item:
    """A sentence and, if it came from CoNLL-U, the block it stood in."""

    sentence: Sentence
    block: conllu.ConlluSentence | None = None

    def __len__(self) -> int:
        return len(self.sentence)


class Input:
    """A binary stream with a name for messages; knows its first line and how far it has been read."""

    def __init__(self, stream: BinaryIO | IO[bytes], name: str, size: int | None = None) -> None:
        self.name = name
        self.size = size  # in bytes, where it is known
        self.position = 0
        self._stream = stream
        self._first: bytes | None = None
        self.guessed = False  # whether its kind was guessed from the first line

    def readline(self, limit: int = -1) -> bytes:
        line = self._stream.readline(limit) if self._first is None else self._first
        self._first = None
        self.position += len(line)
        return line

    def kind(self) -> str:
        """What the name and the first line say it is: CoNLL-U or running text."""
        path = Path(self.name)
        suffix = Path(path.stem).suffix if path.suffix in _PACKED else path.suffix
        if suffix == ".conllu":
            return "conllu"
        if suffix == ".tsv":
            return "columns"
        if self._first is None:
            try:
                self._first = self._stream.readline(MAX_LINE)
            except DAMAGED as error:
                raise damage(self.name, 0, error) from error
        self.guessed = True
        return "conllu" if _LOOKS_LIKE_CONLLU.match(self._first) else "text"

    def is_file(self, path: Path) -> bool:
        """Whether this is what is read: a file of its own, under any name, and not a device such as a terminal."""
        try:
            ours, other = os.fstat(self._stream.fileno()), path.stat()
        except (OSError, ValueError):  # no such file, or a stream that has none
            return False
        return stat.S_ISREG(ours.st_mode) and os.path.samestat(ours, other)


def open_input(given: list[str]) -> Input:
    """A file, ``-`` or nothing for standard input, or else the text itself."""
    if not given or given == ["-"]:
        return Input(open_binary("-"), "standard input")
    words = " ".join(given)
    if not words.strip():
        raise ZgulError("the text is empty; give some text, the name of a file, or - for standard input")
    if len(given) > 1 and (found := [part for part in given if len(part) > 3 and Path(part).is_file()]):
        raise ZgulError(f"{found[0]} is a file, but it is not the only thing given; tag one file at a time")
    if len(given) == 1 and _is_path(given[0]):
        path = Path(given[0])
        size = path.stat().st_size if path.suffix not in _PACKED and path.is_file() else None
        return Input(open_binary(path), str(path), size)
    return Input(io.BytesIO(words.encode("utf-8", "surrogateescape")), "the text given")


def _is_path(given: str) -> bool:
    """Whether it names a file; what looks like a file's name and is none is an error rather than a text."""
    try:
        if Path(given).exists():
            return True
    except (OSError, ValueError):  # too long for a name, or with a NUL: not a file
        return False
    if _LOOKS_LIKE_A_PATH.fullmatch(given):
        raise ZgulError(f"{given}: no such file. If it is meant as text: echo '{given}' | zgul tag …")
    return False


def read(source: Input, kind: str = AUTO) -> Iterator[Item]:
    """The sentences of an input, while it is read."""
    kind = source.kind() if kind == AUTO else kind
    stream: Any = source
    if kind == "conllu":
        blocks = conllu.read(stream, check_upos=False)
        items = (Item(block.to_sentence(), block) for block in blocks)
        return _or_text(items) if source.guessed else items
    if kind == "columns":
        return map(Item, columns.read(stream, task=None))
    forms = {"text": "raw", "lines": "sentences", "tokens": "words"}
    if kind not in forms:
        raise ZgulError(f"unknown kind of input {kind!r}: choose {', '.join((AUTO, *KINDS))}")
    return map(Item, plain_text.read(stream, forms[kind]))


def _or_text(items: Iterator[Item]) -> Iterator[Item]:
    """What is taken for CoNLL-U may be text that only begins like it."""
    try:
        yield from items
    except ZgulError as error:
        raise ZgulError(f"{error} (It begins like CoNLL-U. If it is text, say so: --input text)") from error

"""Lines of text from a file, a compressed file, standard input or an open stream.

All readers share this module. It refuses bytes that are not UTF-8, NUL characters, damaged or truncated compressed
files, and lines over 16 MiB; the ``ZgulError`` names the file and the line. It repairs a byte-order mark and Windows
line ends, with one ``ZgulWarning`` per file.
"""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from zgul.errors import ZgulError, ZgulWarning
from zgul.files import DAMAGED, open_binary

Source = Path | str | IO[Any]  # a path, "-" for standard input, or a stream opened as binary or text

MAX_LINE = 1 << 24  # bytes
MAX_BLOCK_LINES, MAX_BLOCK = 100_000, 1 << 24  # lines and characters between two blank lines
BOM = "\ufeff"
_TOO_LONG = "longer than 16 MiB; is this a text file?"
_NUL = "a NUL character; is this a text file in UTF-8?"


class Lines:
    """Iterates over the lines of a source without their line ends, and knows the current line number."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "input"))
        self.name = "standard input" if self.name == "-" else self.name
        self.number = 0  # of the current line, from 1
        self.unfinished = False  # the current line has no line end

    def __iter__(self) -> Iterator[str]:
        stream = open_binary(self.source) if isinstance(self.source, str | Path) else self.source
        ours = isinstance(self.source, str | Path) and str(self.source) != "-"
        windows = False
        with stream if ours else contextlib.nullcontext():
            for raw in self._raw(stream):
                self.number += 1
                line: str = raw if isinstance(raw, str) else self._decode(raw)
                self.unfinished = line[-1] != "\n"
                if self.unfinished and len(raw) >= MAX_LINE:
                    raise self.error(_TOO_LONG)
                if line.endswith("\r\n") and not windows:
                    windows = True
                    self.warn("Windows line ends are read as plain ones")
                if not self.unfinished:
                    line = line[:-1].removesuffix("\r")
                if "\0" in line:
                    raise self.error(_NUL)
                if self.number == 1 and line.startswith(BOM):
                    line = line[1:]
                    self.warn("the byte-order mark at the start of the file was dropped")
                yield line

    def blocks(self, separator: str = "\n") -> Iterator[tuple[int, list[str]]]:
        """Blocks of lines between blank lines or lines that begin with ``separator``, with their first line number."""
        block: list[str] = []
        characters = 0
        for line in self:
            if line and not line.isspace() and not line.startswith(separator):
                block.append(line)
                characters += len(line)
                if len(block) > MAX_BLOCK_LINES or characters > MAX_BLOCK:
                    raise self.error(f"no blank line in {MAX_BLOCK_LINES:,} lines or {MAX_BLOCK:,} characters")
            elif block:
                yield self.number - len(block), block
                block, characters = [], 0
        if block:
            yield self.number - len(block) + 1, block

    def error(self, problem: str, line: int = 0) -> ZgulError:
        """Make an error that names the file and a line, by default the current one."""
        return ZgulError(f"{self.name}, line {line or self.number}: {problem}")

    def warn(self, repair: str) -> None:
        """Tell the user about something that was repaired in the current line."""
        warnings.warn(f"{self.name}, line {self.number}: {repair}", ZgulWarning, stacklevel=3)

    def _raw(self, stream: IO[Any]) -> Iterator[Any]:
        try:
            while raw := stream.readline(MAX_LINE):
                yield raw
        except UnicodeDecodeError as error:  # a text stream decodes by itself
            raise ZgulError(f"{self.name}, after line {self.number}: not UTF-8 ({error.reason})") from error
        except DAMAGED as error:
            raise damage(self.name, self.number, error) from error

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            advice = "convert the file first, for example: iconv -f ISO-8859-1 -t UTF-8"
            problem = f"byte {error.start + 1} ({raw[error.start]:#04x}) is not UTF-8; {advice}"
            if self.number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
                problem = "this is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"
            elif b"\0" in raw:  # a program or a picture, for which no encoding will help
                problem = _NUL
            elif len(raw) >= MAX_LINE:
                problem = _TOO_LONG
            raise self.error(problem) from error


def damage(name: str, line: int, error: Exception) -> ZgulError:
    """Make a `ZgulError` from one of the errors ``DAMAGED``, which was raised after this many lines."""
    return ZgulError(f"{name}, after line {line}: damaged or cut short ({error}); get a whole copy of the file")


def check_words(words: list[str]) -> None:
    """Refuse words that would break a format with one word a line."""
    for word in words:
        if not word.strip() or any(character in word for character in "\t\n\r\0"):
            raise ZgulError(f"the word {word!r} cannot be written: it is blank or contains a tab, line end or NUL")

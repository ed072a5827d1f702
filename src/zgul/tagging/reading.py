"""Find and read the input to be tagged: texts, standard input, files, folders; plain text, CoNLL-U, a word a line.

The kind of a file is found from its name and its beginning. Text in UTF-16 or Latin-1 is decoded with a warning. The
text of docx, odt and HTML is taken out of them (`zgul.tagging.rich_text`). Other formats are refused, with advice on
how to save them as plain text; so is what is no text at all, such as a picture.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import stat
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zgul.corpora import columns, conllu, plain_text
from zgul.corpora.lines import MAX_BLOCK_LINES, MAX_LINE, damage
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import DAMAGED, PACKINGS, open_binary
from zgul.tagging.rich_text import DAMAGED_DOCUMENT, OFFICE, html_text, looks_like_html, office_text, read_limited

FORMS = {"auto": "auto", "text": "raw", "lines": "sentences", "tokens": "words"}  # of `plain_text`
KINDS = (*FORMS, "conllu", "columns")
GUESSED_FROM = 400  # words, at most
LATIN1 = "cp1252"  # Latin-1 as Windows extended it

_SAVE_AS = 'Open it in a word processor and save it as "plain text" in UTF-8.'
_NOT_TEXT = {  # how files that are not plain text begin, what they are, what to do
    b"%PDF-": ("a PDF file", "Convert it first: pdftotext FILE.pdf, or copy the text into a text file."),
    b"{\\rtf": ("an RTF file", _SAVE_AS),
    b"\xd0\xcf\x11\xe0": ("an old Word or Office file", _SAVE_AS),
}
_LOOKS_LIKE_A_PATH = re.compile(r"\S*[/\\]\S+|\S*[^\s.]\.[A-Za-z][A-Za-z0-9]{0,7}")


@dataclass(frozen=True)
class TextSource:
    """Where text comes from: a file, standard input (``-``), or the text itself."""

    name: str  # for messages
    path: Path | None = None
    text: str = ""
    place: Path = Path()  # the path of a file below the given folder

    @property
    def is_file(self) -> bool:
        return self.path is not None and str(self.path) != "-"

    @property
    def size(self) -> int:
        """The size in bytes; 0 if it is not known, as that of a pipe."""
        if self.path is None or self.path.suffix in PACKINGS:
            return 0
        with contextlib.suppress(OSError, ValueError):  # standard input may be closed, or no real file
            about = self.path.stat() if self.is_file else os.fstat(sys.stdin.fileno())  # `zgul tag < book.txt`
            return about.st_size if stat.S_ISREG(about.st_mode) else 0
        return 0

    @contextlib.contextmanager
    def open(self, kind: str = "auto", *, choice: bool = True) -> Iterator[Input]:
        """Open the source for reading. ``kind`` is one of `KINDS`; ``choice``: the user can choose it."""
        stream = open_binary(self.path) if self.path else io.BytesIO(self.text.encode("utf-8", "surrogateescape"))
        try:
            yield Input(stream, self.name, kind, choice)
        finally:
            if self.is_file:
                stream.close()


class Input:
    """An open source. Lines that were looked at in advance are read again later.

    ``auto`` becomes the kind that the name or the beginning shows. If ``kind`` stays ``auto``, the input is plain text,
    and its form is found later. Without ``choice``, no message advises ``--input``.
    """

    def __init__(self, stream: Any, name: str, kind: str = "auto", choice: bool = True) -> None:
        self.name, self.choice = name, choice
        self.position = self.characters = 0  # bytes and characters that were read
        self._given = self._stream = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
        self._scale = 1.0  # bytes of the source for each byte of its text
        self._waiting: deque[bytes | str] = deque()  # lines that were looked at
        self.encoding = "ascii"  # so far; other lines may show that it is UTF-8, Latin-1 or UTF-16
        try:
            self._beginning = self._stream.peek(1024)[:1024]
        except DAMAGED as error:
            raise damage(name, 0, error) from error
        if not_text := next((about for magic, about in _NOT_TEXT.items() if self._beginning.startswith(magic)), None):
            raise ZgulError(f"{name} is {not_text[0]}, but zgul reads plain text. {not_text[1]}")
        if self._beginning.startswith(OFFICE):
            self._take_text(office_text, f"{name} is a docx, odt or other zip file that cannot be read. {_SAVE_AS}")
        if utf16 := _find_utf16(self._beginning):
            self.encoding, self._scale = "utf-16", 2.0
            self._stream = io.TextIOWrapper(self._stream, utf16, newline="\n")
            warnings.warn(f"{name} is read as UTF-16.", ZgulWarning, stacklevel=3)
        elif b"\0" in self._beginning:
            raise ZgulError(f"{name} is not a text file: it has NUL characters. Save its text in UTF-8.")
        path = Path(name)
        suffix = Path(path.stem).suffix if path.suffix in PACKINGS else path.suffix
        known = kind if kind != "auto" else {".conllu": "conllu", ".tsv": "columns"}.get(suffix)
        self.guessed = known is None  # from the beginning
        self.kind = known or self._guess_kind()

    def readline(self, limit: int = -1) -> bytes | str:
        """The next line, decoded if it is not UTF-8. The reader reports a line that cannot be decoded."""
        return self._waiting.popleft() if self._waiting else self._next_line(limit)

    def look(self, words: int = 1) -> list[str]:
        """Look at the first lines, until they hold this many words. They are still read later."""
        count = sum(len(line.split()) for line in self._waiting)
        try:
            while count < words and (line := self._next_line(MAX_LINE)):
                self._waiting.append(line)
                count += len(line.split())
                if len(self._waiting) > MAX_BLOCK_LINES or self.position > 2 * MAX_LINE:
                    raise ZgulError(f"{self.name} begins with too many blanks. Is this a text file?")
        except (*DAMAGED, UnicodeDecodeError) as error:  # the latter of UTF-16
            raise damage(self.name, len(self._waiting), error) from error
        return [line if isinstance(line, str) else line.decode("utf-8", "replace") for line in self._waiting]

    def refuse_empty(self) -> None:
        if not any(map(str.strip, self.look())):
            raise ZgulError(f"{self.name} holds no words, so there is nothing to tag.")

    def _take_text(self, text_of: Callable[[bytes], str], problem: str) -> None:
        """Read a document with layout, and go on with its text."""
        try:
            content = read_limited(self._stream)
            text = text_of(content).encode("utf-8")
        except (*DAMAGED, *DAMAGED_DOCUMENT) as error:
            raise ZgulError(problem) from error
        except ZgulError as error:
            raise ZgulError(f"{self.name}: {error}") from error
        self._stream, self._beginning, self._scale = io.BytesIO(text), b"", len(content) / max(1, len(text))

    def _guess_kind(self) -> str:
        if looks_like_html(self._beginning):
            self._take_text(html_text, f"{self.name} is an HTML page that cannot be read. {_SAVE_AS}")
            problem = f"{self.name} is an HTML page. Its text is read, without the marks."
            advice = " To read the file as it is, use --input text." if self.choice else ""
            warnings.warn(f"{problem}{advice}", ZgulWarning, stacklevel=4)
        first = next((line for line in self.look() if line.strip()), "")
        return "conllu" if conllu.looks_like_conllu(first) else "auto"

    def is_same_file(self, path: Path) -> bool:
        """Whether this path is the file that is read, under any name."""
        try:
            return path.is_file() and os.path.samestat(os.fstat(self._given.fileno()), path.stat())
        except (OSError, ValueError):  # this is a text, or a stream without a file
            return False

    def _next_line(self, limit: int) -> bytes | str:
        line: bytes | str = self._stream.readline(limit)
        self.position += round(len(line) * self._scale)
        if not isinstance(line, str) and self.encoding != "utf-8" and not line.isascii() and len(line) != limit:
            line = self._decode(line)
        self.characters += len(line if isinstance(line, str) else line.decode("utf-8", "replace"))
        return line

    def bytes_until(self, character: int) -> int:
        """How many bytes were read up to a character of plain text. Readers are ahead, by a paragraph or more."""
        if self.kind not in FORMS or not self.characters:
            return self.position
        return min(self.position, self.position * character // self.characters)

    def _decode(self, line: bytes) -> bytes | str:
        """Decode a line with letters other than ASCII. The first such line shows whether the text is UTF-8."""
        with contextlib.suppress(UnicodeDecodeError):
            text = line.decode("utf-8")
            if self.encoding == LATIN1:
                problem = "has lines in UTF-8 and lines in another encoding. Convert it to UTF-8 first."
                raise ZgulError(f"{self.name} {problem}")
            self.encoding = "utf-8"
            return text
        text = line.decode(LATIN1, "replace")
        letters = [letter for letter in text if letter.isalpha()]
        western = 2 * sum(map(str.isascii, letters)) >= len(letters)  # most letters are ASCII
        if not western or not all((sign.isprintable() and sign != "\ufffd") or sign.isspace() for sign in text):
            return line
        if self.encoding != LATIN1:
            self.encoding = LATIN1
            problem = f"{self.name} is not UTF-8. It is read as Latin-1 (Windows-1252)."
            advice = "If letters come out wrong, convert it first: iconv -f ENCODING -t UTF-8"
            warnings.warn(f"{problem} {advice}", ZgulWarning, stacklevel=4)
        return text


def _find_utf16(beginning: bytes) -> str:
    """The name of the encoding of text in UTF-16: with a mark, or with mostly Latin letters. Else nothing."""
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    nul_first, nul_second = beginning[::2].count(0), beginning[1::2].count(0)
    if min(nul_first, nul_second) or 4 * max(nul_first, nul_second) < len(beginning) or len(beginning) < 8:
        return ""
    encoding = "utf-16-be" if nul_first else "utf-16-le"
    text = beginning[: len(beginning) // 2 * 2].decode(encoding, "replace")[:-1]  # without half a sign at the end
    return encoding if all((sign.isprintable() and sign != "\ufffd") or sign.isspace() for sign in text) else ""


def find_sources(
    given: Sequence[str | Path], leave_out: Path | None = None, *, files_only: bool = False
) -> list[TextSource]:
    """Find what a user's arguments mean: standard input (no argument, or ``-``), files, folders, patterns or text.

    An argument that is none of the others is the text itself, unless it looks like the name of a file, or only files
    can be given: that is an error. Folders are searched, except for hidden files and the folder ``leave_out``.
    """
    names = list(map(str, given))
    if not names or names == ["-"]:
        return [TextSource("standard input", Path("-"))]
    if not "".join(names).strip():
        raise ZgulError("The text is empty. Give some text, the name of a file, or - for standard input.")
    found = {name: _find_files(name, leave_out) for name in names}
    missing = [name for name, files in found.items() if files is None]
    if not missing:
        sources = {source.path: source for files in reversed(found.values()) for source in reversed(files or [])}
        if not sources:
            raise ZgulError(f"{', '.join(names)} holds no files.")
        return list(sources.values())[::-1]
    if files_only:
        raise ZgulError(f"{missing[0][:60]}: no such file or folder")
    if any(files and len(name) > 3 and Path(name).is_file() for name, files in found.items()):
        raise ZgulError(f"{missing[0]}: no such file. Give files alone, or text alone.")
    if all(map(_LOOKS_LIKE_A_PATH.fullmatch, names)):
        missed = "no file has such a name" if glob.has_magic(names[0]) else "no such file"
        raise ZgulError(f"{names[0]}: {missed}. If it is meant as text: echo '{names[0]}' | zgul tag …")
    return [TextSource("the text given", text=" ".join(names))]


def _find_files(name: str, leave_out: Path | None) -> list[TextSource] | None:
    """The files that a name or a pattern means, or None if nothing has this name."""
    path = Path(name)
    try:
        if path.is_dir():
            skipped = leave_out.resolve() if leave_out is not None else None
            places = {file: file.relative_to(path) for file in sorted(path.rglob("*")) if file.is_file()}
            sources = [TextSource(str(file), file, place=place) for file, place in places.items()]
            sources = [source for source in sources if not any(part.startswith(".") for part in source.place.parts)]
            return [source for source in sources if skipped not in Path(source.name).resolve().parents]
        if path.exists():
            return [TextSource(name, path, place=Path(path.name))]
        matching = sorted(map(Path, glob.iglob(name, recursive=True))) if glob.has_magic(name) else []  # noqa: PTH207
    except (OSError, ValueError):  # too long for a name, or with a NUL: not a file
        return None
    return [TextSource(str(file), file, place=Path(file.name)) for file in matching if file.is_file()] or None


def read(source: Input, language: str | None = None) -> Iterator[Sentence]:
    """Read the sentences of an input, one by one. ``language`` helps to find the ends of sentences."""
    stream: Any = source
    if source.kind == "conllu":
        return _read_conllu(source)
    if source.kind == "columns":
        return columns.read(stream, task=None)
    return plain_text.read(stream, FORMS[source.kind], language)


def _read_conllu(source: Any) -> Iterator[Sentence]:
    """Read CoNLL-U. If the kind was guessed, an error adds that the input may be text that only begins like CoNLL-U."""
    try:
        for block in conllu.read(source, check_upos=False):
            yield replace(block.to_sentence(), block=block)
    except ZgulError as error:
        if not source.guessed:
            raise
        advice = "use --input text" if source.choice else "begin it with another line"
        raise ZgulError(f"{error} (It begins like CoNLL-U. If it is text, {advice}.)") from error


def sample_text(source: Input) -> str:
    """Some hundred words from the beginning of an input, to guess its language from."""
    lines = source.look(GUESSED_FROM)
    if source.kind in FORMS:
        return "".join(lines)
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    column = 1 if source.kind == "conllu" else 0
    return " ".join(row[column] for row in rows if len(row) > column)

"""Outputs that appear whole: written as ``OUTPUT.part``, renamed when they are complete, resumed when interrupted.

An interrupted output goes on after the last window (see `zgul.tagging.text_tagger`) that it holds completely. First
all its words are compared with those of the input, and its first window is tagged again. A file of another text, or
one that was tagged in another way, is refused and stays as it is. The result is the file that an uninterrupted run
gives on the same kind of device.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.files import PACKINGS

Windows = Iterator[list[Sentence]]
OTHER = "Write to another file, or replace it with --force."
ANOTHER_WAY = "was tagged in another way (language, task, format, weights, EM, device, tagger or version)"


@dataclass
class OutputFile:
    """A file that is written beside its place. Devices and pipes are written directly."""

    path: Path
    form: str
    resume: bool = False  # go on with what was interrupted
    force: bool = False  # replace what is there
    held: int = field(default=0, init=False)  # sentences that it holds already
    size: int = field(default=0, init=False)  # and their bytes

    @property
    def is_special(self) -> bool:
        return self.path.exists() and not self.path.is_file()

    @property
    def part(self) -> Path:
        """The unfinished file."""
        return self.path if self.is_special else self.path.with_name(self.path.name + ".part")

    def check(self) -> None:
        """Refuse a place that cannot be written, before any work is done."""
        if self.path.suffix in PACKINGS:
            raise ZgulError(f"{self.path}: output is not compressed, so that it can be resumed. Compress it later.")
        if self.path.is_dir():
            raise ZgulError(f"{self.path} is a folder. A file is needed here.")
        if not self.path.parent.is_dir():
            raise ZgulError(f"{self.path} cannot be written: there is no folder {self.path.parent}.")
        if self.part.is_file() and not (self.resume or self.force):
            raise ZgulError(f"{self.part} was not finished. Go on with it with --resume, or begin anew with --force.")

    def skip_held(self, windows: Windows, to_text: Callable[[list[Sentence]], str]) -> Windows | None:
        """The windows that are not in the output yet; None if it is complete. Refuse whatever would be lost.

        ``to_text`` gives the text of the first window.
        """
        exists = self.path.is_file() and self.path.stat().st_size > 0
        if self.resume and self.part.is_file():
            if exists and not self.force:
                raise ZgulError(f"{self.path} exists beside {self.part}. Replace it with --force.")
            return self._skip(self.part, windows, to_text)
        if not exists or self.force:
            return windows
        windows = self._skip(self.path, windows, to_text)
        left = list(islice(windows, 1))
        if not left and self.size == self.path.stat().st_size:
            return None
        if not self.resume:
            raise ZgulError(f"{self.path} is not complete. Go on with it with --resume, or replace it with --force.")
        self.path.rename(self.part)
        return chain(left, windows)

    def _skip(self, path: Path, windows: Windows, to_text: Callable[[list[Sentence]], str]) -> Windows:
        """Go past the windows that a file holds completely. A file that does not begin like the input is refused."""
        self.held = self.size = 0
        with path.open("rb") as file:
            blocks = _read_blocks(file, self.form)
            for window in windows:
                held = list(islice(blocks, len(window)))
                for number, ((_, text), sentence) in enumerate(zip(held, window, strict=False), start=self.held + 1):
                    if _words(text, self.form) != sentence.words:
                        raise ZgulError(f"{path} holds another text: sentence {number} has other words. {OTHER}")
                if not self.held:
                    expected = to_text(window).encode("utf-8")
                    with path.open("rb") as again:
                        if not expected.startswith(again.read(len(expected))):
                            raise ZgulError(f"{path} holds something else, or {ANOTHER_WAY}. {OTHER}")
                if len(held) < len(window):
                    return chain([window], windows)
                self.held, self.size = self.held + len(window), held[-1][0]
            if next(blocks, None) is not None:
                raise ZgulError(f"{path} has more sentences than the input. {OTHER}")
        return windows

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the unfinished file after what it holds. It is moved to its place at the end."""
        try:
            with self.part.open("r+b" if self.size else "wb") as sink:
                if self.size:
                    sink.truncate(self.size)
                    sink.seek(self.size)
                yield sink
            if not self.is_special:
                self.part.replace(self.path)
        except (KeyboardInterrupt, ZgulError) as stop:
            if self.is_special:
                raise
            go_on = f"{self.part} holds what is done; the same command with --resume goes on with it"
            raise type(stop)(f"{stop} {go_on}".lstrip()) from stop
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ZgulError(f"{self.path} cannot be written ({error.strerror}).") from error


def _read_blocks(file: IO[bytes], form: str) -> Iterator[tuple[int, str]]:
    """The complete blocks of a file, each with the position where it ends; an incomplete last one is left out."""
    block, position = b"", 0
    for line in file:
        block += line
        if line == b"\n" or (form == "json" and line.endswith(b"\n")):
            position += len(block)
            yield position, block.decode("utf-8", "replace")
            block = b""


def _words(block: str, form: str) -> list[str] | None:
    """The words of a block; None if it is not in this format."""
    try:
        if form == "json":
            return list(json.loads(block)["words"])
        rows = [line.split("\t") for line in block.split("\n") if line]
        return [row[1] for row in rows if row[0].isdigit()] if form == "conllu" else [row[0] for row in rows]
    except (ValueError, KeyError, IndexError, TypeError):
        return None

"""Outputs that appear whole: written as ``OUTPUT.part``, renamed when they are complete, resumed when interrupted.

An interrupted output goes on after the last window (see `zgul.tagging.text_tagger`) that it holds completely. First
all its words are compared with those of the input, and its first window is tagged again. A file of another text, or
one that was tagged in another way, is refused and stays as it is. The result is the file that an uninterrupted run
gives on the same kind of device.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO

from zgul.errors import ZgulError
from zgul.files import PACKINGS
from zgul.tagging.reading import Item

Render = Callable[[list[Item], int], str]  # the text of a window whose first sentence has this number


@dataclass
class Start:
    """Where writing begins: after the sentences that the output holds already."""

    windows: Iterator[list[Item]]  # still to be tagged
    sentences: int = 0  # that are held
    size: int = 0  # their bytes
    complete: bool = False  # the output holds all there is


@dataclass(frozen=True)
class OutputFile:
    """A file that is written beside its place. Devices and pipes are written directly."""

    path: Path
    form: str
    resume: bool = False  # go on with what was interrupted
    force: bool = False  # replace what is there

    @property
    def part(self) -> Path:
        """The unfinished file."""
        return self.path if self._is_special() else self.path.with_name(self.path.name + ".part")

    def check(self) -> None:
        """Refuse a place that cannot be written, before any work is done."""
        if self.path.suffix in PACKINGS:
            raise ZgulError(
                f"{self.path}: output is not compressed, so that it can be resumed. Compress it afterwards."
            )
        if self.path.is_dir():
            raise ZgulError(f"{self.path} is a folder. A file is needed here.")
        if not self.path.parent.is_dir():
            raise ZgulError(f"{self.path} cannot be written: there is no folder {self.path.parent}.")
        if self.part.exists() and not (self._is_special() or self.resume or self.force):
            advice = "Go on with it with --resume, or begin anew with --force."
            raise ZgulError(f"{self.part} was not finished. {advice}")

    def start(self, windows: Iterator[list[Item]], render: Render) -> Start:
        """Compare what is there with the input. Whatever would be lost is refused."""
        there = not self._is_special() and self.path.is_file() and self.path.stat().st_size > 0
        if self.resume and self.part.is_file() and not self._is_special():
            if there and not self.force:
                raise ZgulError(f"{self.path} exists beside {self.part}. Replace it with --force.")
            return _held(self.part, self.form, windows, render)
        if not there or self.force:
            return Start(windows)
        start = _held(self.path, self.form, windows, render)
        if not start.complete:
            if not self.resume:
                raise ZgulError(
                    f"{self.path} is not complete. Go on with it with --resume, or replace it with --force."
                )
            self.path.rename(self.part)
        return start

    @contextlib.contextmanager
    def open(self, size: int = 0) -> Iterator[IO[bytes]]:
        """Open the unfinished file after the first ``size`` bytes. It is moved to its place at the end."""
        special = self._is_special()
        try:
            with self.part.open("r+b" if size else "wb") as sink:
                if not special:
                    sink.truncate(size)
                    sink.seek(size)
                yield sink
            if not special:
                self.part.replace(self.path)
        except KeyboardInterrupt as stop:
            if special:
                raise
            go_on = f"{self.part} holds what is done; the same command with --resume goes on with it"
            raise KeyboardInterrupt(go_on) from stop
        except ZgulError as error:
            raise ZgulError(f"{error} What was tagged before is in {self.part}; --resume goes on with it.") from error
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ZgulError(f"{self.path} cannot be written ({error.strerror}).") from error

    def _is_special(self) -> bool:
        return self.path.exists() and not self.path.is_file()


def _held(path: Path, form: str, windows: Iterator[list[Item]], render: Render) -> Start:
    """The complete windows of the input that a file holds. A file that is not its beginning is refused."""
    other = "Write to another file, or replace it with --force."
    done = size = 0
    with path.open("rb") as file:
        blocks = _blocks(file, form)
        for window in windows:
            held = list(islice(blocks, len(window)))
            for number, ((_, text), item) in enumerate(zip(held, window, strict=False), start=done + 1):
                if _words(text, form, path) != item.sentence.words:
                    raise ZgulError(f"{path} holds another text: sentence {number} has other words. {other}")
            if not done and not _begins_like(path, render(window, 1).encode("utf-8")):
                reasons = "language, task, format, weights, EM, device, tagger or version"
                raise ZgulError(f"{path} holds something else, or was tagged in another way ({reasons}). {other}")
            if len(held) < len(window):
                return Start(chain([window], windows), done, size)
            done, size = done + len(window), held[-1][0]
        if next(blocks, None) is not None:
            raise ZgulError(f"{path} has more sentences than the input. {other}")
    return Start(iter(()), done, size, complete=size == path.stat().st_size)


def _begins_like(path: Path, expected: bytes) -> bool:
    with path.open("rb") as file:
        return expected.startswith(file.read(len(expected)))


def _blocks(file: IO[bytes], form: str) -> Iterator[tuple[int, str]]:
    """The complete blocks of a file, each with the position where it ends; an incomplete last one is left out."""
    lines: list[bytes] = []
    position = 0
    for line in file:
        position += len(line)
        lines.append(line)
        if line == b"\n" or (form == "json" and line.endswith(b"\n")):
            yield position, b"".join(lines).decode("utf-8", "replace")
            lines = []


def _words(block: str, form: str, path: Path) -> list[str]:
    try:
        if form == "json":
            return list(json.loads(block)["words"])
        rows = [line.split("\t") for line in block.split("\n") if line]
        return [row[1] for row in rows if row[0].isdigit()] if form == "conllu" else [row[0] for row in rows]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ZgulError(f"{path} is not a file of this format. Write to another file, or use --force.") from error

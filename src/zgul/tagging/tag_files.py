"""Tag files: one input or many, each to an output file that appears when it is complete, or all to one stream.

tagger = zgul.load("hsb", "pos")
tag_file(tagger, "book.txt", "book.conllu")
tag_files(tagger, ["texts/"], "tagged/")

Outputs are written as ``OUTPUT.part`` and renamed when they are complete. An interrupted output continues after its
last complete window (see `zgul.tagging.text_tagger`). First all its words are compared with those of the input, and
its first window is tagged again. A file of another text, or one that was tagged in another way, is refused and stays
as it is. The result is the file that an uninterrupted run gives on the same kind of device.
"""

import contextlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import PACKINGS, lock
from zgul.options import Options, option
from zgul.progress import Report, Status, silent
from zgul.tagging.documents import FORMATS, Format, TaggedSentence
from zgul.tagging.reading import KINDS, Input, TextSource, find_sources, read
from zgul.tagging.text_tagger import TextTagger

# The suffix of the output's format replaces these.
TEXT_SUFFIXES = (".txt", ".text", ".conllu", ".tsv", ".docx", ".odt", ".html", ".htm")
PANEL = "Files"
INPUT_HELP = "Kind of input: text, lines (a sentence each), tokens (spaces between all words), conllu or columns."
OTHER = "Write to another file, or replace it with --force."
ANOTHER_WAY = "was tagged in another way (language, task, format, weights, EM, device, tagger or version)"
MEANWHILE = "was written by another process. Look at it, then run the command again."

ChooseTagger = Callable[[Input], TextTagger]  # the tagger for an input, whose language may have to be guessed
Windows = Iterator[list[Sentence]]
AnyTagger = TextTagger | ChooseTagger
AnySource = TextSource | Path | str
Sources = Sequence[AnySource]


@dataclass(frozen=True)
class FileSettings(Options):
    """How files are read and written."""

    format: Format = option("conllu", "Format of the output.", choices=FORMATS)
    input: str = option("auto", INPUT_HELP, choices=KINDS, panel=PANEL, metavar="KIND")
    probabilities: bool = option(False, "Add the probability of each tag to conllu and tsv.", panel=PANEL)
    resume: bool = option(False, "Continue an --output that was interrupted.", panel=PANEL)
    force: bool = option(False, "Replace an --output that exists.", panel=PANEL)


DEFAULT = FileSettings()


@dataclass(frozen=True)
class TaggedFile:
    """The result of tagging one input."""

    source: str
    output: Path
    sentences: int = 0  # in the output
    held: int = 0  # how many of these were there before
    problem: str = ""  # why it was not tagged


def tag_file(
    tagger: AnyTagger, source: AnySource, output: Path | str, settings: FileSettings = DEFAULT, report: Report = silent
) -> TaggedFile:
    """Tag one input. The output appears when it is complete; until then it is ``OUTPUT.part``.

    An existing output with exactly this content is kept. One with other content is refused, unless ``force`` is set.
    """
    sources = _find([source])
    if len(sources) != 1:
        raise ZgulError(f"{source} holds {len(sources)} files. Use tag_files.")
    return _Work(tagger, settings, sources, report).tag_file(sources[0], Path(output))


def tag_files(
    tagger: AnyTagger, sources: Sources, folder: Path | str, settings: FileSettings = DEFAULT, report: Report = silent
) -> list[TaggedFile]:
    """Tag files, folders and patterns into a folder. Outputs that are complete already are kept.

    A file that cannot be tagged is reported with a warning, and the others are still tagged.
    """
    outputs = plan_outputs(sources, folder, settings.format)
    work = _Work(tagger, settings, list(outputs.values()), report)
    results = []
    for output, source in outputs.items():
        output.parent.mkdir(parents=True, exist_ok=True)
        try:
            results.append(work.tag_file(source, output))
        except ZgulError as error:
            results.append(not_tagged(source, output, error))
    return results


def not_tagged(source: TextSource, output: Path, error: ZgulError) -> TaggedFile:
    """Warn that an input was not tagged, and go on."""
    name = "" if source.name in str(error) else f"{source.name}: "
    warnings.warn(f"Not tagged: {name}{error}", ZgulWarning, stacklevel=3)
    return TaggedFile(source.name, output, problem=str(error))


def tag_stream(
    tagger: AnyTagger, sources: Sources, sink: IO[bytes], settings: FileSettings = DEFAULT, report: Report = silent
) -> int:
    """Tag inputs one after the other into an open stream. Returns the number of sentences."""
    found = _find(sources)
    work = _Work(tagger, settings, found, report)
    done = 0
    for source in found:
        with source.open(settings.input) as opened:
            chosen, windows = work.begin(opened)
            done += work.write(chosen.tag_windows(windows), sink, opened, done)
            work.read += opened.position
    return done


def begin(tagger: AnyTagger, opened: Input) -> tuple[TextTagger, Windows]:
    """The tagger for an input, and the windows of its sentences. An input without text is refused before loading."""
    opened.refuse_empty()
    chosen = tagger if isinstance(tagger, TextTagger) else tagger(opened)
    return chosen, chosen.windows(read(opened, chosen.language.code))


@dataclass
class OutputFile:
    """An output file, which has another name until it is complete. Devices and pipes are written directly."""

    path: Path
    settings: FileSettings
    held: int = field(default=0, init=False)  # sentences that it holds already
    size: int = field(default=0, init=False)  # and their bytes

    @property
    def exists(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size > 0

    @property
    def part(self) -> Path:
        """The unfinished file."""
        return self.path.with_name(self.path.name + ".part")

    def check(self) -> None:
        """Refuse a place that cannot be written, before any work is done."""
        if self.path.suffix in PACKINGS:
            raise ZgulError(f"{self.path}: output is not compressed, so that it can be resumed. Compress it later.")
        if self.path.is_dir():
            raise ZgulError(f"{self.path} is a folder. A file is needed here.")
        if not self.path.parent.is_dir():
            raise ZgulError(f"{self.path} cannot be written: there is no folder {self.path.parent}.")
        if (self.part.exists() or self.part.is_symlink()) and not self.part.is_file():  # a pipe would be waited for
            raise ZgulError(f"{self.part} is no plain file and cannot be continued. Remove it, or rename the output.")
        if self.part.is_file() and not (self.settings.resume or self.settings.force):
            raise ZgulError(f"{self.part} was not finished. Continue it with --resume, or start again with --force.")

    def skip_held(self, windows: Windows, to_text: Callable[[list[Sentence]], str]) -> Windows | None:
        """The windows that are not in the output yet, or None if it is complete. Refuse to lose an existing output.

        ``to_text`` gives the text of the first window.
        """
        if self.settings.resume and self.part.is_file():
            if self.exists and not self.settings.force:
                raise ZgulError(f"{self.path} exists beside {self.part}. Replace it with --force.")
            return self._skip(self.part, windows, to_text)
        if not self.exists or self.settings.force:
            return windows
        windows = self._skip(self.path, windows, to_text)
        left = list(islice(windows, 1))
        if not left and self.size == self.path.stat().st_size:
            return None
        if not self.settings.resume:
            raise ZgulError(f"{self.path} is not complete. Continue it with --resume, or replace it with --force.")
        self.path.rename(self.part)
        return chain(left, windows)

    def _skip(self, path: Path, windows: Windows, to_text: Callable[[list[Sentence]], str]) -> Windows:
        """Skip the windows that a file holds completely. A file that does not begin like the input is refused."""
        self.held = self.size = 0
        with path.open("rb") as file:
            blocks = _read_blocks(file, self.settings.format)
            for window in windows:
                held = list(islice(blocks, len(window)))
                for number, ((_, text), sentence) in enumerate(zip(held, window, strict=False), start=self.held + 1):
                    if _words(text, self.settings.format) != sentence.words:
                        raise ZgulError(f"{path} is another text or format: sentence {number} has other words. {OTHER}")
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
        """Open the unfinished file at its end. It gets its final name when it is complete."""
        try:
            if self.path.exists() and not self.path.is_file():  # a device or a pipe
                with self.path.open("wb") as sink:
                    yield sink
                return
            if self.exists and not self.settings.force:
                raise ZgulError(f"{self.path} {MEANWHILE}")
            with self.part.open("r+b" if self.size else "ab") as sink:
                self._claim(sink)
                try:
                    yield sink
                except (KeyboardInterrupt, ZgulError) as stop:
                    go_on = f"{self.part} holds the finished part; the same command with --resume continues it"
                    raise type(stop)(f"{stop} {go_on}".lstrip()) from stop
            self.part.replace(self.path)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ZgulError(f"{self.path} cannot be written ({error.strerror}).") from error

    def _claim(self, sink: IO[bytes]) -> None:
        """Cut the unfinished file after what it holds. Refuse it if another process has begun to write it by now."""
        try:
            lock(sink)
        except BlockingIOError:
            raise ZgulError(f"Another process is writing {self.path}. Wait for it, or write to another file.") from None
        except OSError:  # a disk without locks
            pass
        size = os.fstat(sink.fileno()).st_size
        new = size > 0 and not (self.settings.resume or self.settings.force)
        if new or size < self.size or not os.path.samestat(os.fstat(sink.fileno()), self.part.stat()):
            raise ZgulError(f"{self.part} {MEANWHILE}")
        sink.truncate(self.size)
        sink.seek(self.size)


class _Work:
    """Tags inputs with the same settings. It reports the words done, and estimates their total by the inputs' size."""

    def __init__(self, tagger: AnyTagger, settings: FileSettings, sources: list[TextSource], report: Report) -> None:
        self.tagger, self.settings, self.report = tagger, settings, report
        self.size = sum(source.size for source in sources) if all(source.size for source in sources) else 0
        self.read = 0  # bytes of the inputs that are finished
        self.words = 0
        self.started: float | None = None  # when the first tagger was loaded

    def begin(self, opened: Input) -> tuple[TextTagger, Windows]:
        begun = begin(self.tagger, opened)
        self.started = self.started or time.monotonic()
        return begun

    def tag_file(self, source: TextSource, output: Path) -> TaggedFile:
        file = OutputFile(output, self.settings)
        file.check()
        done = 0
        with source.open(self.settings.input) as opened:
            if opened.is_same_file(output) or opened.is_same_file(file.part):
                raise ZgulError(f"Writing {output} would destroy the input. Choose another output.")
            tagger, windows = self.begin(opened)
            left = file.skip_held(windows, lambda window: to_text(next(tagger.tag_windows([window])), self.settings))
            tagged = tagger.tag_windows(left or [], begun=file.held > 0)
            first = list(islice(tagged, 1))  # the output is opened when there is something to write
            if file.held:  # what is in the output needs no tagging
                skipped = opened.bytes_until(first[0][0].start) if first else opened.position
                self.size -= skipped
                self.read -= skipped
            if left is not None:
                with file.open() as sink:
                    done = self.write(chain(first, tagged), sink, opened, file.held)
            self.read += opened.position
        return TaggedFile(source.name, output, file.held + done, file.held)

    def write(self, windows: Iterable[list[TaggedSentence]], sink: IO[bytes], opened: Input, held: int) -> int:
        """Write windows as they come, after ``held`` sentences. Returns the number of sentences."""
        done = 0
        for window in windows:
            sink.write(to_text(window, self.settings, held + done).encode("utf-8"))
            sink.flush()
            done += len(window)
            self.words += sum(map(len, window))
            read = self.read + opened.bytes_until(window[-1].start + len(window[-1].text))
            total = max(self.words, round(self.words * self.size / read)) if self.size > 0 and read > 0 else 0
            rate = self.words / max(time.monotonic() - (self.started or 0.0), 1e-9)
            self.report(Status("tagging", self.words, total, {"words a second": rate}))
        return done


def to_text(window: list[TaggedSentence], settings: FileSettings, held: int = 0) -> str:
    """The sentences of a window, which come after ``held`` others, in the output's format."""
    form, probabilities = settings.format, settings.probabilities
    return "".join(one.to_text(form, number, probabilities) for number, one in enumerate(window, start=held + 1))


def _find(given: Sources, leave_out: Path | None = None) -> list[TextSource]:
    sources = [source for source in given if isinstance(source, TextSource)]
    names = [source for source in given if not isinstance(source, TextSource)]
    return sources + (find_sources(names, leave_out) if names else [])


def plan_outputs(given: Sources, folder: Path | str, form: str) -> dict[Path, TextSource]:
    """The output of each input below a folder: ``a/book.txt.xz`` becomes ``folder/a/book.conllu``."""
    folder = Path(folder)
    sources = _find(given, folder)
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file. Several files are tagged into a folder.")
    outputs: dict[Path, TextSource] = {}
    for source in sources:
        if not source.is_file:
            raise ZgulError(f"The output of {source.name} needs a name. Give a file, not a folder.")
        output = folder / output_place(source.place, form)
        if output in outputs:
            both = f"{outputs[output].name} and {source.name}"
            raise ZgulError(f"{both} would both be written to {output}. Rename one of them.")
        outputs[output] = source
    return outputs


def output_place(place: Path, form: str) -> Path:
    """The place of an output: ``a/book.txt.xz`` becomes ``a/book.conllu``."""
    for suffixes in (PACKINGS, TEXT_SUFFIXES):
        place = place.with_suffix("") if place.suffix in suffixes else place
    return Path(f"{place}.{form}")


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
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None

"""Tag files: one input or many, each to an output file that appears when it is complete, or all to one stream.

tagger = zgul.load("hsb", "pos")
tag_file(tagger, "book.txt", "book.conllu")
tag_files(tagger, ["texts/"], "tagged/")
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO

from zgul.errors import ZgulError, ZgulWarning
from zgul.files import PACKINGS
from zgul.progress import Report, Status, silent
from zgul.tagging.reading import Input, InputKind, Item, TextSource, find_sources, read
from zgul.tagging.text_tagger import TextStream, TextTagger, windows
from zgul.tagging.unfinished import OutputFile, Start
from zgul.tagging.writing import FORMATS, Format

TEXT_SUFFIXES = (".txt", ".text", ".conllu", ".tsv")  # the format's suffix replaces these

Choose = Callable[[Input], TextTagger]  # the tagger for an input, whose language may have to be guessed


@dataclass(frozen=True)
class FileSettings:
    """How files are read and written."""

    form: Format = "conllu"
    kind: InputKind = "auto"  # what the input is
    probabilities: bool = False  # also write the probability of each tag
    resume: bool = False  # go on with an output that was interrupted
    force: bool = False  # replace outputs that exist

    def __post_init__(self) -> None:
        if self.form not in FORMATS:
            raise ZgulError(f"There is no format {self.form!r}. Choose one of {', '.join(FORMATS)}.")


@dataclass(frozen=True)
class TaggedFile:
    """What became of one input."""

    source: str
    output: Path
    sentences: int = 0  # in the output
    held: int = 0  # of these, how many it held before
    problem: str = ""  # why it was not tagged


def tag_file(
    tagger: TextTagger | Choose,
    source: TextSource | Path | str,
    output: Path | str,
    settings: FileSettings = FileSettings(),
    *,
    report: Report = silent,
) -> TaggedFile:
    """Tag one input. The output appears when it is complete; until then it is ``OUTPUT.part``.

    An output that holds exactly this already is kept. One that holds anything else is refused, unless ``force``.
    """
    sources = _sources([source])
    if len(sources) != 1:
        raise ZgulError(f"{source} holds {len(sources)} files. Use tag_files.")
    return _Work(tagger, settings, sources, report).tag_file(sources[0], Path(output))


def tag_files(
    tagger: TextTagger | Choose,
    sources: Sequence[TextSource | Path | str],
    folder: Path | str,
    settings: FileSettings = FileSettings(),
    *,
    report: Report = silent,
) -> list[TaggedFile]:
    """Tag files, folders and patterns into a folder. Outputs that are complete already are kept.

    A file that cannot be tagged is reported with a warning, and the others are tagged all the same.
    """
    outputs = plan_outputs(_sources(sources, Path(folder)), Path(folder), settings.form)
    work = _Work(tagger, settings, list(outputs.values()), report)
    results = []
    for output, source in outputs.items():
        output.parent.mkdir(parents=True, exist_ok=True)
        try:
            results.append(work.tag_file(source, output))
        except ZgulError as error:
            results.append(TaggedFile(source.name, output, problem=str(error)))
            name = "" if source.name in str(error) else f"{source.name}: "
            warnings.warn(f"Not tagged: {name}{error}", ZgulWarning, stacklevel=2)
    return results


def tag_stream(
    tagger: TextTagger | Choose,
    sources: Sequence[TextSource],
    sink: IO[bytes],
    settings: FileSettings = FileSettings(),
    *,
    report: Report = silent,
) -> int:
    """Tag inputs one after the other into an open stream. Returns the number of sentences."""
    work = _Work(tagger, settings, sources, report)
    done = 0
    for source in sources:
        with source.open() as opened:
            chosen, todo = begin(tagger, opened, settings.kind)
            done += work.write(work.texts(chosen.stream(), Start(todo, done)), sink, opened)
    return done


def plan_outputs(sources: Sequence[TextSource], folder: Path, form: str) -> dict[Path, TextSource]:
    """The output of each input below a folder: ``a/book.txt.xz`` becomes ``folder/a/book.conllu``."""
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file. Several files are tagged into a folder.")
    outputs: dict[Path, TextSource] = {}
    for source in sources:
        if not source.is_file:
            raise ZgulError(f"The output of {source.name} needs a name. Give a file, not a folder.")
        name = source.place.name
        for suffixes in (PACKINGS, TEXT_SUFFIXES):
            name = name.removesuffix(Path(name).suffix) if Path(name).suffix in suffixes else name
        output = folder / source.place.with_name(f"{name}.{form}")
        if output in outputs:
            both = f"{outputs[output].name} and {source.name}"
            raise ZgulError(f"{both} would both be written to {output}. Rename one of them.")
        outputs[output] = source
    return outputs


def begin(tagger: TextTagger | Choose, opened: Input, kind: str) -> tuple[TextTagger, Iterator[list[Item]]]:
    """The tagger for an input, and the windows of its sentences. What holds no text is refused before loading."""
    if kind == "auto":
        opened.kind()  # refuses HTML
    if not any(map(str.strip, opened.look())):
        raise ZgulError(f"{opened.name} holds no words, so there is nothing to tag.")
    chosen = tagger if isinstance(tagger, TextTagger) else tagger(opened)
    return chosen, windows(read(opened, kind, chosen.language.code), size=len, most=chosen.window)


class _Work:
    """Tagging some inputs with the same settings. Reports words, and how many there will be by the inputs' size."""

    def __init__(
        self, tagger: TextTagger | Choose, settings: FileSettings, sources: Sequence[TextSource], report: Report
    ) -> None:
        self.tagger, self.settings, self.report = tagger, settings, report
        self.size = _total_size(sources)
        self.read = 0  # bytes of the inputs that are finished
        self.words = 0
        self.started = time.monotonic()

    def tag_file(self, source: TextSource, output: Path) -> TaggedFile:
        file = OutputFile(output, self.settings.form, self.settings.resume, self.settings.force)
        file.check()
        with source.open() as opened:
            if opened.is_same_file(output):
                raise ZgulError(f"{output} is the input, and writing would destroy it. Choose another output.")
            chosen, todo = begin(self.tagger, opened, self.settings.kind)
            stream = chosen.stream()
            start = file.start(todo, lambda window, number: self.render(stream, window, number))
            held = start.sentences
            if held:  # what was read so far needs no tagging
                self.size -= opened.position
                self.read -= opened.position
            if start.complete:
                self.read += opened.position
                return TaggedFile(source.name, output, held, held)
            texts = self.texts(stream, start)
            first = list(islice(texts, 1))  # the output is opened when there is something to write
            with file.open(start.size) as sink:
                done = held + self.write(chain(first, texts), sink, opened)
        return TaggedFile(source.name, output, done, held)

    def render(self, stream: TextStream, window: list[Item], number: int) -> str:
        """Tag a window whose first sentence has this number, and lay it out as text."""
        block, probabilities = FORMATS[self.settings.form], self.settings.probabilities
        pairs = zip(stream.tag([item.sentence for item in window]), window, strict=True)
        return "".join(block(tagged, n, item.block, probabilities) for n, (tagged, item) in enumerate(pairs, number))

    def texts(self, stream: TextStream, start: Start) -> Iterator[tuple[str, list[Item]]]:
        number = start.sentences + 1
        for window in start.windows:
            yield self.render(stream, window, number), window
            number += len(window)

    def write(self, texts: Iterable[tuple[str, list[Item]]], sink: IO[bytes], opened: Input) -> int:
        """Write windows as they come. Returns the number of sentences."""
        done = 0
        for text, window in texts:
            sink.write(text.encode("utf-8"))
            sink.flush()
            done += len(window)
            self.words += sum(map(len, window))
            read = self.read + opened.position
            total = max(self.words, round(self.words * self.size / read)) if self.size > 0 and read > 0 else 0
            rate = self.words / max(time.monotonic() - self.started, 1e-9)
            self.report(Status("tagging", self.words, total, {"words a second": rate}))
        self.read += opened.position
        return done


def _sources(given: Sequence[TextSource | Path | str], leave_out: Path | None = None) -> list[TextSource]:
    names = [source for source in given if not isinstance(source, TextSource)]
    sources = [source for source in given if isinstance(source, TextSource)]
    return sources + (find_sources(names, leave_out) if names else [])


def _total_size(sources: Sequence[TextSource]) -> int:
    """Bytes of the inputs; 0 if that is not known of all."""
    paths = [source.path for source in sources if source.path is not None and source.is_file]
    packed = any(path.suffix in PACKINGS for path in paths)
    return 0 if packed or len(paths) < len(sources) else sum(path.stat().st_size for path in paths)

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
from zgul.tagging.text_tagger import TextTagger, windows
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
    found = _sources([source])
    if len(found) != 1:
        raise ZgulError(f"{source} holds {len(found)} files. Use tag_files.")
    file = OutputFile(Path(output), settings.form, settings.resume, settings.force)
    file.check()
    with found[0].open() as opened:
        return _tag_opened(tagger, opened, file, settings, _Meter(report, opened.size))


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
    folder = Path(folder)
    given = _sources(sources, folder)
    outputs = plan_outputs(given, folder, settings.form)
    meter = _Meter(report, _total_size(given))
    results = []
    for source, output in outputs.items():
        output.parent.mkdir(parents=True, exist_ok=True)
        file = OutputFile(output, settings.form, settings.resume, settings.force)
        try:
            file.check()
            with source.open() as opened:
                results.append(_tag_opened(tagger, opened, file, settings, meter))
        except ZgulError as error:
            results.append(TaggedFile(source.name, output, problem=str(error)))
            warnings.warn(f"{source.name} was not tagged: {error}", ZgulWarning, stacklevel=2)
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
    meter = _Meter(report, _total_size(sources))
    done = 0
    for source in sources:
        with source.open() as opened:
            chosen, todo = begin(tagger, opened, settings)
            texts = _Renderer(chosen, settings).texts(Start(todo, done))
            done += _write(texts, sink, opened, meter)
    return done


def plan_outputs(sources: Sequence[TextSource], folder: Path, form: str) -> dict[TextSource, Path]:
    """The output of each input below a folder: ``a/book.txt.xz`` becomes ``folder/a/book.conllu``."""
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file. Several files are tagged into a folder.")
    outputs: dict[TextSource, Path] = {}
    by_output: dict[Path, TextSource] = {}
    for source in sources:
        if not source.is_file:
            raise ZgulError(f"The output of {source.name} needs a name. Give a file, not a folder.")
        name = source.place.name
        for suffixes in (PACKINGS, TEXT_SUFFIXES):
            name = name.removesuffix(Path(name).suffix) if Path(name).suffix in suffixes else name
        output = folder / source.place.with_name(f"{name}.{form}")
        if other := by_output.get(output):
            raise ZgulError(f"{other.name} and {source.name} would both be written to {output}. Rename one of them.")
        outputs[source], by_output[output] = output, source
    return outputs


def _tag_opened(
    tagger: TextTagger | Choose, opened: Input, file: OutputFile, settings: FileSettings, meter: _Meter
) -> TaggedFile:
    if opened.is_same_file(file.path):
        raise ZgulError(f"{file.path} is the input, and writing would destroy it. Choose another output.")
    chosen, todo = begin(tagger, opened, settings)
    renderer = _Renderer(chosen, settings)
    start = file.start(todo, renderer)
    held = start.sentences
    if held:
        meter.skip(opened)
    if start.complete:
        meter.finish(opened)
        return TaggedFile(opened.name, file.path, held, held)
    texts = renderer.texts(start)
    first = list(islice(texts, 1))  # the output is opened when there is something to write
    with file.open(start.size) as sink:
        done = held + _write(chain(first, texts), sink, opened, meter)
    return TaggedFile(opened.name, file.path, done, held)


def begin(
    tagger: TextTagger | Choose, opened: Input, settings: FileSettings
) -> tuple[TextTagger, Iterator[list[Item]]]:
    """The tagger for an input, and the windows of its sentences. What holds no text is refused before loading."""
    if settings.kind == "auto":
        opened.kind()  # refuses HTML
    if not any(map(str.strip, opened.look())):
        raise ZgulError(f"{opened.name} holds no words, so there is nothing to tag.")
    chosen = tagger if isinstance(tagger, TextTagger) else tagger(opened)
    items = read(opened, settings.kind, chosen.language.code)
    first = next(items, None)
    if first is None:
        raise ZgulError(f"{opened.name} holds no words, so there is nothing to tag.")
    return chosen, windows(chain([first], items), size=len, most=chosen.window)


class _Renderer:
    """Tags the windows of one input and lays them out as text."""

    def __init__(self, tagger: TextTagger, settings: FileSettings) -> None:
        self.stream = tagger.stream()
        self.settings = settings

    def __call__(self, window: list[Item], number: int) -> str:
        """The text of a window whose first sentence has this number."""
        block, probabilities = FORMATS[self.settings.form], self.settings.probabilities
        tagged = self.stream.tag([item.sentence for item in window])
        pairs = enumerate(zip(tagged, window, strict=True), start=number)
        return "".join(block(sentence, n, item.block, probabilities) for n, (sentence, item) in pairs)

    def texts(self, start: Start) -> Iterator[tuple[str, list[Item]]]:
        number = start.sentences + 1
        for window in start.windows:
            yield self(window, number), window
            number += len(window)


def _write(texts: Iterable[tuple[str, list[Item]]], sink: IO[bytes], opened: Input, meter: _Meter) -> int:
    """Write windows as they come. Returns the number of sentences."""
    done = 0
    for text, window in texts:
        sink.write(text.encode("utf-8"))
        sink.flush()
        done += len(window)
        meter.add(opened, sum(map(len, window)))
    meter.finish(opened)
    return done


class _Meter:
    """Reports how many words are tagged and, from the size of the inputs, how many there will be."""

    def __init__(self, report: Report, size: int) -> None:
        self.report = report
        self.size = size  # bytes of all inputs; 0 if that is not known
        self.before = 0  # bytes of the inputs that are finished
        self.words = 0
        self.started = time.monotonic()

    def add(self, opened: Input, words: int) -> None:
        self.words += words
        read = self.before + opened.position
        total = round(self.words * self.size / read) if self.size > 0 and read > 0 else 0
        rate = self.words / max(time.monotonic() - self.started, 1e-9)
        self.report(Status("tagging", self.words, total and max(total, self.words), {"words a second": rate}))

    def skip(self, opened: Input) -> None:
        """Leave out what was read of an input: its output holds it already."""
        self.size -= opened.position
        self.before -= opened.position

    def finish(self, opened: Input) -> None:
        self.before += opened.position


def _sources(given: Sequence[TextSource | Path | str], leave_out: Path | None = None) -> list[TextSource]:
    names = [source for source in given if not isinstance(source, TextSource)]
    sources = [source for source in given if isinstance(source, TextSource)]
    return sources + (find_sources(names, leave_out) if names or not given else [])


def _total_size(sources: Sequence[TextSource]) -> int:
    """Bytes of the inputs; 0 if that is not known of all."""
    paths = [source.path for source in sources if source.path is not None and source.is_file]
    packed = any(path.suffix in PACKINGS for path in paths)
    return 0 if packed or len(paths) < len(sources) else sum(path.stat().st_size for path in paths)

"""Tag files: one input or many, each to an output file that appears when it is complete, or all to one stream.

tagger = zgul.load("hsb", "pos")
tag_file(tagger, "book.txt", "book.conllu")
tag_files(tagger, ["texts/"], "tagged/")
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import PACKINGS
from zgul.options import Options, option
from zgul.progress import Report, Status, silent
from zgul.tagging.documents import FORMATS, TaggedSentence
from zgul.tagging.reading import KINDS, Input, TextSource, find_sources, read
from zgul.tagging.text_tagger import TextTagger
from zgul.tagging.unfinished import OutputFile

TEXT_SUFFIXES = (".txt", ".text", ".conllu", ".tsv")  # the format's suffix replaces these
PANEL = "Files"

Choose = Callable[[Input], TextTagger]  # the tagger for an input, whose language may have to be guessed
AnyTagger = TextTagger | Choose
AnySource = TextSource | Path | str


@dataclass(frozen=True)
class FileSettings(Options):
    """How files are read and written."""

    format: str = option("conllu", "Format of the output.", choices=FORMATS)
    input: str = option(
        "auto",
        "What the input is: running text, a sentence a line, words between spaces, CoNLL-U, a word a line.",
        choices=KINDS,
        panel=PANEL,
    )
    probabilities: bool = option(False, "Add the probability of each tag to conllu and tsv.")
    resume: bool = option(False, "Go on with an --output that was interrupted.", panel=PANEL)
    force: bool = option(False, "Replace an --output that exists.", panel=PANEL)


DEFAULT = FileSettings()


@dataclass(frozen=True)
class TaggedFile:
    """What became of one input."""

    source: str
    output: Path
    sentences: int = 0  # in the output
    held: int = 0  # of these, how many it held before
    problem: str = ""  # why it was not tagged


def tag_file(
    tagger: AnyTagger, source: AnySource, output: Path | str, settings: FileSettings = DEFAULT, report: Report = silent
) -> TaggedFile:
    """Tag one input. The output appears when it is complete; until then it is ``OUTPUT.part``.

    An output that holds exactly this already is kept. One that holds anything else is refused, unless ``force``.
    """
    sources = _find([source])
    if len(sources) != 1:
        raise ZgulError(f"{source} holds {len(sources)} files. Use tag_files.")
    return _Work(tagger, settings, sources, report).tag_file(sources[0], Path(output))


def tag_files(
    tagger: AnyTagger,
    sources: Sequence[AnySource],
    folder: Path | str,
    settings: FileSettings = DEFAULT,
    report: Report = silent,
) -> list[TaggedFile]:
    """Tag files, folders and patterns into a folder. Outputs that are complete already are kept.

    A file that cannot be tagged is reported with a warning, and the others are tagged all the same.
    """
    outputs = _plan_outputs(_find(sources, Path(folder)), Path(folder), settings.format)
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
    tagger: AnyTagger,
    sources: Sequence[TextSource],
    sink: IO[bytes],
    settings: FileSettings = DEFAULT,
    report: Report = silent,
) -> int:
    """Tag inputs one after the other into an open stream. Returns the number of sentences."""
    work = _Work(tagger, settings, sources, report)
    done = 0
    for source in sources:
        with source.open(settings.input) as opened:
            chosen, windows = begin(tagger, opened)
            done += work.write(chosen.tag_windows(windows), sink, opened, done)
            work.read += opened.position
    return done


def begin(tagger: AnyTagger, opened: Input) -> tuple[TextTagger, Iterator[list[Sentence]]]:
    """The tagger for an input, and the windows of its sentences. What holds no text is refused before loading."""
    if not any(map(str.strip, opened.look())):
        raise ZgulError(f"{opened.name} holds no words, so there is nothing to tag.")
    chosen = tagger if isinstance(tagger, TextTagger) else tagger(opened)
    return chosen, chosen.windows(read(opened, chosen.language.code))


class _Work:
    """Tagging some inputs with the same settings. Reports words, and how many there will be by the inputs' size."""

    def __init__(
        self, tagger: AnyTagger, settings: FileSettings, sources: Sequence[TextSource], report: Report
    ) -> None:
        self.tagger, self.settings, self.report = tagger, settings, report
        self.size = sum(source.size for source in sources) if all(source.size for source in sources) else 0
        self.read = 0  # bytes of the inputs that are finished
        self.words = 0
        self.started = time.monotonic()

    def tag_file(self, source: TextSource, output: Path) -> TaggedFile:
        file = OutputFile(output, self.settings.format, self.settings.resume, self.settings.force)
        file.check()
        done = 0
        with source.open(self.settings.input) as opened:
            if opened.is_same_file(output):
                raise ZgulError(f"{output} is the input, and writing would destroy it. Choose another output.")
            tagger, windows = begin(self.tagger, opened)
            left = file.skip_held(windows, lambda window: self.to_text(next(tagger.tag_windows([window]))))
            if file.held:  # what was read so far needs no tagging
                self.size -= opened.position
                self.read -= opened.position
            if left is not None:
                tagged = tagger.tag_windows(left, begun=file.held > 0)
                first = list(islice(tagged, 1))  # the output is opened when there is something to write
                with file.open() as sink:
                    done = self.write(chain(first, tagged), sink, opened, file.held)
            self.read += opened.position
        return TaggedFile(source.name, output, file.held + done, file.held)

    def to_text(self, window: list[TaggedSentence], held: int = 0) -> str:
        """The sentences of a window, which come after ``held`` others, in the output's format."""
        form, probabilities = self.settings.format, self.settings.probabilities
        return "".join(one.to_text(form, number, probabilities) for number, one in enumerate(window, start=held + 1))

    def write(self, windows: Iterable[list[TaggedSentence]], sink: IO[bytes], opened: Input, held: int) -> int:
        """Write windows as they come, after ``held`` sentences. Returns the number of sentences."""
        done = 0
        for window in windows:
            sink.write(self.to_text(window, held + done).encode("utf-8"))
            sink.flush()
            done += len(window)
            self.words += sum(map(len, window))
            read = self.read + opened.position
            total = max(self.words, round(self.words * self.size / read)) if self.size > 0 and read > 0 else 0
            rate = self.words / max(time.monotonic() - self.started, 1e-9)
            self.report(Status("tagging", self.words, total, {"words a second": rate}))
        return done


def _find(given: Sequence[AnySource], leave_out: Path | None = None) -> list[TextSource]:
    sources = [source for source in given if isinstance(source, TextSource)]
    names = [source for source in given if not isinstance(source, TextSource)]
    return sources + (find_sources(names, leave_out) if names else [])


def _plan_outputs(sources: Sequence[TextSource], folder: Path, form: str) -> dict[Path, TextSource]:
    """The output of each input below a folder: ``a/book.txt.xz`` becomes ``folder/a/book.conllu``."""
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file. Several files are tagged into a folder.")
    outputs: dict[Path, TextSource] = {}
    for source in sources:
        if not source.is_file:
            raise ZgulError(f"The output of {source.name} needs a name. Give a file, not a folder.")
        place = source.place
        for suffixes in (PACKINGS, TEXT_SUFFIXES):
            place = place.with_suffix("") if place.suffix in suffixes else place
        output = folder / f"{place}.{form}"
        if output in outputs:
            both = f"{outputs[output].name} and {source.name}"
            raise ZgulError(f"{both} would both be written to {output}. Rename one of them.")
        outputs[output] = source
    return outputs

"""Shards: what one worker tags at once, and the output file that it writes.

An input is cut into windows of sentences exactly as ``zgul tag`` cuts it, and a shard is a run of whole windows. So the
outputs of an input's shards, one after the other, are the bytes that ``zgul tag`` writes. Cutting is one pass over the
input, because sentences depend on the text before them: abbreviations are learnt from it, and sentences are numbered.
"""

import hashlib
import os
import platform
import resource
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import torch

from zgul import __version__
from zgul.cluster import places
from zgul.corpora.sentence import Sentence, TaskChoice
from zgul.errors import ZgulError, ZgulWarning
from zgul.tagging.langid import guess
from zgul.tagging.loading import load
from zgul.tagging.reading import Input, read, sample_text
from zgul.tagging.tag_files import DEFAULT, FileSettings, to_text
from zgul.tagging.text_tagger import TextTagger, cut_windows

Windows = list[list[Sentence]]


@dataclass(frozen=True)
class CorpusJob:
    """What is done with every input. All processes get the same."""

    language: str | None  # None: guessed for each input
    task: TaskChoice | None = None
    choices: tuple[tuple[str, Any], ...] = ()  # other arguments of `zgul.load`, by name
    files: FileSettings = DEFAULT
    shard_words: int = 50_000
    model_sha256: str = ""  # of a tagger in a folder
    version: str = __version__

    @property
    def on_gpu(self) -> bool:
        return str(dict(self.choices).get("device", "cpu")).startswith("cuda")

    def settings(self) -> dict[str, Any]:
        """What decides about the outputs, as plain values."""
        files = {name: asdict(self.files)[name] for name in ("format", "input", "probabilities")}
        own = {"language": self.language, "task": self.task, "shard_words": self.shard_words, "version": self.version}
        own |= {"model_sha256": self.model_sha256} if self.model_sha256 else {}
        return own | files | {name: value for name, value in self.choices if value is not None}


@dataclass(frozen=True)
class Cut:
    """A shard of an input, before it is tagged."""

    number: int  # from 0
    held: int  # sentences of the input before it
    sentences: int
    words: int
    text: str  # checksum of its words
    last: bool  # of its input
    language: str
    read: int  # bytes of the input that were read so far
    sha256: str = ""  # of the whole input; only the last shard knows it
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tagged:
    """A shard that is tagged, and its output."""

    output: str  # name below the folder of all outputs
    sentences: int
    words: int
    text: str  # checksum of its words
    size: int  # of the output, in bytes
    sha256: str = ""  # of the output
    seconds: float = 0.0  # of the clock
    cpu_seconds: float = 0.0  # of the processor: what the shard costs, whatever else runs there
    worker: str = ""  # machine and process
    memory: int = 0  # the most bytes that this process has held so far
    warnings: tuple[str, ...] = ()


def cut_input(place: str, job: CorpusJob) -> Iterator[tuple[Cut, Windows]]:
    """Cut an input into shards, in order."""
    with places.open_counted(place) as (counted, content), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ZgulWarning)
        opened = Input(content, place, job.files.input)
        opened.refuse_empty()
        language = job.language or guess(sample_text(opened))[0].code
        windows = cut_windows(read(opened, language), job.on_gpu)
        held, window = 0, next(windows, None)
        for number in range(10**9):
            shard: Windows = []
            words, digest = 0, hashlib.sha256()
            while window is not None and words < job.shard_words:
                shard.append(window)
                words += sum(map(len, window))
                for sentence in window:
                    digest.update("\t".join(sentence.words).encode() + b"\n")
                window = next(windows, None)
            while window is None and counted.read(1 << 20):  # what lies behind packed text belongs to the file, too
                pass
            sentences, last = sum(map(len, shard)), window is None
            sums = (digest.hexdigest(), last, language, counted.size, counted.digest.hexdigest() if last else "")
            yield Cut(number, held, sentences, words, *sums, tuple(str(one.message) for one in caught)), shard
            caught.clear()
            held += sentences
            if last:
                return


class Reader:
    """Cuts inputs in a process of its own. Reading the same shard again gives the same shard."""

    def __init__(self, job: CorpusJob) -> None:
        self.job = job
        self._place, self._next = "", 0
        self._cuts: Iterator[tuple[Cut, Windows]] = iter(())

    def read(self, place: str, number: int, known: str = "") -> tuple[Cut, Windows]:
        """Shard ``number`` of an input. The sentences of a shard with the ``known`` checksum are left out."""
        if (place, number) != (self._place, self._next):  # another input, or this process took over from a dead one
            self._cuts, self._place, self._next = cut_input(place, self.job), place, 0
        for cut, windows in self._cuts:
            self._next = cut.number + 1
            if cut.number == number:
                if known and known != cut.text:
                    changed = f"{place} is not the text that was tagged before: shard {number} has other words"
                    raise ZgulError(f"{changed}. Use another --output, or start again with --force.")
                return cut, [] if known else windows
        raise ZgulError(f"{place} became shorter while it was read.")


@lru_cache(maxsize=16)
def load_once(job: CorpusJob, language: str) -> TextTagger:
    """The tagger of a job. A process loads it once."""
    torch.set_num_threads(torch.get_num_threads() if job.on_gpu else 1)
    return load(language, job.task, **dict(job.choices))


def tag_shard(job: CorpusJob, cut: Cut, windows: Windows, folder: str, name: str) -> Tagged:
    """Tag a shard and write its output. Done twice, it writes the same file."""
    if job.version != __version__:
        raise ZgulError(f"A worker has zgul {__version__}, but the command zgul {job.version}. Install one version.")
    started, cpu, held, parts = time.monotonic(), time.process_time(), cut.held, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ZgulWarning)
        tagger = load_once(job, cut.language)
        for window in tagger.tag_windows(windows, begun=cut.number > 0):
            parts.append(to_text(window, job.files, held).encode("utf-8"))
            held += len(window)
    if held != cut.held + cut.sentences:
        raise RuntimeError(f"{cut.sentences} sentences were read, but {held - cut.held} were tagged")
    content = b"".join(parts)
    places.write_whole(places.join(folder, name), content)
    times = (round(time.monotonic() - started, 3), round(time.process_time() - cpu, 3))
    worker, memory = f"{platform.node()}:{os.getpid()}", 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = (len(content), hashlib.sha256(content).hexdigest(), *times, worker, memory)
    return Tagged(name, cut.sentences, cut.words, cut.text, *facts, tuple(str(one.message) for one in caught))

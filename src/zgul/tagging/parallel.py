"""Many files at once: processes that each load the tagger once and tag one file at a time (``zgul tag --jobs``).

The outputs are those of `tag_files`, and they are resumed in the same way. Processes are started afresh, not forked,
because a process that has used torch cannot be forked safely. They share the mapped weights of the encoder.

Gain on a CPU: 1.76× for two processes, worked out from processor time (docs/performance.md); the goal is 1.8×.
"""

import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from zgul.errors import ZgulError, ZgulWarning
from zgul.progress import Report, Status, silent
from zgul.tagging.reading import TextSource
from zgul.tagging.tag_files import (
    DEFAULT,
    AnyTagger,
    FileSettings,
    Sources,
    TaggedFile,
    not_tagged,
    plan_outputs,
    tag_file,
    tag_files,
)

CONTINUE = "the same command with --resume continues the files that are not finished"


def tag_files_at_once(
    tagger: AnyTagger,
    sources: Sources,
    folder: Path | str,
    settings: FileSettings = DEFAULT,
    report: Report = silent,
    *,
    jobs: int = 2,
) -> list[TaggedFile]:
    """`tag_files` with this many processes. The tagger, or the function that chooses it, must be picklable."""
    if jobs < 1:
        raise ZgulError(f"The number of jobs is at least 1, not {jobs}.")
    outputs = plan_outputs(sources, folder, settings.format)
    if min(jobs, len(outputs)) <= 1:
        return tag_files(tagger, list(outputs.values()), folder, settings, report)
    # large files first, so that all processes end at about the same time
    waiting = sorted(outputs, key=lambda output: outputs[output].size)
    results: dict[Path, TaggedFile] = {}
    with _processes(tagger, settings, min(jobs, len(outputs))) as workers:
        idle = list(workers)
        busy: dict[Connection, Path] = {}
        while waiting or busy:
            while waiting and idle:
                output = waiting.pop()
                output.parent.mkdir(parents=True, exist_ok=True)
                connection = idle.pop()
                connection.send((outputs[output], output))
                busy[connection] = output
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                output = busy.pop(ready)
                results[output] = _received(ready, outputs[output])
                idle.append(ready)
                report(Status("tagging files", len(results), len(outputs)))
    return [results[output] for output in outputs]


def _received(connection: Connection, source: TextSource) -> TaggedFile:
    """The result of a process, which sends its warnings with it."""
    result: TaggedFile
    try:
        result, texts = connection.recv()
    except (EOFError, ConnectionError) as error:
        ended = f"A process ended while it tagged {source.name}, perhaps because memory was full"
        raise ZgulError(f"{ended}. Use fewer --jobs; {CONTINUE}.") from error
    for text in texts:
        warnings.warn(text, ZgulWarning, stacklevel=3)
    return result


@contextmanager
def _processes(tagger: AnyTagger, settings: FileSettings, count: int) -> Iterator[list[Connection]]:
    """Connections to processes that wait for files. At the end they are stopped, whatever they do."""
    context, connections, started = get_context("spawn"), list[Connection](), list[Any]()
    threads = max(1, torch.get_num_threads() // count)
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, tagger, settings, threads), daemon=True)
            process.start()
            theirs.close()
            connections.append(ours)
            started.append(process)
        yield connections
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(CONTINUE) from stop
    finally:
        for process in started:  # what they wrote of an unfinished file stays, and can be continued
            process.terminate()
        for process in started:
            process.join()


def _work(connection: Connection, tagger: AnyTagger, settings: FileSettings, threads: int) -> None:
    """Tag files as they are named, until the process is stopped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the first process stops the others
    torch.set_num_threads(threads)  # this process is zgul's own, and each has its share of the cores
    while True:
        try:
            source, output = connection.recv()
        except EOFError:  # nobody is there any more
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ZgulWarning)
            try:
                result = tag_file(tagger, source, output, settings)
            except ZgulError as error:
                result = not_tagged(source, output, error)
        texts = [str(warning.message) for warning in caught if issubclass(warning.category, ZgulWarning)]
        try:
            connection.send((result, texts))
        except OSError:  # as above
            return

"""What every peer's program does: read columns, train or tag, write columns, and print what was measured as JSON.

    PEER.py train TRAIN DEV MODEL SETTINGS     SETTINGS is JSON; MODEL is the file or folder to write
    PEER.py tag MODEL INPUT OUTPUT             MODEL is what training wrote

The programs run in an environment of their own and import nothing of zgul. A file has a word and its tag on a line,
with a tab between them and an empty line after each sentence. ``_`` stands for an unknown tag.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

Sentences = list[tuple[list[str], list[str]]]  # words and tags
Tag = Callable[[list[list[str]]], Sequence[Sequence[str]]]  # words of sentences to tags


def read(path: Path) -> Sentences:
    """The words and tags of each sentence."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    rows = [[line.split("\t") for line in block.split("\n")] for block in blocks if block.strip("\n")]
    return [([word for word, _ in block], [tag for _, tag in block]) for block in rows]


def write(path: Path, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> None:
    """Write words with the tags that they got."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for own, got in zip(words, tags, strict=True):
            file.writelines(f"{word}\t{tag}\n" for word, tag in zip(own, got, strict=True))
            file.write("\n")


def main(
    package: str, train: Callable[[Sentences, Sentences, Path, dict[str, Any]], None], load: Callable[[str], Tag]
) -> None:
    """Do what the command line asks for."""
    started, (command, *given) = time.perf_counter(), sys.argv[1:]
    # All times are of the processor: other work on the machine lengthens only the time on the clock.
    if command == "train":
        settings = json.loads(given[3])
        train(read(Path(given[0])), read(Path(given[1])), Path(given[2]), settings)
        result = {"settings": settings, "cpu_seconds": time.process_time(), "seconds": time.perf_counter() - started}
    else:
        model, source, output = given[0], Path(given[1]), Path(given[2])
        tag = load(model)
        loaded = time.process_time()  # since the start of Python
        words = [own for own, _ in read(source)]
        write(output, words, tag(words))
        result = {"load_seconds": loaded, "tag_seconds": time.process_time() - loaded}
    print(json.dumps({"version": version(package)} | result), flush=True)

"""What ``zgul tag`` writes: CoNLL-U, TSV or JSON lines, a block for each sentence; and how a broken-off file goes on.

A file is resumed at the last window (see ``zgul.tagging.tagger``) that it holds completely. Before anything is
appended, all words in the file are compared with those of the input, and its first window is tagged again: a file
of another text, or tagged in another way, is refused. What comes out is the file that an unbroken run gives on the
same kind of device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

from zgul.corpora.conllu import ID, MISC, ConlluSentence
from zgul.corpora.lines import check_word
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.tagging.reading import Item
from zgul.tagging.results import TaggedSentence

Block = Callable[[TaggedSentence, Item, int], str]  # the text of the n-th sentence


def conllu(tagged: TaggedSentence, item: Item, number: int) -> str:
    """UPOS in column 4; entities, and weights if there are any, in MISC; all else as it was."""
    if item.block is not None:
        block = item.block
    else:
        offsets = [(start - tagged.start, end - tagged.start) for start, end in tagged.offsets]
        sentence = Sentence(tagged.words, text=tagged.text, offsets=offsets)
        block = ConlluSentence.from_sentence(sentence, sent_id=str(number))
    for task, layer in tagged.layers.items():
        block.set_tags(task, layer.tags)
        if layer.weights is not None:
            rows = [row for row in block.rows if row[ID].isdigit()]
            for row, weights in zip(rows, layer.weights, strict=True):
                row[MISC] = _set_entry(row[MISC], f"{task.upper()}Weights", weights_text(weights))
    return str(block)


def tsv(tagged: TaggedSentence, item: Item, number: int) -> str:
    """Word, weights if there are any, tag (of two tasks: UPOS, then entity); a blank line at the end."""
    columns = [tagged.words]
    for layer in tagged.layers.values():
        if layer.weights is not None:
            columns.append([weights_text(weights) for weights in layer.weights])
    columns += [layer.tags for layer in tagged.layers.values()]
    for word in tagged.words:
        check_word(word)
    return "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)) + "\n"


def json_line(tagged: TaggedSentence, item: Item, number: int) -> str:
    return json.dumps(tagged.to_dict(), ensure_ascii=False) + "\n"


FORMATS: dict[str, Block] = {"conllu": conllu, "tsv": tsv, "json": json_line}


def weights_text(weights: dict[str, float]) -> str:
    """The largest first: ``is:0.62,de:0.25,en:0.13``."""
    ordered = sorted(weights.items(), key=lambda pair: -pair[1])
    return ",".join(f"{code}:{weight:.2f}" for code, weight in ordered)


def _set_entry(misc: str, key: str, value: str) -> str:
    entries = [entry for entry in misc.split("|") if entry != "_" and not entry.startswith(f"{key}=")]
    return "|".join([*entries, f"{key}={value}"])


# --- going on with a file


@dataclass
class Written:
    """The part of a file that stays, and the windows of the input that it does not hold."""

    sentences: int  # complete windows' worth of them
    size: int  # bytes up to their end
    rest: Iterator[list[Item]] = field(default_factory=lambda: iter(()))


def resume(
    path: Path, form: str, windows: Iterable[list[Item]], render: Callable[[list[Item], int], list[str]]
) -> Written:
    """Compare a file with the input; ``render`` gives the blocks of a window that begins at a sentence's number."""
    windows = iter(windows)
    with path.open("rb") as file:
        found = _blocks(file, form)
        done, size = 0, 0
        for window in windows:
            held = list(islice(found, len(window)))
            for place, ((_, text), item) in enumerate(zip(held, window, strict=False), start=done + 1):
                if _words(text, form, path) != item.sentence.words:
                    raise ZgulError(
                        f"{path} is not the beginning of this: sentence {place} has other words in the input. "
                        "Give the input the file was made from, or write to another file."
                    )
            if len(held) < len(window):
                return Written(done, size, _chain(window, windows))
            if done == 0 and render(window, 1) != [text for _, text in held]:
                raise ZgulError(
                    f"{path} was tagged in another way (language, task, format, weights, EM, device, tagger or "
                    "version): go on with the same settings, or write to another file"
                )
            done, size = done + len(window), held[-1][0]
        if next(found, None) is not None:
            raise ZgulError(f"{path} has more sentences than the input; write to another file")
    return Written(done, size)


def _chain(window: list[Item], windows: Iterator[list[Item]]) -> Iterator[list[Item]]:
    yield window
    yield from windows


def _blocks(file: IO[bytes], form: str) -> Iterator[tuple[int, str]]:
    """The complete blocks of a file, each with the position where it ends; a broken-off last one is left out."""
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
        raise ZgulError(f"{path} is not a file of this format; write to another file") from error

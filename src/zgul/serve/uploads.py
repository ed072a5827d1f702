"""A file of a client to text: plain text, CoNLL-U, HTML, docx and odt, also packed. Nothing is stored.

However small a packed file is, no more than the limit is unpacked of it.
"""

import io
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from zgul.corpora import columns, conllu
from zgul.errors import ZgulError
from zgul.files import DAMAGED, unpacked
from zgul.serve.problems import Problem
from zgul.tagging.reading import LATIN1, Input
from zgul.tagging.rich_text import DAMAGED_DOCUMENT, OFFICE, office_text

PACKED = (".gz", ".xz", ".bz2")
_DAMAGED = (*DAMAGED, *DAMAGED_DOCUMENT, UnicodeDecodeError)


def read_upload(name: str, content: bytes, limit: int) -> dict[str, Any]:
    """The text of a file or, if it is cut into words, its sentences. ``name`` only tells the kind of file."""
    path = PurePath(PurePath(name.replace("\\", "/")).name[-100:] or "file")
    try:
        if path.suffix in PACKED:
            content = _read(unpacked(io.BytesIO(content), path.suffix), limit)
            path = path.with_suffix("")
        if content.startswith(OFFICE):
            return {"text": office_text(content, lambda stream: _read(stream, limit)), "warnings": []}
        return _read_text(path.name, content)
    except ZgulError as error:
        raise Problem(422, str(error), "file") from error
    except _DAMAGED as error:
        raise Problem(422, "The file is damaged or not what its name says. Get a whole copy of it.", "file") from error


def _read(stream: Any, limit: int) -> bytes:
    content: bytes = stream.read(limit + 1)
    if len(content) > limit:
        raise Problem(413, f"The file has more than {limit:,} bytes when it is unpacked. Cut it into parts.", "file")
    return content


def _read_text(name: str, content: bytes) -> dict[str, Any]:
    opened: Any = Input(io.BytesIO(content), name, choice=False)  # a client has no --input
    found: dict[str, Any] = {"conllu": True}
    if opened.kind == "conllu":
        blocks = conllu.read(opened, check_upos=False)
        found["sentences"] = [{"words": block.words, "tags": _tags(block)} for block in blocks]
    elif opened.kind == "columns":
        found["sentences"] = [{"words": sentence.words, "tags": None} for sentence in columns.read(opened, task=None)]
    else:
        found = {"text": "".join(_lines(opened)).removeprefix("\ufeff")}
        if "\0" in found["text"]:
            raise ZgulError("This is not a text file. Save it as plain text in UTF-8.")
    read_as = {"utf-16": "UTF-16", LATIN1: "Latin-1 (Windows-1252). If letters come out wrong, convert it to UTF-8"}
    odd = read_as.get(opened.encoding)
    return found | {"warnings": [f"The file is not UTF-8. It is read as {odd}."] if odd else []}


def _lines(opened: Input) -> Iterator[str]:
    while line := opened.readline():
        yield line if isinstance(line, str) else line.decode("utf-8")


def _tags(block: conllu.ConlluSentence) -> dict[str, list[str]] | None:
    found = {"pos": block.upos, "ner": block.ner}
    return {task: tags for task, tags in found.items() if conllu.EMPTY not in tags} or None

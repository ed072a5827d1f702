"""A file of a client to text: plain text, CoNLL-U, Word (docx) and OpenDocument (odt), also packed. Nothing is stored.

However small a packed file is, no more than the limit is unpacked of it.
"""

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any
from xml.etree import ElementTree

from zgul.corpora import columns, conllu
from zgul.errors import ZgulError
from zgul.files import DAMAGED
from zgul.serve.problems import Problem
from zgul.tagging.reading import LATIN1, Input

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
OPEN = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_BLANKS = {f"{WORD}p": "\n\n", f"{WORD}tab": "\t", f"{WORD}br": "\n", f"{OPEN}p": "\n\n", f"{OPEN}h": "\n\n"}
_BLANKS |= {f"{OPEN}tab": "\t", f"{OPEN}line-break": "\n", f"{OPEN}s": " "}
_UNPACK: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_DAMAGED = (*DAMAGED, zipfile.BadZipFile, ElementTree.ParseError, KeyError, RuntimeError, UnicodeDecodeError)


def read_upload(name: str, content: bytes, limit: int) -> dict[str, Any]:
    """The text of a file or, if it is cut into words, its sentences. ``name`` only tells the kind of file."""
    path = PurePath(PurePath(name.replace("\\", "/")).name[-100:] or "file")
    try:
        if path.suffix in _UNPACK:
            content = _read(_UNPACK[path.suffix](io.BytesIO(content)), limit)
            path = path.with_suffix("")
        if content.startswith(b"PK\x03\x04") and path.suffix in (".docx", ".odt"):
            return {"text": _office_text(path.suffix, content, limit), "warnings": []}
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
    opened: Any = Input(io.BytesIO(content), name)
    found: dict[str, Any] = {"conllu": True}
    if opened.kind == "conllu":
        found["sentences"] = [
            {"words": block.words, "tags": _tags(block)} for block in conllu.read(opened, check_upos=False)
        ]
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


def _office_text(kind: str, content: bytes, limit: int) -> str:
    """The paragraphs of a document, a blank line between them."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = "word/document.xml" if kind == ".docx" else "content.xml"
        xml = _read(archive.open(member), limit)
    if b"<!DOCTYPE" in xml or b"<!ENTITY" in xml:
        raise ZgulError("The document defines XML entities, which no word processor does. Save it again.")
    root = ElementTree.fromstring(xml)
    for element in list(root.iter()):
        if element.tag == f"{OPEN}tracked-changes":  # what was deleted
            element.clear()
        element.text = _BLANKS.get(element.tag, "") + ((element.text or "") if _is_text(element) else "")
        element.tail = "" if element.tag.startswith(WORD) else element.tail
    paragraphs = "".join(root.itertext()).split("\n\n")
    return "\n\n".join(filter(None, map(str.strip, paragraphs)))


def _is_text(element: ElementTree.Element) -> bool:
    """Word keeps text in elements of its own, and deleted text in others."""
    return element.tag == f"{WORD}t" or not element.tag.startswith(WORD)

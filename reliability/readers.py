"""Fuzz target: the readers of CoNLL-U, columns, WikiAnn, documents and plain text, in all encodings and compressions.

A case is a valid file, which must be read with exactly the words that it was made of, or a damaged one, which may be
refused. What is accepted keeps its words on the way through a tagger into every format of the output.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import zstandard

import standin
from reliability import strange
from reliability.cases import Broken, Case, check_words
from zgul.corpora.data_folder import read_labelled
from zgul.corpora.sentence import UPOS
from zgul.errors import ZgulError
from zgul.tagging.documents import FORMATS
from zgul.tagging.loading import load
from zgul.tagging.reading import KINDS, TextSource, read
from zgul.tagging.rich_text import OPEN, WORD
from zgul.tagging.tag_files import FileSettings, tag_stream

MADE = {"conllu": ".conllu", "columns": ".tsv", "wikiann": ".txt", "tokens": ".txt", "lines": ".txt", "text": ".txt"}
DOCUMENTS = {"html": ".html", "docx": ".docx", "odt": ".odt"}  # their text is a paragraph for each sentence
MADE |= DOCUMENTS
SAFE = ("utf-8", "utf-8", "utf-8-sig", "utf-16")  # what a valid file is written in
ENCODINGS = (*SAFE, "utf-16-le", "utf-16-be", "cp1252", "latin-1", "utf-32", "cp037", "shift_jis", "koi8-r", "utf-7")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, 1),
    ".bz2": lambda data: bz2.compress(data, 1),
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": lambda data: zstandard.compress(data, 1),
}
PACKINGS = ("", "", "", *PACKERS)
NER = ("O", "B-PER", "I-PER", "S-LOC", "E-LOC", "U-ORG", "L-ORG")
TAGGED = 0.02  # share of the cases that go through a tagger, which takes longer than all else
LARGE = 0.0003  # share of the cases that are small packed and large unpacked

# A paragraph with marks in it, and what is around all paragraphs.
MARKS = {
    "html": "<p class='a>b'>{}<!-- <p>x --></p>\n",
    "docx": "<w:p><w:r><w:tab/><w:t>{}</w:t></w:r></w:p>",
    "odt": "<text:p><text:s/>{}<text:note>x</text:note></text:p>",
}
FRAMES = {
    "html": "<html><head><title>x</title></head><script>if (a<b) '<p>'</script>{}</html>",
    "docx": f'<w:document xmlns:w="{WORD[1:-1]}">{{}}</w:document>',
    "odt": f'<office xmlns:text="{OPEN[1:-1]}">{{}}</office>',
}

Words = list[list[str]]  # by sentence


class Readers:
    def __init__(self, folder: Path) -> None:
        os.environ["ZGUL_TAGGERS"] = str(standin.stand_in_taggers(folder, ("germanic-pos",)))
        self.tagger = load("fo", "pos", em=False)
        self.known = sorted({word for line in standin.words().text("s0", 200) for word in line.split()})

    def run(self, case: Case) -> None:
        random = case.random
        kind = random.choice(list(MADE))
        tagged = random.random() < TAGGED
        given = self.words(random, kind, known=tagged)
        data: str | bytes = write(random, kind, given)
        valid = random.random() < 0.25
        if random.random() < LARGE:
            data, valid = (
                random.choice((b"\n" * 100_000, b"a" * 20_000_000, b"# a\n" * 120_000, b"a\tO\n" * 120_000)),
                False,
            )
        packing = random.choice(PACKINGS)
        encoding = random.choice(SAFE if kind in ("tokens", "lines", "text") else SAFE[:3]) if valid else None
        content = _encode(random, data, encoding)
        if not valid and random.random() < 0.7:
            content = strange.damage(random, content)
        if kind in ("docx", "odt"):
            content = office(random, kind, content, valid)
        content = PACKERS[packing](content)
        if not valid and packing and random.random() < 0.5:
            content = strange.damage(random, content)
        path = case.folder / f"made{MADE[kind]}{packing}"
        path.write_bytes(content)
        if tagged:
            self.through_a_tagger(path, random, kind)
        elif valid:
            check_words(read_words(path, kind), [word for words in given for word in words])
        else:
            read_any(path, random, kind)

    def words(self, random: Random, kind: str, known: bool) -> Words:
        """Sentences of words that this kind of file can hold."""

        def word() -> str:
            if known:
                return random.choice(self.known)
            if random.random() < 0.6 or kind in ("lines", "text", *DOCUMENTS):
                return strange.letters(random)
            made = "".join(strange.character(random) for _ in range(random.randint(1, 6)))
            return _NOT_IN_WORDS.sub("", made) or "x"

        return [[word() for _ in range(random.randint(1, 8))] for _ in range(random.randint(1, 4))]

    def through_a_tagger(self, path: Path, random: Random, kind: str) -> None:
        """All words that are read come out of the tagger, in each format."""
        form = random.choice(FORMATS)
        sink, settings = io.BytesIO(), FileSettings(format=form, input=_input(kind))
        tag_stream(self.tagger, [path], sink, settings)
        with TextSource(path.name, path).open(settings.input) as opened:
            given = [word for sentence in read(opened, "fo") for word in sentence.words]
        check_words(output_words(sink.getvalue().decode(), form), given)


# What no word of any format can hold: blanks, halves of a byte-order mark, NUL, and what begins another kind of line.
_NOT_IN_WORDS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\ufeff\ufffe#]|-DOCSTART-")


def write(random: Random, kind: str, sentences: Words) -> str:
    """A valid file."""
    blocks = []
    for words in sentences:
        if kind == "conllu":
            rows = [f"{n}\t{word}\t_\t{random.choice(UPOS)}\t_\t_\t_\t_\t_\t_" for n, word in enumerate(words, start=1)]
            blocks.append("# sent_id = 1\n" * random.randrange(2) + "\n".join(rows) + "\n\n")
        elif kind in ("columns", "wikiann"):
            prefix = "en:" if kind == "wikiann" else ""
            blocks.append("".join(f"{prefix}{word}\t{random.choice(NER)}\n" for word in words) + "\n")
        elif kind in DOCUMENTS:
            blocks.append(MARKS[kind].format(" ".join(words)))
        else:
            blocks.append(" ".join(words) + "\n" + "\n" * (kind == "text"))
    return FRAMES.get(kind, "{}").format("".join(blocks))


def office(random: Random, kind: str, xml: bytes, valid: bool) -> bytes:
    """A docx or odt file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))) as archive:
        if kind == "odt" and (valid or random.random() < 0.8):
            archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("content.xml" if kind == "odt" else "word/document.xml", xml)
    return made.getvalue()


def _encode(random: Random, data: str | bytes, encoding: str | None) -> bytes:
    if isinstance(data, bytes):
        return data
    if encoding is None:
        encoding = random.choice(ENCODINGS)
        data = data.replace("\n", random.choice(("\n", "\n", "\r\n", "\r")))
    return data.encode(encoding, "replace")


def _input(kind: str) -> str:
    return "columns" if kind == "wikiann" else "auto" if kind in DOCUMENTS else kind


def read_words(path: Path, kind: str) -> list[str]:
    """The words of a valid file. A refusal is a failure."""
    try:
        if kind == "wikiann":
            return [word for sentence in read_labelled(path, "ner") for word in sentence.words]
        with TextSource(path.name, path).open(_input(kind)) as opened:
            return [word for sentence in read(opened) for word in sentence.words]
    except ZgulError as error:
        raise Broken(f"a valid file was refused: {error}") from error


def read_any(path: Path, random: Random, kind: str) -> None:
    """Read a file as what it was made as, as something else, or as labelled data."""
    if random.random() < 0.3:
        for sentence in read_labelled(path, random.choice(("pos", "ner")), "de"):
            check_words(sentence.words, [word for word in sentence.words if word])
        return
    chosen = _input(kind) if random.random() < 0.6 else random.choice(KINDS)
    with TextSource(path.name, path).open(chosen) as opened:
        for sentence in read(opened, "de"):
            check_words(sentence.words, [word for word in sentence.words if word])


def output_words(text: str, form: str) -> list[str]:
    """The words of an output, read by other code than zgul's."""
    lines = text.split("\n")
    if form == "json":
        return [word for line in lines if line for word in json.loads(line)["words"]]
    rows = [line.split("\t") for line in lines if line and not (form == "conllu" and line.startswith("# "))]
    return [row[1] for row in rows if row[0].isdigit()] if form == "conllu" else [row[0] for row in rows]

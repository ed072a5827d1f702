"""A fixed corpus of nasty cases: each is refused with one clear sentence, quickly, or read without losing a word.

Most were found by the fuzzer or by somebody who attacked zgul. They are built here, so that nobody has to trust a file.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import struct
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from reliability.model_folders import ModelFolders
from reliability.segmenter import check_cut, check_sentence

from zgul.adapters.adapterhub import read_adapter
from zgul.corpora import plain_text
from zgul.corpora.data_folder import read_labelled
from zgul.encoders.folder import load_folder
from zgul.errors import ZgulError
from zgul.options import read_yaml
from zgul.paper.plan import Inputs
from zgul.tagger import load_tagger
from zgul.tagging.reading import Input, TextSource, read
from zgul.tagging.rich_text import DAMAGED_DOCUMENT, html_text, office_text
from zgul.training.config import TrainingConfig

SECONDS = 2.0  # of the processor, for any of them

# --- text

TEXTS = {
    "a lone regional indicator and a tab": "\U0001f1e9\tde",
    "three regional indicators": "\U0001f1e9\U0001f1ea\U0001f1eb x",
    "marks alone": "\u0301\u0308 \u0301a\u200d",
    "joiners and nothing to join": "\u200d \u200d\u200d\n\u200d",
    "a zero-width space inside a word": "ze\u200bro",
    "byte-order marks inside": "a\ufeffb \ufeff",
    "every line end there is": "a\nb\r\nc\rd\x0be\x0cf\x1cg\x85h\u2028i\u2029j",
    "control characters": "a\x00b\x01c\x7fd\x9fe",
    "only blanks": " \t\u00a0\u3000\u200b\n\n",
    "terminators of all scripts": "a. b! c? d। e። f؟ g։ h。i…",
    "ten thousand full stops": "." * 10_000,
    "ten thousand quotes": "“" * 10_000,
    "a word of fifty thousand letters": "a" * 50_000,
    "fifty thousand marks on one letter": "a" + "\u0301" * 50_000,
    "an address without end": "http://" + "a." * 10_000,
    "letters and stops in turn": "a." * 5_000,
    "mails without end": "a@" * 5_000,
    "brackets inside words": "a[b]" * 3_000,
    "hyphens without end": "a-" * 5_000,
    "noncharacters and private ones": "\ufffe\uffff\U0010ffff\ue000\U000f0000",
    "Hangul letter by letter": "\u1100\u1161\u11a8 \u1100\u1100",
    "right to left, and turned around": "שלום\u202e abc \u202c\u2066x\u2069",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_loses_nothing(name: str) -> None:
    for form in plain_text.FORMS:
        began = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            sentences = list(plain_text.split(TEXTS[name], form, "de"))
        assert time.process_time() - began < SECONDS
        check_cut(TEXTS[name], sentences)
        for sentence in sentences[:50]:
            check_sentence(sentence)


# --- documents with layout

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PAGES = {
    "comments without end": "<!--" * 50_000,
    "comments in comments": "<!-- <!-- -->" * 20_000,
    "tags without end": "<a " * 50_000,
    "blanks in a tag": "<a" + " " * 200_000,
    "values without end": "<a b=" * 50_000,
    "quotes without end": "<a b='" * 50_000,
    "quotes in turn": "<a b='x' c=\"<a" * 20_000,
    "slashes": "<a/" * 50_000,
    "declarations without end": "<![CDATA[<?" * 20_000,
    "ends without end": "</" * 50_000 + "</a" * 50_000,
    "scripts in scripts": "<script></" * 20_000,
    "stray brackets": "< <" * 50_000,
    "characters without end": "&am" * 50_000 + "&#" * 50_000,
}
DOCUMENTS = {  # the XML, how much of a picture lies beside it, and why it is refused
    "elements": ("<a>" + "<a/>" * 4_000_000 + "</a>", 0, "unpacks to more than 200 times its size"),
    "paragraphs": (f"<a xmlns='{WORD}'>" + "<p/>" * 4_000_000 + "</a>", 0, "unpacks to more than 200 times its size"),
    "a long name, copied for each element": (f"<a xmlns='{'x' * 1_000_000}'>" + "<a/>" * 500_000, 20_000, "too long"),
    "depth, and no end": ("<a>" * 200_000, 20_000, "no element found"),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_take_time_in_proportion_to_their_size(name: str) -> None:
    began = time.process_time()
    text = html_text(b"<html><p>before</p>" + PAGES[name].encode())
    assert time.process_time() - began < SECONDS and text.startswith("before")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_small_documents_that_unpack_to_much_take_little(name: str) -> None:
    xml, picture, reason = DOCUMENTS[name]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", xml)
        archive.writestr("picture", random.Random(0).randbytes(picture))
    content, began = made.getvalue(), time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises((ZgulError, *DAMAGED_DOCUMENT), match=reason):
            office_text(content)
        assert tracemalloc.get_traced_memory()[1] < 200e6 and time.process_time() - began < SECONDS
    finally:
        tracemalloc.stop()


def test_a_document_whose_parts_begin_before_it_is_refused() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("word/document.xml", "<a/>")
    content = bytearray(made.getvalue())
    (directory,) = struct.unpack_from("<I", content, len(content) - 6)
    struct.pack_into("<I", content, len(content) - 6, directory + 650_000)
    with pytest.raises(ZgulError, match="a docx, odt or other zip file that cannot be read"):
        Input(io.BytesIO(content), "a.docx")


# --- files of text

ROW = "{}\ta\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"
FILES: dict[str, tuple[str, bytes]] = {
    "UTF-16 with half a character": ("a.txt", b"\xff\xfe" + "ab".encode("utf-16-le") + b"\x00\xd8x\x00"),
    "UTF-16 cut in the middle": ("a.txt", "abc def\n".encode("utf-16")[:-1]),
    "UTF-32": ("a.txt", "abc\n".encode("utf-32")),
    "a NUL": ("a.conllu", ROW.format(1).replace("a", "a\0").encode()),
    "a picture": ("a.txt", b"\x89PNG\r\n\x1a\n" + bytes(range(256))),
    "gzip that is none": ("a.txt.gz", b"a b c\n"),
    "gzip cut short": ("a.txt.gz", gzip.compress(b"a b c\n" * 1000)[:-9]),
    "gzip with damage inside": ("a.txt.gz", gzip.compress(os.urandom(99))[:30] + b"\0" * 40),
    "zstd that is none": ("a.txt.zst", b"\x28\xb5\x2f\xfd" + b"\xff" * 20),
    "a line of 20 MB, packed into 20 kB": ("a.txt.gz", gzip.compress(b"a" * 20_000_000)),
    "200,000 comments": ("a.conllu", b"# a\n" * 200_000),
    "a number of a word without end": ("a.conllu", ROW.format("9" * 5000).encode()),
    "a range without end": ("a.conllu", ROW.format("1-999999999").encode()),
    "words counted in other digits": ("a.conllu", ROW.format("\u0661").encode()),
    "half a Windows line end inside a word": ("a.conllu", (ROW.format(1).replace("a", "a\rb") + "\n").encode()),
    "half a Windows line end in a comment": ("a.conllu", (f"# text = a\rb\n{ROW.format(1)}\n").encode()),
    "an empty column": ("a.conllu", b"1\t\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"),
    "a word that is a blank": ("a.tsv", "\u00a0\tO\n".encode()),
    "tags that are none": ("a.tsv", b"a\tB-\n"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("labelled", [False, True], ids=["text", "labelled"])
def test_files_of_text_are_refused(name: str, labelled: bool, tmp_path: Path) -> None:
    path = tmp_path / FILES[name][0]
    path.write_bytes(FILES[name][1])
    began = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        if labelled:
            with pytest.raises(ZgulError):
                read_labelled(path, "ner")
        elif name not in ("a word that is a blank", "tags that are none"):
            with pytest.raises(ZgulError), TextSource(path.name, path).open() as opened:
                list(read(opened))
    assert time.process_time() - began < SECONDS


# --- configurations

YAML = {
    "code": "lr: !!python/object/apply:os.system ['touch PWNED']",
    "a class": "lr: !!python/name:os.system",
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
    "a date": "seed: 2001-99-99",
    "a time that is none": "seed: !!timestamp x",
    "a truth that is none": "seed: !!bool x",
    "an integer that is none": "seed: !!int abc",
    "open brackets": "lr: " + "[" * 3000,
    "deep": "".join(f"{' ' * n}a:\n" for n in range(800)),
    "a number of 5,000 digits": "seed: " + "1" * 5000,
    "not a number": "lr: .nan",
    "two documents": "lr: 1\n---\nlr: 2",
    "a list": "- lr",
    "bytes": "lr: \x80",
}


@pytest.mark.parametrize("name", YAML)
def test_configurations_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(YAML[name], encoding="latin-1")
    began = time.process_time()
    with pytest.raises(ZgulError):
        TrainingConfig.from_dict(read_yaml(Path("a.yaml")))
    assert time.process_time() - began < SECONDS and list(Path().iterdir()) == [Path("a.yaml")]


def test_a_folder_whose_name_is_too_long() -> None:
    with pytest.raises(ZgulError, match="no such folder"):
        Inputs(data="a" * 5000)


# --- folders of models


class Call:
    """What a pickle calls when it is opened."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def packed(value: Any) -> bytes:
    made = io.BytesIO()
    torch.save(value, made)
    return made.getvalue()


PICKLES = {
    "a program": packed({"a": Call(os.system, "touch PWNED")}),
    "code": packed({"a": Call(exec, "open('PWNED', 'w')")}),
    "a bare pickle": pickle.dumps({"a": Call(open, "PWNED", "w")}),
    "eight gigabytes": packed({"a": Call(bytearray, 1 << 33)}),
    "eight billion numbers": packed({"a": torch.zeros(1).expand(1 << 33)}),
    "a sparse tensor": packed({"a": torch.zeros(2).to_sparse()}),
    "a module": packed(torch.nn.Linear(2, 2)),
    "a number": packed(1),
    "numbers for names": packed({1: torch.zeros(2)}),
    "nothing": b"",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ModelFolders:
    return ModelFolders(tmp_path_factory.mktemp("models"))


def copied(models: ModelFolders, name: str, place: Path, **changed: bytes) -> Path:
    """A folder with other contents in the files whose names begin so."""
    for path, content in models.files[name].items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(changed.get(path.name.partition(".")[0], content))
    return place


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_run_nothing_and_take_nothing(
    name: str, models: ModelFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = copied(models, "encoder-pickle", tmp_path / "encoder", pytorch_model=PICKLES[name])
    adapter = copied(models, "hub-pickle", tmp_path / "adapter", pytorch_adapter=PICKLES[name])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    began = time.process_time()
    for read_it, folder in ((load_folder, encoder), (read_adapter, adapter)):
        with warnings.catch_warnings(action="ignore"), pytest.raises(ZgulError):
            read_it(folder)
    assert time.process_time() - began < SECONDS and not list(Path().iterdir())


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no labels": lambda config: config.update(labels=[]),
    "labels twice": lambda config: config.update(labels=config["labels"] * 2),
    "an encoder elsewhere": lambda config: config["encoder"].update(name="../../x", width=7),
    "a width of a million": lambda config: config["encoder"].update(width=1_000_000),
    "features of two lengths": lambda config: config["features"].pop(next(iter(config["features"]))),
    "features that are not finite": lambda config: config["features"].update(s0=[float("nan")] * 3),
    "a method that there is not": lambda config: config.update(method="os.system"),
    "EM without end": lambda config: config["em"].update({"": {"steps": 10**40}}),
    "a dropout of two": lambda config: config["options"].update(dropout=2.0),
    "another format": lambda config: config.update(format=[2]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_configurations_of_taggers_are_refused(name: str, models: ModelFolders, tmp_path: Path) -> None:
    config = json.loads(models.files["cpg"][Path("config.json")])
    CHANGES[name](config)
    folder = copied(models, "cpg", tmp_path / "tagger", config=json.dumps(config).encode())
    with pytest.raises(ZgulError):
        load_tagger(folder, encoder=models.encoder)


def safetensors(header: object, numbers: bytes = b"", size: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + numbers


WEIGHTS = {
    "a header of 2^63 bytes": safetensors({}, size=1 << 63),
    "a tensor of 2^40 numbers": safetensors(
        {"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}}, b"1234"
    ),
    "coded tensors that are not there": safetensors({"__metadata__": {"zgul.coded": '{"a": [9, 10]}'}}),
    "notes that are none": safetensors({"__metadata__": {"zgul.coded": "[" * 5000}}),
    "float8": safetensors({"a": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, b"1"),
    "nothing": b"",
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_refused(name: str, models: ModelFolders, tmp_path: Path) -> None:
    folder = copied(models, "zgul", tmp_path / "tagger", model=WEIGHTS[name])
    with pytest.raises(ZgulError):
        load_tagger(folder, encoder=models.encoder)
    folder = copied(models, "zgul", tmp_path / "bank", bank=WEIGHTS[name])
    with pytest.raises(ZgulError):
        load_tagger(folder, encoder=models.encoder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("kind", ["pipe", "device", "holes"])
@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_folders_with_what_is_no_plain_file_are_refused(
    file: str, kind: str, models: ModelFolders, tmp_path: Path
) -> None:
    """An archive of a kilobyte can hold any of these. A pipe would be waited for, the others have no end."""
    folder = copied(models, "encoder", tmp_path / "encoder")
    (folder / file).unlink()
    if kind == "pipe":
        os.mkfifo(folder / file)
    elif kind == "device":
        (folder / file).symlink_to("/dev/zero")
    else:
        with (folder / file).open("wb") as holes:
            holes.truncate(50_000_000_000)
    with pytest.raises(ZgulError, match=r"A plain file is needed|is larger than|has no tokenizer\.json"):
        load_folder(folder)


def test_a_type_of_encoder_that_is_a_list(models: ModelFolders, tmp_path: Path) -> None:
    config = json.loads(models.files["encoder"][Path("config.json")]) | {"model_type": ["bert"]}
    folder = copied(models, "encoder", tmp_path / "encoder", config=json.dumps(config).encode())
    with pytest.raises(ZgulError, match="is of the type"):
        load_folder(folder)


def test_a_tokenizer_without_its_unknown_piece(models: ModelFolders, tmp_path: Path) -> None:
    text = json.loads(models.files["encoder"][Path("tokenizer.json")])
    text["model"]["unk_token"] = "no such piece"
    folder = copied(models, "encoder", tmp_path / "encoder", tokenizer=json.dumps(text).encode())
    with pytest.raises(ZgulError, match="The tokenizer is damaged: it cannot cut words"):
        load_folder(folder)[1].tokenise(["漢字"])

"""Fuzz target: folders of taggers, adapted taggers, encoders and adapters from anybody, with damaged or hostile files.

Valid folders are made with tiny models. A case damages one file of a folder, or puts another in its place. Pickles try
to run code, which `reliability.fuzz.Guard` notices. What is still accepted tags a sentence, all its words.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch

import small_tagger
from reliability import strange
from reliability.cases import Case, check
from zgul.adapters.adapterhub import read_adapter, write_adapter
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import load_adapters
from zgul.encoders.embedded import load_q4, save_q4
from zgul.encoders.encoder import Encoder
from zgul.encoders.folder import load_folder
from zgul.methods import MethodOptions
from zgul.tagger import load_tagger, save_tagger
from zgul.tagging.delta import TENSORS, Delta, base_checksum, save_delta
from zgul.tagging.loading import load_named
from zgul.tensors import load_tensors, load_with_metadata, save_tensors

METHODS = ("zgul", "madx-multi", "cpg", "sft-m")
CONFIG, MODEL, BANK, Q4 = "config.json", "model.safetensors", "bank.safetensors", "encoder.q4.safetensors"
PREDICT = 0.05  # share of the accepted taggers that tag


class _Call:
    """What a hostile pickle calls when it is opened."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


class ModelFolders:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.encoder = small_tagger.tiny_encoder(small_tagger.MADE, layers=1, width=small_tagger.WIDTH)
        for method in METHODS:
            tagger = small_tagger.small_tagger(method, options=MethodOptions(dropout=0.0), depth=1)
            save_tagger(tagger, folder / method)
        tagger = small_tagger.small_tagger("zgul", depth=1)
        save_tagger(tagger, folder / "coded", merged=True, encoder=True)
        code(folder / "coded" / MODEL, 9)
        for name, safe in (("hub", True), ("hub-pickle", False)):
            write_adapter(small_tagger.small_adapters(invertible=True, depth=1)[0], folder / name, safe=safe)
        state = torch.load(folder / "hub-pickle" / "pytorch_adapter.bin", weights_only=True)
        shutil.copytree(folder / "hub-pickle", folder / "hub-old")
        torch.save(state, folder / "hub-old" / "pytorch_adapter.bin", _use_new_zipfile_serialization=False)
        shutil.copytree(folder / "coded" / "encoder", folder / "encoder")
        shutil.copytree(folder / "coded" / "encoder", folder / "encoder-pickle")
        torch.save(load_tensors(folder / "encoder" / MODEL), folder / "encoder-pickle" / "pytorch_model.bin")
        (folder / "encoder-pickle" / MODEL).unlink()
        self.write_delta(folder / "delta")
        (folder / "encoder-4-bit").mkdir()
        write_4_bit(folder / "encoder-4-bit" / Q4)
        self.kinds: dict[str, Callable[[Path, Random], None]] = {
            **dict.fromkeys(METHODS, self.load_tagger),
            "coded": self.load_tagger_with_encoder,
            **dict.fromkeys(("hub", "hub-pickle", "hub-old"), load_adapter),
            "encoder": load_encoder,
            "encoder-pickle": load_encoder,
            "encoder-4-bit": load_4_bit,
            "delta": self.load_delta,
        }
        self.files = {
            name: {
                path.relative_to(folder / name): path.read_bytes()
                for path in (folder / name).rglob("*")
                if path.is_file()
            }
            for name in self.kinds
        }

    def run(self, case: Case) -> None:
        random = case.random
        name = random.choice(list(self.kinds))
        chosen = random.choice(list(self.files[name]))
        for path, content in self.files[name].items():
            place = case.folder / path
            place.parent.mkdir(exist_ok=True)
            if path != chosen:
                os.link(self.folder / name / path, place)
            elif (made := damaged_file(random, path, content, case)) is not None:
                place.write_bytes(made)
            elif random.random() < 0.3:
                place.mkdir()
        if path.name == BANK and random.random() < 0.2:
            load_adapters(case.folder / BANK)
        self.kinds[name](case.folder, random)

    def load_tagger(self, folder: Path, random: Random) -> None:
        self.predict(load_tagger(folder, encoder=self.encoder), random)

    def load_tagger_with_encoder(self, folder: Path, random: Random) -> None:
        self.predict(load_tagger(folder), random)

    def load_delta(self, folder: Path, random: Random) -> None:
        self.predict(load_named(str(folder)), random)

    def write_delta(self, folder: Path) -> None:
        """What was learnt from raw text: an update, an adapter and a difference."""
        base = self.folder / "coded"
        tensors = {"head.bias": torch.ones(len(small_tagger.LABELS)), "adapter.0.down.bias": torch.ones(5)}
        tensors |= {"update.0.query.a": torch.ones(3, 16), "update.0.query.b": torch.ones(16, 3)}
        delta = Delta(str(base), base_checksum(base), "target", "pos", tensors, "s0", {"int8": True})
        folder.mkdir()
        save_delta(folder, delta)
        code(folder / TENSORS, 2)

    def predict(self, tagger: Any, random: Random) -> None:
        if random.random() < PREDICT:
            sentences = small_tagger.mixed_sentences()[1:]
            predicted = tagger.predict(sentences)
            check([len(one.tags) for one in predicted] == [len(one.words) for one in sentences], "a tag for each word")


def load_adapter(folder: Path, random: Random) -> None:
    adapter = read_adapter(folder, random.choice((None, "xx")))
    check(all(torch.isfinite(value).all() for value in _numbers(adapter)), "finite numbers")


def _numbers(adapter: LanguageAdapter) -> list[torch.Tensor]:
    return [value for layer in adapter.layers for value in layer.parameters()]


def load_encoder(folder: Path, random: Random) -> None:
    encoder, tokenizer = load_folder(folder)
    check(isinstance(encoder, Encoder), "an encoder")
    tokenizer.tokenise(["hawa", strange.letters(random)])


def code(path: Path, bits: int) -> None:
    """Write a file of tensors again in coded form, however small they are."""
    tensors, notes = load_with_metadata(path)
    save_tensors(path, tensors, bits=bits, small=1, metadata=notes)


def write_4_bit(path: Path) -> None:
    encoder, tokenizer = small_tagger.tiny_encoder(small_tagger.MADE, layers=1, width=32)
    for weight in encoder.parameters():
        weight.data = (4 * weight.data).round().clamp(-8, 7) / 4
    save_q4(encoder, tokenizer, path)


def load_4_bit(folder: Path, random: Random) -> None:
    encoder, tokenizer = load_q4(folder / Q4)
    check(isinstance(encoder, Encoder), "an encoder")
    tokenizer.tokenise(["hawa", strange.letters(random)])


def damaged_file(random: Random, path: Path, content: bytes, case: Case) -> bytes | None:
    """The file with something wrong; None if it is to be absent."""
    if random.random() < 0.01:
        return None
    if random.random() < 0.1:
        return strange.damage(random, content)
    if path.suffix == ".json":
        return strange.json_bytes(random, json.loads(content))
    if path.suffix == ".safetensors":
        return damaged_safetensors(random, content)
    return damaged_pickle(random, content, case)


def damaged_safetensors(random: Random, content: bytes) -> bytes:
    """Another header, or other numbers."""
    size = struct.unpack("<Q", content[:8])[0]
    header, numbers = json.loads(content[8 : 8 + size]), content[8 + size :]
    notes = header.get("__metadata__", {})
    kind = random.random()
    if kind < 0.3 and notes:  # what zgul itself wrote into the header
        key = random.choice(list(notes))
        notes[key] = (
            strange.json_bytes(random, json.loads(notes[key])).decode("utf-8", "replace")
            if notes[key][:1] in "[{"
            else "x"
        )
    elif kind < 0.7:
        header = strange.odd_json(random, header)
    elif kind < 0.9:
        numbers = bytearray(numbers)
        for _ in range(random.randint(1, 20)):
            numbers[random.randrange(len(numbers))] = random.choice((0, 127, 128, 255, random.randrange(256)))
    made = strange.dump(header)
    announced = len(made) if random.random() < 0.9 else random.choice((0, 1, size, 2**40, 2**63, len(made) - 1))
    return struct.pack("<Q", announced) + made + bytes(numbers)


def damaged_pickle(random: Random, content: bytes, case: Case) -> bytes:
    """A pickle that would run code, one with other things in it than tensors, or one with other bytes."""
    kind = random.random()
    if kind < 0.4:
        target = str(case.folder.parent / "PWNED")
        call = random.choice(
            (
                _Call(os.system, f"touch {target}"),
                _Call(exec, f"open({target!r}, 'w').close()"),
                _Call(eval, f"open({target!r}, 'w').close()"),
                _Call(open, target, "w"),
                _Call(Path(target).write_text, "x"),
                _Call(shutil.rmtree, target),
                _Call(getattr, "", "join"),
                _Call(torch.load, target),
                _Call(bytearray, 2**33),
            )
        )
        held: Any = random.choice((call, {"a": call}, {"encoder.layer.0.x": torch.zeros(2), "b": call}, [call]))
        if random.random() < 0.3:
            return pickle.dumps(held, protocol=random.randrange(6))
        return _saved(held, random.random() < 0.7)
    if kind < 0.6:
        odd: Any = random.choice(
            (
                strange.odd_value(random),
                {"a": strange.odd_value(random)},
                {1: torch.zeros(2)},
                {"a": torch.zeros(2).to_sparse()},
                {"a": torch.zeros(1).expand(2**33)},
                {"a": torch.zeros(2, dtype=random.choice((torch.int64, torch.bool, torch.complex64, torch.bfloat16)))},
                {"a": torch.full((2,), float("nan"))},
                torch.zeros(3),
                {"encoder.layer.999.output.adapters.s0.x": torch.zeros(2)},
                torch.nn.Linear(2, 2),
            )
        )
        return _saved(odd, random.random() < 0.7)
    if not content.startswith(b"PK"):
        return strange.damage(random, content)
    made = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if random.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w", packing) as new:
        for member in old.namelist():
            inner = old.read(member)
            if member.endswith("data.pkl") or random.random() < 0.05:
                inner = strange.damage(random, inner, 2)
            if random.random() < 0.98:
                new.writestr(member, inner)
    return made.getvalue()


def _saved(value: Any, zipped: bool) -> bytes:
    made = io.BytesIO()
    try:
        torch.save(value, made, _use_new_zipfile_serialization=zipped)
    except (RuntimeError, UnicodeError, RecursionError):  # what cannot be saved
        return b"\x80\x02}."
    return made.getvalue()

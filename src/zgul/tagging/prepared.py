"""Shipped taggers made ready: what loading and folding one computes is kept in the cache folder.

Loading a shipped tagger decodes its numbers, merges low-rank updates, applies a delta and folds matrices, which takes
most of a second and 300 MB. The result is one file, named after a checksum of all files that it was made from
(`zgul.fast.stored`). A file that is damaged is made again.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zgul import __version__, encoders
from zgul.adapters.storage import SHIPPED_ADAPTERS
from zgul.encoders.batches import PieceEncoder
from zgul.encoders.embedded import SHA256
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError
from zgul.fast.stored import VERSION, read_model, storable, write_model
from zgul.files import cache_dir, read_json, shipped_folder
from zgul.methods import MethodOptions, Parts, find_method
from zgul.methods.model import Model
from zgul.tagger import Tagger
from zgul.tagging.delta import NOTE, base_folder, is_delta

ENCODER = "embedded"  # prepared taggers share its vocabulary
WORDS = "encoder.words.weight"
_SAME = ("task", "encoder_name", "strategy", "decode", "strip_marks")
_TAGGER = "tagger"  # key in the file's metadata


@dataclass(frozen=True)
class Prepared:
    """A tagger as its file holds it."""

    model: Model  # folded
    parts: Parts  # without language adapters, which are part of the folded model
    settings: dict[str, Any]  # the other fields of the tagger


def prepared_file(folder: Path) -> Path:
    """The place of a shipped tagger in the cache, by a checksum of what it is made from."""
    digest = hashlib.sha256(f"{VERSION} {__version__} {torch.__version__} {SHA256}".encode())
    folders = [folder, base_folder(str(read_json(folder / NOTE).get("base")))] if is_delta(folder) else [folder]
    kinds = [(place, pattern) for place in folders for pattern in ("*.json", "*.safetensors")]
    files = [path for place, pattern in kinds for path in sorted(place.glob(pattern))]
    adapters = shipped_folder() / SHIPPED_ADAPTERS
    for path in (*files, *([adapters] if adapters.is_file() else [])):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return cache_dir() / f"tagger-{digest.hexdigest()[:24]}.safetensors"


def prepare(tagger: Tagger, path: Path) -> bool:
    """Write a tagger's file, if there is room and it is of the kind that ships. True if it was written."""
    if tagger.encoder_name != ENCODER or tagger.parts.options.train_encoder:
        return False
    model, words = tagger.engine.model, tagger.model.encoder.words.weight
    if not storable(model):
        return False
    note: dict[str, Any] = {name: getattr(tagger, name) for name in _SAME} | {
        "method": tagger.method.name,
        "labels": list(tagger.labels),
        "sources": list(tagger.parts.sources),
        "options": tagger.parts.options.to_dict(),
        "features": {code: np.asarray(value).tolist() for code, value in tagger.parts.features.items()},
        "em": {language: config.to_dict() for language, config in tagger.em.items()},
        "about": dict(tagger.about),
        "related_letters": tagger.pieces.related_letters,
    }
    try:
        write_model(path, model, {WORDS: words}, {_TAGGER: json.dumps(note)})
    except OSError:  # without a cache, it only takes longer
        return False
    return True


def read_prepared(path: Path) -> Prepared | None:
    """Read the file of a prepared tagger. None if there is no file, or a damaged one."""
    if not path.is_file():
        return None
    encoder, tokenizer = encoders.load(ENCODER)
    try:
        model, metadata = read_model(path, {WORDS: encoder.words.weight})
        note = json.loads(metadata[_TAGGER])
        options, settings = MethodOptions.from_dict(note["options"]), {name: note[name] for name in (*_SAME, "about")}
        features = {code: np.array(value, np.float32) for code, value in note["features"].items()}
        settings["em"] = {code: EMConfig.from_dict(value) for code, value in note["em"].items()}
    except (ZgulError, KeyError, ValueError, TypeError, AttributeError, RuntimeError):
        return None
    settings["method"] = find_method(note["method"])
    settings["pieces"] = PieceEncoder(tokenizer, encoder.max_pieces, related_letters=note["related_letters"])
    parts = Parts(model.encoder, tuple(note["labels"]), tuple(note["sources"]), (), options, features)
    return Prepared(model, parts, settings)

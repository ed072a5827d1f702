"""A folded model as one file, which is mapped into memory: a start without decoding, merging and folding.

The file has the model's tensors. Its metadata has an outline of the modules: their classes, their settings (all that is
no tensor and no module) and their parts. Nothing is computed when a file is read, and only what a batch needs is read.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from zgul.adapters.bank import Bank
from zgul.adapters.language_adapter import Bottleneck, Invertible
from zgul.encoders.encoder import Embedding, Encoder, EncoderConfig, EncoderLayer, Linear
from zgul.ensemble.lang2vec import Lang2Vec, LanguageVectors
from zgul.fast.folding import FoldedWeighting
from zgul.methods.model import Model
from zgul.tensors import map_tensors, save_tensors

VERSION = 1  # of the file, and of all that is computed before it is written
OUTLINE = "outline"  # key in the file's metadata
ORIGIN = "origin"  # attribute of a model that was read: the name of its file, which tells models apart
_KINDS: tuple[type[nn.Module], ...] = (
    *(Model, Encoder, EncoderLayer, Linear, Embedding, Bank, Bottleneck, Invertible, LanguageVectors, Lang2Vec),
    *(FoldedWeighting, nn.Linear, nn.Embedding, nn.LayerNorm, nn.Dropout, nn.ModuleList),
)
_NAMED = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in _KINDS}
_EVERY = frozenset(vars(nn.Module()))  # what every module has; it is the same in all of them here


def storable(model: nn.Module) -> bool:
    """Whether a folded model has only modules that can be written. All shipped taggers are such models."""
    return all(type(module) in _KINDS for module in model.modules())


def write_model(path: Path, model: Model, shared: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a folded model without the tensors that are ``shared`` with another file."""
    tensors = {name: value.detach() for name, value in (*model.named_parameters(), *model.named_buffers())}
    own = {name: value for name, value in tensors.items() if name not in shared}
    save_tensors(path, own, metadata=metadata | {OUTLINE: json.dumps(_outline(model))})


def read_model(path: Path, shared: Mapping[str, Tensor]) -> tuple[Model, dict[str, str]]:
    """The model of a file that `write_model` wrote, and its metadata."""
    tensors, metadata = map_tensors(path)
    model = _built(json.loads(metadata.pop(OUTLINE)), {**tensors, **shared}, "").eval()
    assert isinstance(model, Model)
    vars(model)[ORIGIN] = path.stem
    return model, metadata


def _outline(module: nn.Module) -> dict[str, Any]:
    kind = type(module)
    settings = {name: value for name, value in vars(module).items() if name not in _EVERY}
    if isinstance(module, Encoder):
        settings["config"] = asdict(module.config)
    return {
        "kind": f"{kind.__module__}.{kind.__qualname__}",
        "settings": settings,
        "parameters": {name: value is not None for name, value in vars(module)["_parameters"].items()},
        "buffers": [name for name, _ in module.named_buffers(recurse=False)],
        "parts": {name: _outline(part) for name, part in module.named_children()},
    }


def _built(outline: dict[str, Any], tensors: Mapping[str, Tensor], prefix: str) -> nn.Module:
    kind = _NAMED[outline["kind"]]
    module = kind.__new__(kind)
    nn.Module.__init__(module)
    settings = outline["settings"]
    if kind is Encoder:
        settings["config"] = EncoderConfig(**settings["config"] | {"rotary": ()})  # JSON has a list in its place
    vars(module).update(settings)
    for name, held in outline["parameters"].items():
        value = nn.Parameter(tensors[prefix + name], requires_grad=False) if held else None
        module.register_parameter(name, value)
    for name in outline["buffers"]:
        module.register_buffer(name, tensors[prefix + name], persistent=False)
    for name, part in outline["parts"].items():
        module.add_module(name, _built(part, tensors, f"{prefix}{name}."))
    return module

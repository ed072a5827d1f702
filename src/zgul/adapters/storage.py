"""Language adapters in our own file: several in one safetensors, described in its header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from zgul.adapters.bank import LanguageAdapter
from zgul.adapters.bottleneck import Bottleneck, Invertible, reduction_factor
from zgul.errors import ZgulError
from zgul.tensors import load_with_metadata, save_tensors


def save_adapters(path: Path, adapters: Sequence[LanguageAdapter], *, bits: int = 32) -> None:
    """Several language adapters in one file."""
    tensors = {name: value for adapter in adapters for name, value in _tensors(adapter).items()}
    info = [
        {
            "language": a.language,
            "width": a.width,
            "depth": len(a.layers),
            "activation": a.activation,
            "standardise": a.standardise,
            "invertible": a.invertible is not None,
            "about": a.about,
        }
        for a in adapters
    ]
    save_tensors(path, tensors, bits=bits, metadata={"adapters": json.dumps(info)})


def checksum(adapters: Sequence[LanguageAdapter]) -> str:
    """SHA-256 of all that adapters compute with, in whatever order and on whatever device they are."""
    digest = hashlib.sha256()
    for adapter in sorted(adapters, key=lambda adapter: adapter.language):
        digest.update(f"{adapter.language} {adapter.activation} {adapter.standardise}\n".encode())
        for name, value in _tensors(adapter).items():
            digest.update(f"{name} {list(value.shape)}\n".encode())
            digest.update(value.float().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def load_adapters(path: Path) -> list[LanguageAdapter]:
    """Read a file written by ``save_adapters``."""
    tensors, metadata = load_with_metadata(path)
    if "adapters" not in metadata:
        raise ZgulError(f"{path} holds no language adapters")
    return [_restore(info, tensors, path) for info in json.loads(metadata["adapters"])]


def _tensors(adapter: LanguageAdapter) -> dict[str, Tensor]:
    """An adapter's tensors as the file calls them."""
    parts = {str(index): layer.state_dict() for index, layer in enumerate(adapter.layers)}
    if adapter.invertible is not None:
        parts["invertible"] = adapter.invertible.state_dict()
    return {
        f"{adapter.language}.{part}.{name}": value for part, state in parts.items() for name, value in state.items()
    }


def _restore(info: dict[str, Any], tensors: dict[str, Tensor], path: Path) -> LanguageAdapter:
    """One adapter of the file; the sizes, which may differ by layer, are those of its tensors."""
    language, width, activation = info["language"], info["width"], info["activation"]
    try:
        layers = []
        for index in range(info["depth"]):
            state = _below(tensors, f"{language}.{index}.")
            layers.append(Bottleneck(width, len(state["down.bias"]), activation, info["standardise"]))
            layers[-1].load_state_dict(state)
        block = None
        if info["invertible"]:
            state = _below(tensors, f"{language}.invertible.")
            block = Invertible(width, reduction_factor(width // 2, len(state["f_down.bias"])), activation)
            block.load_state_dict(state)
    except (KeyError, RuntimeError) as error:
        raise ZgulError(f"{path}: the language adapter {language!r} is incomplete ({error}); save it again") from error
    return LanguageAdapter(language, layers, block, info["about"])


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}

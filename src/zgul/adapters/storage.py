"""Language adapters in our own file: several in one safetensors, described in its header."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from zgul.adapters.bank import LanguageAdapter
from zgul.errors import ZgulError
from zgul.tensors import load_with_metadata, save_tensors


def save_adapters(path: Path, adapters: Sequence[LanguageAdapter], *, bits: int = 32) -> None:
    """Several language adapters in one file."""
    tensors: dict[str, Tensor] = {}
    for adapter in adapters:
        for index, layer in enumerate(adapter.layers):
            tensors |= {f"{adapter.language}.{index}.{name}": value for name, value in layer.state_dict().items()}
        if adapter.invertible is not None:
            state = adapter.invertible.state_dict()
            tensors |= {f"{adapter.language}.invertible.{name}": value for name, value in state.items()}
    info = [
        {
            "language": a.language,
            "width": a.width,
            "size": a.size,
            "depth": len(a.layers),
            "activation": a.activation,
            "invertible": a.invertible is not None,
            "about": a.about,
        }
        for a in adapters
    ]
    save_tensors(path, tensors, bits=bits, metadata={"adapters": json.dumps(info)})


def load_adapters(path: Path) -> list[LanguageAdapter]:
    """Read a file written by ``save_adapters``."""
    tensors, metadata = load_with_metadata(path)
    if "adapters" not in metadata:
        raise ZgulError(f"{path} holds no language adapters")
    adapters = []
    for info in json.loads(metadata["adapters"]):
        adapter = LanguageAdapter.new(
            info["language"],
            info["width"],
            info["depth"],
            size=info["size"],
            activation=info["activation"],
            invertible=info["invertible"],
        )
        adapter.about = info["about"]
        for index, layer in enumerate(adapter.layers):
            layer.load_state_dict(_below(tensors, f"{adapter.language}.{index}."))
        if adapter.invertible is not None:
            adapter.invertible.load_state_dict(_below(tensors, f"{adapter.language}.invertible."))
        adapters.append(adapter)
    return adapters


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}

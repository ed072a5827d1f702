"""Language adapters in our own file: several in one safetensors, described in its metadata."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from zgul.adapters.bottleneck import ACTIVATIONS, Bottleneck, Invertible, reduction_factor
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.errors import ZgulError
from zgul.tensors import load_with_metadata, save_tensors

_FIELDS = {
    "language": str,
    "width": int,
    "depth": int,
    "activation": str,
    "standardise": bool,
    "invertible": bool,
    "about": dict,
}


def save_adapters(path: Path, adapters: Sequence[LanguageAdapter], *, bits: int = 32) -> None:
    """Write several language adapters to one file."""
    tensors = {name: value for adapter in adapters for name, value in _tensors(adapter).items()}
    described = [
        {
            "language": adapter.language,
            "width": adapter.width,
            "depth": len(adapter.layers),
            "activation": adapter.activation,
            "standardise": adapter.standardise,
            "invertible": adapter.invertible is not None,
            "about": adapter.about,
        }
        for adapter in adapters
    ]
    save_tensors(path, tensors, bits=bits, metadata={"adapters": json.dumps(described)})


def load_adapters(path: Path) -> list[LanguageAdapter]:
    """Read a file written by `save_adapters`."""
    tensors, metadata = load_with_metadata(path)
    if "adapters" not in metadata:
        raise ZgulError(f"{path} holds no language adapters")
    try:
        described = json.loads(metadata["adapters"])
        for info in described:
            for name, kind in _FIELDS.items():
                if not isinstance(info[name], kind):
                    raise TypeError(f"{name} is {info[name]!r}")
        return [_restore(info, tensors) for info in described]
    except (KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise ZgulError(f"{path} is damaged: its language adapters cannot be read ({error}). Save it again.") from error


def adapter_files(folder: Path) -> list[Path]:
    """The files of a folder that hold language adapters. Others may lie beside them."""
    return [path for path in sorted(folder.glob("*.safetensors")) if "adapters" in load_with_metadata(path)[1]]


def checksum(adapters: Sequence[LanguageAdapter]) -> str:
    """SHA-256 of everything that adapters compute with, whatever their order and device."""
    digest = hashlib.sha256()
    for adapter in sorted(adapters, key=lambda adapter: adapter.language):
        digest.update(f"{adapter.language} {adapter.activation} {adapter.standardise}\n".encode())
        for name, value in _tensors(adapter).items():
            digest.update(f"{name} {list(value.shape)}\n".encode())
            digest.update(value.float().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _tensors(adapter: LanguageAdapter) -> dict[str, Tensor]:
    """An adapter's tensors under their names in the file."""
    parts = {str(index): layer.state_dict() for index, layer in enumerate(adapter.layers)}
    if adapter.invertible is not None:
        parts["invertible"] = adapter.invertible.state_dict()
    return {
        f"{adapter.language}.{part}.{name}": value for part, state in parts.items() for name, value in state.items()
    }


def _restore(info: dict[str, Any], tensors: dict[str, Tensor]) -> LanguageAdapter:
    """One adapter of the file. Sizes, which may differ by layer, are those of its tensors."""
    language, width, activation = info["language"], info["width"], info["activation"]
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation {activation!r}")
    if info["depth"] < 1:
        raise ValueError(f"{language} has no layers")
    layers = []
    for index in range(info["depth"]):
        state = _below(tensors, f"{language}.{index}.")
        size = _rows(state, "down", width)
        layers.append(Bottleneck(width, size, activation, info["standardise"]))
        layers[-1].load_state_dict(state)
    block = None
    if info["invertible"]:
        state = _below(tensors, f"{language}.invertible.")
        size = _rows(state, "f_down", width // 2)
        block = Invertible(width, reduction_factor(width // 2, size), activation)
        block.load_state_dict(state)
    return LanguageAdapter(language, layers, block, info["about"])


def _rows(state: dict[str, Tensor], matrix: str, columns: int) -> int:
    """The rows of a matrix. It is compared with its bias and the width before memory is taken for its like."""
    rows, shape = len(state[f"{matrix}.bias"]), list(state[f"{matrix}.weight"].shape)
    if shape != [rows, columns]:
        raise ValueError(f"{matrix} has the shape {shape}, not {[rows, columns]}")
    return rows


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}

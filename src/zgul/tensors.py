"""Tensors on disk: safetensors in full, 16-bit or 8-bit form. Never pickle.

8-bit: every row of a matrix gets one 16-bit scale, ``w ≈ scale · int8``; vectors stay 16-bit.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from zgul.errors import ZgulError
from zgul.files import atomic_write

BITS = (32, 16, 8)
_SCALE = ".scale"


def save_tensors(
    path: Path, tensors: dict[str, Tensor], *, bits: int = 32, metadata: dict[str, str] | None = None
) -> None:
    """Write tensors atomically."""
    from safetensors.torch import save

    packed = {name: value for key, tensor in tensors.items() for name, value in _pack(key, tensor, bits).items()}
    with atomic_write(path, "wb") as file:
        file.write(save(packed, metadata=metadata))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors back in 32-bit form (integers as they are); anything broken or not finite is refused."""
    return load_with_metadata(path)[0]


def load_with_metadata(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the file's own notes."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ZgulError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            packed = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
            metadata = dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError) as error:
        raise ZgulError(f"{path} is not a complete safetensors file ({error}); fetch or save it again") from error
    tensors = {}
    for name, tensor in packed.items():
        if name.endswith(_SCALE):
            continue
        value = _unpack(tensor, packed.get(name + _SCALE))
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ZgulError(f"{path}: {name} holds numbers that are not finite; this file is damaged, save it again")
        tensors[name] = value
    return tensors, metadata


def read_json(path: Path) -> dict[str, object]:
    """A JSON object from a file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ZgulError(f"{path}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ZgulError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ZgulError(f"{path} must hold a JSON object")
    return value


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically."""
    with atomic_write(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def _pack(name: str, tensor: Tensor, bits: int) -> dict[str, Tensor]:
    tensor = tensor.detach().cpu().contiguous()
    if bits == 32 or not tensor.is_floating_point():
        return {name: tensor.clone()}
    if bits == 16 or tensor.dim() < 2:
        return {name: tensor.to(torch.float16)}
    scale = (tensor.abs().amax(dim=-1, keepdim=True) / 127).clamp(min=1e-7).to(torch.float16)
    return {name: (tensor / scale.float()).round().clamp(-127, 127).to(torch.int8), name + _SCALE: scale}


def _unpack(tensor: Tensor, scale: Tensor | None) -> Tensor:
    if scale is not None:
        return tensor.float() * scale.float()
    return tensor.float() if tensor.dtype == torch.float16 else tensor

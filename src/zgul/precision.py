"""In what precision matrices are multiplied."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from zgul.errors import ZgulError, ZgulWarning

PRECISIONS = ("auto", "float32", "bfloat16")  # "auto": bf16 on a GPU, float32 elsewhere


def check_precision(precision: str, device: torch.device | str = "cuda") -> str:
    """The precision, if there is such a one; warns where the device is slow in it."""
    if precision not in PRECISIONS:
        raise ZgulError(f"precision is one of {', '.join(PRECISIONS)}, not {precision!r}")
    if precision == "bfloat16" and torch.device(device).type == "cpu" and not multiplies_bf16():
        warnings.warn("this CPU has no products in bfloat16: float32 is faster here", ZgulWarning, stacklevel=2)
    return precision


def multiplies_bf16() -> bool:
    """Whether the CPU itself multiplies bf16, about twice as fast as float32."""
    if hasattr(torch.cpu, "get_capabilities"):
        able = torch.cpu.get_capabilities()
        return any(able.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", bool)())


def uses_bf16(device: torch.device, precision: str) -> bool:
    """Where asked, or on a GPU by default."""
    return precision == "bfloat16" or (precision == "auto" and device.type == "cuda")


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Products of matrices in bf16, if this precision means that on this device."""
    if not uses_bf16(device, precision):
        return nullcontext()
    # a captured graph must not remember casts made outside it
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)

"""In what precision matrices are multiplied."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

PRECISIONS = ("auto", "float32", "bfloat16")  # "auto": bf16 on a GPU, float32 elsewhere


def uses_bf16(device: torch.device, precision: str) -> bool:
    """Where asked, or on a GPU by default."""
    return precision == "bfloat16" or (precision == "auto" and device.type == "cuda")


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Products of matrices in bf16, if this precision means that on this device."""
    if not uses_bf16(device, precision):
        return nullcontext()
    # a captured graph must not remember casts made outside it
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)

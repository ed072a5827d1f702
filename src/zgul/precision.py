"""In what precision matrices are multiplied."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

PRECISIONS = ("auto", "float32", "bfloat16")  # "auto": bf16 on a GPU, float32 elsewhere


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """bf16 where asked, or on a GPU by default."""
    wanted = precision == "bfloat16" or (precision == "auto" and device.type == "cuda")
    if not wanted:
        return nullcontext()
    # a captured graph must not remember casts made outside it
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)

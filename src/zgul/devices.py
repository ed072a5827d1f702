"""What torch computes on: whether a device is there, and whether its memory is full."""

from __future__ import annotations

import torch

from zgul.errors import ZgulError


def find_device(name: str | torch.device) -> torch.device:
    """The device of this name, if it is here; "auto" is the GPU, or the CPU where there is none."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ZgulError(f"there is no device {str(name)!r} here; use cpu, cuda or auto") from error
    return device


def out_of_memory(error: BaseException) -> bool:
    """Whether this says that a device's memory is full; the CPU's allocator has no error of its own."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)

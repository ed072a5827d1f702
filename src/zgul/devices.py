"""What torch computes on: whether a device is there, and whether its memory is full."""

from __future__ import annotations

import torch

from zgul.errors import ZgulError

# CPUs have no error of their own: torch's allocator, the C++ library, and oneDNN where its own allocation fails
_FULL = ("can't allocate memory", "std::bad_alloc", "could not create a primitive")


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
    """Whether this says that a device's memory is full."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(text in str(error) for text in _FULL)

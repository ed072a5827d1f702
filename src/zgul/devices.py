"""What torch computes on: whether a device is there, whether its memory is full, and whether Triton works on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar

import torch

from zgul.errors import ZgulError, ZgulWarning

TRITON = find_spec("triton") is not None  # it comes with torch for CUDA
Result = TypeVar("Result")

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


def by_triton(run: Callable[[], Result]) -> Result | None:
    """What this gives that uses Triton; None where Triton is not here, or does not work, which is said once."""
    global TRITON
    if not TRITON:
        return None
    try:
        return run()
    except Exception as error:  # Triton needs a C compiler and a GPU that it knows, and has many ways to say so
        if out_of_memory(error):
            raise
        TRITON = False
        told_why = str(error).strip().splitlines() or [type(error).__name__]
        warnings.warn(f"Triton does not work here ({told_why[0]}): going on without it", ZgulWarning, stacklevel=3)
        return None

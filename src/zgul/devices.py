"""Devices: find one, notice that its memory is full, give memory back, and copy modules."""

import copy
import ctypes
import sys
import warnings
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor, nn

from zgul.errors import ZgulError, ZgulWarning

T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)

DEVICES = ("cpu", "cuda", "mps")
PRECISIONS = ("auto", "float32", "bfloat16", "int8")  # of predictions
# On a CPU, no error class means "out of memory". These texts are from torch's allocator, the C++ library and oneDNN.
_OUT_OF_MEMORY = ("can't allocate memory", "std::bad_alloc", "could not create a primitive")


def find_device(name: str | torch.device) -> torch.device:
    """Find the device of this name. "auto" is the GPU (cuda) if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not _exists(name):
        here = ", ".join(filter(_exists, DEVICES))
        raise ZgulError(f"There is no device {str(name)!r} here. Use {here} or auto.")
    return torch.device(name)


def _exists(name: str | torch.device) -> bool:
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        return False
    return True


def find_precision(name: str) -> str:
    if name not in PRECISIONS:
        raise ZgulError(f"precision is one of {', '.join(PRECISIONS)}, not {name!r}")
    return name


def uses_bfloat16(device: torch.device, precision: str) -> bool:
    """Whether a precision means bfloat16 on a device: "auto" is bfloat16 on a GPU and float32 on a CPU."""
    return precision == "bfloat16" or (precision == "auto" and device.type == "cuda")


def mixed_precision(device: torch.device, precision: str) -> torch.autocast:
    """Compute matrix products in the precision; norms and the sums of residuals stay in float32."""
    half = uses_bfloat16(device, precision)
    return torch.autocast(device.type, torch.bfloat16, enabled=half, cache_enabled=False)  # graphs forbid the cache


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a device's memory is full."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(text in str(error) for text in _OUT_OF_MEMORY)


def halving(work: Callable[[int], T], size: int, unit: str, advice: str) -> tuple[T, int]:
    """Call ``work(size)``, with half the size each time that memory runs out.

    Returns the result and the size that fitted. ``unit`` names what is counted, for the warning; ``advice`` says what
    to do when even size 1 does not fit.
    """
    while True:
        try:
            return work(size), size
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if size <= 1:
                raise ZgulError(f"out of memory even with one of the {unit} at a time; {advice}") from error
        size //= 2  # outside the handler, so that the error no longer holds the memory
        warnings.warn(f"out of memory: continuing with {size} {unit} at a time", ZgulWarning, stacklevel=2)


def release_memory() -> None:
    """Return unused memory to the system. Gain (`make bench`): a long stream needs 1.29× less memory."""
    # Batches of changing shapes leave holes in glibc's heap. Without this function, a process that tags a stream grows
    # by a tenth in a thousand sentences, although it needs no more memory.
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def shared_copy(module: M, replaced: Mapping[nn.Module, nn.Module] | None = None) -> M:
    """A copy of a module that shares its tensors. ``replaced`` maps submodules to those that take their place."""
    memo: dict[int, object] = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    memo |= {id(old): new for old, new in (replaced or {}).items()}
    return copy.deepcopy(module, memo)


def moved_copy(module: M, device: torch.device, *, half: bool = False, frozen: bool = False) -> M:
    """A copy of a module on a device. Values that need no change are shared.

    A ``half`` copy, for `mixed_precision`, keeps matrices in bfloat16, embeddings and norms as they are. A ``frozen``
    copy requires no gradients.
    """
    exact = [part for part in module.modules() if isinstance(part, nn.Embedding | nn.LayerNorm)]
    kept = {id(parameter) for part in exact for parameter in part.parameters()}

    def moved(tensor: Tensor) -> Tensor:
        rounded = half and tensor.dtype == torch.float32 and id(tensor) not in kept
        value = tensor.detach().to(device, torch.bfloat16 if rounded else None)
        # weights that were loaded in inference mode cannot take part in EM's gradients
        return value.clone() if value.is_inference() and not torch.is_inference_mode_enabled() else value

    memo: dict[int, object] = {id(buffer): moved(buffer) for buffer in module.buffers()}
    for parameter in module.parameters():
        memo[id(parameter)] = nn.Parameter(moved(parameter), requires_grad=parameter.requires_grad and not frozen)
    return copy.deepcopy(module, memo)

"""Products of hidden states with matrices that are not being trained, in float32, by the fastest way at hand.

torch multiplies float32 with MKL on an x86 CPU and with the plain units of a GPU. MKL is Intel's: on other CPUs
oneDNN, which torch brings along for other types, is a tenth faster, and up to twice where few rows meet a large matrix.
The matrix units of a GPU are twice as fast also where they multiply in parts (`zgul.tf32`). All give the same numbers
up to rounding. What is trained, traced, cast by autocast or of another type is left to torch, as is all that is
computed inside of `plain`, the reference for tests and benchmarks.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from zgul import devices, graphs

# x [..., k], matrix [n, k] and, perhaps, bias [n] to x matrixᵀ + bias [..., n]
Way = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Activation = Callable[[Tensor], Tensor]

INSIDE: dict[Activation, str] = {F.relu: "relu", F.gelu: "gelu"}  # what oneDNN does to a product before it stores it

# multiply-adds from which on cutting into parts pays on a GPU: in a graph, and where its kernels must be launched
LARGE_IN_GRAPH, LARGE = 1 << 27, 1 << 33
THIN = 64  # rows and sides of a matrix that are not worth it, whatever else is large

# oneDNN keeps what it compiled for each shape of a product, 1,024 of them at some 0.3 MB, and torch as many again.
# A batch needs some twenty, and in EM eighty; `encoders.packing` gives batches few shapes. Read when torch first
# multiplies; who has set it knows better.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
os.environ.setdefault("LRU_CACHE_CAPACITY", "128")

_plainly = False


@contextmanager
def plain() -> Iterator[None]:
    """Everything inside by torch's own products."""
    global _plainly
    before, _plainly = _plainly, True
    try:
        yield
    finally:
        _plainly = before


def linear(x: Tensor, matrix: Tensor, bias: Tensor | None = None, then: Activation | None = None) -> Tensor:
    """``x matrixᵀ + bias``, and what an activation makes of it: [..., k], [n, k] and [n] to [..., n]."""
    way = _way(x, matrix, bias)
    if way is None:
        product = F.linear(x, matrix, bias)
    elif _differentiable(x):
        product = _Product.apply(x, matrix, bias, way)  # type: ignore[no-untyped-call]
    elif way is _onednn and then in INSIDE:
        return _onednn(x, matrix, bias, INSIDE[then])
    else:
        product = way(x, matrix, bias)
    return product if then is None else then(product)


def through(module: nn.Module, x: Tensor, then: Activation | None = None) -> Tensor:
    """What a module makes of x; a linear map that nobody has changed or listens to by the fastest way."""
    weight = module._parameters.get("weight")
    changed = "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    if type(module).forward is nn.Linear.forward and weight is not None and not changed:
        return linear(x, weight, module._parameters.get("bias"), then)
    out: Tensor = module(x)
    return out if then is None else then(out)


def plus_product(base: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """``base + x matrix``: [..., n], [..., k] and [k, n] to [..., n]."""
    if _way(x, matrix, None) is None:
        return torch.addmm(base.flatten(0, -2), x.flatten(0, -2), matrix).view(base.shape)
    return base + linear(x, matrix.t())


def products(x: Tensor, matrices: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    """``x_n matrix_n + bias_n``: [M, N, k], [N, k, m] and [N, m] to N times [M, m]."""
    if _way(x, matrices, bias) is None or (x.is_cuda and not _differentiable(x)):
        return stacked(x, matrices, bias).unbind(0)
    parts = zip(x.unbind(1), matrices, bias, strict=True)
    return tuple(linear(one, matrix.t(), shift) for one, matrix, shift in parts)


def stacked(x: Tensor, matrices: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same in one tensor [N, M, m]."""
    if _way(x, matrices, bias) is not None and x.is_cuda and not _differentiable(x):
        from zgul import tf32

        found = devices.by_triton(lambda: tf32.stacked(x, matrices, bias))
        if found is not None:
            return found
    if bias is None:
        return torch.bmm(x.transpose(0, 1), matrices)
    return torch.baddbmm(bias[:, None], x.transpose(0, 1), matrices)


def compiled(device: torch.device) -> bool:
    """Whether products there are compiled anew for every number of rows."""
    return device.type == "cpu" and not _plainly and _prefers_onednn()


def by_columns(matrix: Tensor) -> Tensor:
    """The same matrices [..., n, k] in the order in which `linear` reads them best: on a CPU column by column."""
    return matrix.mT.contiguous().mT if matrix.device.type == "cpu" else matrix.contiguous()


class _Product(torch.autograd.Function):
    """A product by one of our ways, whose gradient is another one; the matrix has none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor | None, way: Way) -> Tensor:
        ctx.save_for_backward(matrix)
        ctx.way = way
        return way(x, matrix, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (matrix,) = ctx.saved_tensors
        return ctx.way(gradient, matrix.t(), None), None, None, None


def _way(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Way | None:
    """How to multiply these; None is torch's own way."""
    if _plainly or x.dtype != torch.float32 or matrix.dtype != torch.float32 or x.device.type not in ("cpu", "cuda"):
        return None
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.is_autocast_enabled(x.device.type):  # type: ignore[attr-defined, no-untyped-call]
        return None
    if torch.is_grad_enabled() and (matrix.requires_grad or (bias is not None and bias.requires_grad)):
        return None
    if x.device.type == "cpu":
        return _onednn if _prefers_onednn() else None
    return _tf32 if _is_large(x, matrix) and _has_tf32(x.device) else None


def _differentiable(x: Tensor) -> bool:
    return torch.is_grad_enabled() and x.requires_grad


def _tf32(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    from zgul import tf32  # imports Triton, which takes a while

    product = devices.by_triton(lambda: tf32.linear(x, matrix, bias))
    return F.linear(x, matrix, bias) if product is None else product


def _is_large(x: Tensor, matrix: Tensor) -> bool:
    """Whether this is much work for a GPU."""
    n, k = matrix.shape[-2:]
    if min(x.numel() // max(1, x.shape[-1]), n, k) < THIN:
        return False
    return x.numel() // x.shape[-1] * n * k >= (LARGE_IN_GRAPH if graphs.recorded() else LARGE)


def _has_tf32(device: torch.device) -> bool:
    """Whether a GPU has TF32, and is not told to use it for everything."""
    if not devices.TRITON or torch.version.hip is not None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    try:
        return not torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:  # it was told so in torch's newer words, which do not mix with these
        return False


def _onednn(x: Tensor, matrix: Tensor, bias: Tensor | None, then: str = "none") -> Tensor:
    if bias is not None:
        bias = bias.contiguous()  # it is not asked for its stride
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, matrix, bias, then, [], "none")
    return product


@lru_cache(maxsize=1)
def _prefers_onednn() -> bool:
    """Whether this is an x86 CPU that is not Intel's, and torch's compilers' way to oneDNN is open."""
    if platform.machine().lower() not in ("x86_64", "amd64") or _vendor() == "GenuineIntel":
        return False
    try:
        x, matrix = torch.ones(2, 3), torch.ones(4, 3)
        return torch.equal(_onednn(x, matrix, None), x @ matrix.t())
    except (AttributeError, RuntimeError):  # not in this build of torch, or no longer so
        return False


def _vendor() -> str:
    """Who made this CPU, by the name it gives itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux; Windows has it at the end of the processor's name
        return platform.processor().rpartition(" ")[2]
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")

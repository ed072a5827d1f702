"""float32 products on a GPU's matrix units, which have no float32 but multiply TF32, its first 11 digits, fast.

With ``x = x_h + x_l`` and ``W = W_h + W_l``, high parts rounded to TF32 and low ones what is missing then,

    x W = x_l W_h + x_h W_l + x_h W_h        without x_l W_l, which is 2⁻²² of it

is one product of the parts side by side, three times as long. Matrix units cut off digits of what they add up, so
small terms come first, and sums of more than `SUMMED` terms are made of several products. The error is then that of a
float32 product within a small factor, in half its time. In Triton, which comes with torch for CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from zgul import devices

SUMMED = 1024

if devices.TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def _rounded(x):  # type: ignore[no-untyped-def]
        bits = x.to(tl.int32, bitcast=True)
        rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & -0x2000).to(tl.float32, bitcast=True)
        return tl.where(x == x, rounded, x)  # not a number may have any digits

    @triton.jit  # type: ignore[untyped-decorator]  # Triton reads annotations as values
    def _split(x, parts, size, part, MATRIX: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < size
        value = tl.load(x + at, mask=inside)
        high = _rounded(value)
        low = _rounded(value - high)
        to = parts + at // part * 3 * part + at % part
        tl.store(to, high if MATRIX else low, mask=inside)
        tl.store(to + part, low if MATRIX else high, mask=inside)
        tl.store(to + 2 * part, high, mask=inside)


def linear(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """``x matrixᵀ + bias``: [..., k], [n, k] and [n] to [..., n]."""
    n, k = matrix.shape
    pieces = next((count for count in range(-(-k // SUMMED), 9) if k % count == 0), 1)
    inputs = split(x.reshape(-1, k // pieces), k // pieces, matrix=False).view(-1, pieces, 3 * k // pieces)
    if matrix.t().is_contiguous():  # [k, n] in memory: parts of its rows
        parts = split(matrix.t(), k // pieces * n, matrix=True).view(pieces, 3 * k // pieces, n)
    else:
        parts = split(matrix, k // pieces, matrix=True).view(n, pieces, 3 * k // pieces).permute(1, 2, 0)
    with _in_tf32():
        out = F.linear(inputs[:, 0], parts[0].t(), bias)
        for piece in range(1, pieces):
            out.addmm_(inputs[:, piece], parts[piece])
    return out.view(*x.shape[:-1], n)


def stacked(x: Tensor, matrices: Tensor, bias: Tensor | None) -> Tensor:
    """``x_n matrix_n + bias_n``: [M, N, k], [N, k, m] and [N, m] to [N, M, m]."""
    rows, count, k = x.shape
    inputs = split(x, k, matrix=False).view(rows, count, 3 * k).transpose(0, 1)
    parts = split(matrices, k * matrices.shape[2], matrix=True).view(count, 3 * k, -1)
    with _in_tf32():
        return torch.bmm(inputs, parts) if bias is None else torch.baddbmm(bias[:, None], inputs, parts)


def split(x: Tensor, part: int, *, matrix: bool) -> Tensor:
    """Of each run of ``part`` numbers the parts: low, high, high, or of a matrix high, low, high."""
    x, block = x.contiguous(), 1024
    parts = x.new_empty(3 * x.numel())
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        _split[(triton.cdiv(x.numel(), block),)](x, parts, x.numel(), part, MATRIX=matrix, BLOCK=block)
    return parts


@contextmanager
def _in_tf32() -> Iterator[None]:
    """For all threads, so GPU work of others is not to be done at the same time."""
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False

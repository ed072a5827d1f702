"""What a GPU does in one pass over the outputs of wide adapters: both views' weights and both mixtures.

Written out in torch the same takes some twenty passes over N hidden states (``Folded.scores``, ``Folded.mix``). In
Triton, which comes with torch for CUDA; without it nothing here is used.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zgul import products
from zgul.adapters.bank import Inner
from zgul.devices import TRITON, by_triton

if TRITON:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def _weigh_and_mix(  # type: ignore[no-untyped-def]  # Triton reads annotations as values
        query,
        outputs,
        bias,
        told,
        shift,
        first,
        second,
        tokens,
        width,
        told_stride,
        N: tl.constexpr,
        N_PADDED: tl.constexpr,
        WIDTH_PADDED: tl.constexpr,
    ):
        token = tl.program_id(0).to(tl.int64)
        column = tl.arange(0, WIDTH_PADDED)
        adapter = tl.arange(0, N_PADDED)
        inside = column < width
        q = tl.load(query + token * width + column, mask=inside, other=0.0).to(tl.float32)
        local = tl.full([N_PADDED], float("-inf"), tl.float32)
        for n in tl.static_range(N):
            u = tl.load(outputs + (n * tokens + token) * width + column, mask=inside, other=0.0).to(tl.float32)
            u += tl.load(bias + n * width + column, mask=inside, other=0.0).to(tl.float32)
            local = tl.where(adapter == n, tl.sum(q * u), local)
        far = tl.load(told + token * told_stride + adapter, mask=adapter < N, other=float("-inf")).to(tl.float32)
        local, far = tl.exp(local - tl.max(local)), tl.exp(far - tl.max(far))
        local, far = local / tl.sum(local), far / tl.sum(far)
        mixed = tl.load(shift + column, mask=inside, other=0.0).to(tl.float32)
        other = tl.zeros([WIDTH_PADDED], tl.float32)
        for n in tl.static_range(N):  # the outputs are in the cache now
            u = tl.load(outputs + (n * tokens + token) * width + column, mask=inside, other=0.0).to(tl.float32)
            u += tl.load(bias + n * width + column, mask=inside, other=0.0).to(tl.float32)
            mixed += tl.sum(tl.where(adapter == n, local, 0.0)) * u
            other += tl.sum(tl.where(adapter == n, far, 0.0)) * u
        tl.store(first + token * width + column, mixed.to(first.dtype.element_ty), mask=inside)
        tl.store(second + token * width + column, other.to(second.dtype.element_ty), mask=inside)


def weigh_and_mix(query: Tensor, inner: Inner, told: Tensor, shift: Tensor) -> tuple[Tensor, Tensor] | None:
    """``Σ α_F u_n + shift`` and ``Σ α_L u_n``, both [B, T, d]; None where Triton is not here, or does not work.

    ``α_F = softmax(query·u_n)`` for queries [B, T, d], ``α_L = softmax(told)`` for scores [B, T, N]; shift [d].
    """
    with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
        return by_triton(lambda: _launch(query, inner, told, shift))


def _launch(query: Tensor, inner: Inner, told: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    batch, length, count, size = inner.a.shape
    width = query.shape[-1]
    outputs = products.stacked(inner.a.reshape(-1, count, size), inner.up)  # [N, B T, d], without b_n
    query, told = query.contiguous(), told.reshape(-1, count)
    first, second = torch.empty_like(query), torch.empty_like(query)
    _weigh_and_mix[(batch * length,)](
        query,
        outputs,
        inner.bias.contiguous(),
        told,
        shift,
        first,
        second,
        batch * length,
        width,
        told.stride(0),
        N=count,
        N_PADDED=triton.next_power_of_2(count),
        WIDTH_PADDED=triton.next_power_of_2(width),
    )
    return first, second

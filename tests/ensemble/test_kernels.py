"""The GPU's one pass over the adapters' outputs against the same written out; needs Triton, and a GPU or its
interpreter (TRITON_INTERPRET=1)."""

import os

import pytest
import torch

from zgul import devices
from zgul.adapters.bank import Inner
from zgul.ensemble import kernels

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(
    not devices.TRITON or not (torch.cuda.is_available() or INTERPRETED),
    reason="needs Triton (it comes with torch for CUDA) and a GPU, or TRITON_INTERPRET=1",
)


@pytest.mark.parametrize("count", [1, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_and_mixtures_are_those_written_out(count: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    batch, length, size, width, depth = 2, 5, 7, 24, 3
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device).to(dtype)

    inner = Inner(random(batch, length, count, size), 0.3 * random(count, size, width), random(count, width))
    query, shift = 0.2 * random(batch, length, width), random(width)
    told = random(batch, length, depth, count)[:, :, 1]  # a layer's part of a table, as the model has it
    found = kernels.weigh_and_mix(query, inner, told, shift)
    u = torch.einsum("btnr,nrd->btnd", inner.a.double(), inner.up.double()) + inner.bias.double()
    local = torch.einsum("btd,btnd->btn", query.double(), u).softmax(dim=-1)
    expected = [torch.einsum("btn,btnd->btd", weights, u) for weights in (local, told.double().softmax(dim=-1))]
    expected[0] = expected[0] + shift.double()
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype and one.shape == (batch, length, width)
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-5 if dtype == torch.float32 else 5e-2)

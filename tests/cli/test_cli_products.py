"""The command line lets oneDNN multiply where that is faster and stays exact."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from zgul.cli.products import faster_products


@pytest.fixture
def products() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ("vendor_id : AuthenticAMD\nflags : avx512_bf16", "medium"),
        ("vendor_id : AuthenticAMD\nflags : amx_bf16", "highest"),  # there oneDNN would round to bfloat16
        ("vendor_id : GenuineIntel\nflags : avx512f", "highest"),
        (None, "highest"),
    ],
)
def test_faster_products_are_for_cpus_where_they_stay_exact(
    cpu: str | None, expected: str, tmp_path: Path, products: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zgul.cli.products.CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    if cpu is not None:
        (tmp_path / "cpuinfo").write_text(cpu)
    torch.set_float32_matmul_precision("highest")
    faster_products()
    assert torch.get_float32_matmul_precision() == expected


def test_faster_products_are_products_of_float32(products: None) -> None:
    faster_products()
    x, w = torch.randn(256, 384), torch.randn(384, 384)
    # products of bfloat16 are a thousand times as far away
    torch.testing.assert_close(x @ w, (x.double() @ w.double()).float(), rtol=0, atol=1e-3)

"""The command line lets oneDNN multiply where that is faster and stays exact."""

from pathlib import Path

import pytest
import torch

from zgul.cli.products import faster_products


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ("vendor_id : AuthenticAMD\nflags : avx512_bf16", "bf16"),
        ("vendor_id : AuthenticAMD\nflags : amx_bf16", "none"),  # there oneDNN would round to bfloat16
        ("vendor_id : GenuineIntel\nflags : avx512f", "none"),
        (None, "none"),
    ],
)
def test_faster_products_are_for_cpus_where_they_stay_exact(
    cpu: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zgul.cli.products.CPU_INFO", tmp_path / "cpuinfo")
    if cpu is not None:
        (tmp_path / "cpuinfo").write_text(cpu)
    faster_products()
    assert torch.backends.mkldnn.matmul.fp32_precision == expected


def test_faster_products_are_products_of_float32() -> None:
    faster_products()
    x, w = torch.randn(256, 384), torch.randn(384, 384)
    # products of bfloat16 are a thousand times as far away
    torch.testing.assert_close(x @ w, (x.double() @ w.double()).float(), rtol=0, atol=1e-3)

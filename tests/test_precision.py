"""In what precision matrices are multiplied, and what is said of a CPU that is slow in it."""

import warnings

import pytest
import torch

from zgul import precision
from zgul.errors import ZgulError, ZgulWarning


def test_bf16_multiplies_in_bf16_and_float32_does_not():
    a = torch.randn(8, 8)
    for name, kind in (("bfloat16", torch.bfloat16), ("float32", torch.float32), ("auto", torch.float32)):
        with precision.autocast(torch.device("cpu"), name):
            assert (a @ a).dtype == kind


def test_an_unknown_precision_is_refused():
    with pytest.raises(ZgulError, match="precision is one of auto, float32, bfloat16, not 'int8'"):
        precision.check_precision("int8", "cpu")


@pytest.mark.parametrize("able", [True, False])
def test_a_cpu_without_bf16_is_told_so(monkeypatch, able):
    monkeypatch.setattr(precision, "multiplies_bf16", lambda: able)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert precision.check_precision("bfloat16", "cpu") == "bfloat16"
        precision.check_precision("bfloat16", "cuda")
        precision.check_precision("float32", "cpu")
    assert [str(warning.message) for warning in said] == (
        [] if able else ["this CPU has no products in bfloat16: float32 is faster here"]
    )
    assert all(warning.category is ZgulWarning for warning in said)


@pytest.mark.parametrize("name", ["avx512_bf16", "amx_bf16", "bf16", "avx2"])
def test_what_the_cpu_says_of_itself_is_heard(monkeypatch, name):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {name: True}, raising=False)
    assert precision.multiplies_bf16() == (name != "avx2")


def test_an_older_torch_is_asked_in_its_own_way(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    assert precision.multiplies_bf16()
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported", raising=False)
    assert not precision.multiplies_bf16()

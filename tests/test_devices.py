"""Devices that are there, and what tells that one's memory is full."""

import pytest
import torch

from zgul.devices import find_device, out_of_memory
from zgul.errors import ZgulError


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you …"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("could not create a primitive"),
    ],
)
def test_full_memory_has_many_names(error: Exception) -> None:
    assert out_of_memory(error)


def test_other_errors_are_no_full_memory() -> None:
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_devices() -> None:
    assert find_device("cpu") == find_device(torch.device("cpu")) == torch.device("cpu")
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ZgulError, match="there is no device 'potato' here; use cpu, cuda or auto"):
        find_device("potato")

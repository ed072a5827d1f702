"""Devices: which are there, what full memory looks like, and copies that leave the original alone."""

import warnings

import pytest
import torch
from torch import nn

from zgul.devices import find_device, halving, mixed_precision, moved_copy, out_of_memory, shared_copy
from zgul.errors import ZgulError, ZgulWarning

FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you …"),
    RuntimeError("std::bad_alloc"),
    RuntimeError("could not create a primitive"),
]


@pytest.mark.parametrize("error", FULL)
def test_full_memory_has_many_names(error: Exception) -> None:
    assert out_of_memory(error)


def test_other_errors_are_no_full_memory() -> None:
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize("device", ["potato", "cuda:99", torch.device("cuda:99"), ""])
def test_devices_that_are_not_here(device: str | torch.device) -> None:
    with pytest.raises(ZgulError, match=r"There is no device '.*' here\. Use cpu(, cuda)? or auto\."):
        find_device(device)


def test_the_gpu_of_a_mac_is_offered_where_it_is() -> None:
    if torch.mps.is_available():
        assert find_device("mps").type == "mps"
    else:
        with pytest.raises(ZgulError, match=r"There is no device 'mps' here\. Use cpu(, cuda)? or auto\."):
            find_device("mps")


def test_devices_that_are_here() -> None:
    assert find_device("cpu") == find_device(torch.device("cpu")) == torch.device("cpu")
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


# --- halving


@pytest.mark.parametrize("error", FULL)
def test_work_that_does_not_fit_is_done_with_half_the_size(error: Exception) -> None:
    tried: list[int] = []

    def work(size: int) -> str:
        tried.append(size)
        if size > 3:
            raise error
        return "done"

    with pytest.warns(ZgulWarning) as said:
        assert halving(work, 11, "sentences", "give up") == ("done", 2)
    assert tried == [11, 5, 2]
    expected = [f"out of memory: continuing with {size} sentences at a time" for size in (5, 2)]
    assert [str(warning.message) for warning in said] == expected


def test_work_that_does_not_fit_at_all() -> None:
    def work(size: int) -> None:
        raise MemoryError

    with (
        pytest.warns(ZgulWarning),
        pytest.raises(ZgulError, match=r"out of memory even with one of the sentences at a time; cut them"),
    ):
        halving(work, 4, "sentences", "cut them")


def test_other_errors_are_not_taken_for_full_memory() -> None:
    def work(size: int) -> None:
        raise RuntimeError("shapes do not match")

    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="shapes do not match"):
        warnings.simplefilter("error")
        halving(work, 4, "sentences", "")


# --- copies


def network() -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    made[0].requires_grad_(False)
    return made


def test_a_shared_copy_has_the_same_tensors_and_may_have_other_parts() -> None:
    module = network()
    other = nn.Linear(4, 5)
    copied = shared_copy(module, {module[2]: other})
    assert copied[0] is not module[0] and copied[0].weight is module[0].weight
    assert copied[1].running_mean is module[1].running_mean
    assert copied[2] is other and module[2].out_features == 2


@pytest.mark.parametrize("frozen", [False, True])
def test_a_moved_copy_shares_what_needs_no_change(frozen: bool) -> None:
    module = network()
    same = moved_copy(module, torch.device("cpu"), frozen=frozen)
    for one, other in zip(module.parameters(), same.parameters(), strict=True):
        assert one is not other and one.data_ptr() == other.data_ptr()
        assert other.requires_grad == (one.requires_grad and not frozen)
    assert [p.requires_grad for p in module.parameters()] == [False] * 2 + [True] * 4, "the original is as it was"


def test_a_half_copy_rounds_matrices_but_not_norms_and_embeddings() -> None:
    module = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 4), nn.LayerNorm(4), nn.BatchNorm1d(4))
    half = moved_copy(module, torch.device("cpu"), half=True)
    assert half[1].weight.dtype == half[3].running_mean.dtype == torch.bfloat16
    assert half[0].weight is not module[0].weight and half[0].weight.data_ptr() == module[0].weight.data_ptr()
    assert half[2].weight.dtype == torch.float32
    assert half[3].num_batches_tracked.dtype == torch.long, "whole numbers stay whole"
    assert {p.dtype for p in module.parameters()} == {torch.float32}
    assert moved_copy(module.double(), torch.device("cpu"), half=True)[1].weight.dtype == torch.float64


@pytest.mark.parametrize("precision", ["bfloat16", "float32", "auto"])
def test_mixed_precision_rounds_products_and_not_norms(precision: str) -> None:
    linear, norm, x = nn.Linear(8, 8), nn.LayerNorm(8), torch.randn(3, 8)
    with mixed_precision(torch.device("cpu"), precision):
        assert linear(x).dtype == (torch.bfloat16 if precision == "bfloat16" else torch.float32)
        assert norm(linear(x) + x).dtype == torch.float32

"""The same tags alone, batched, shuffled, on one and four threads, after fork and spawn."""

from __future__ import annotations

import pytest
import torch

from reliability import agreement


@pytest.mark.slow
def test_tags_do_not_depend_on_how_they_are_computed() -> None:
    counted = agreement.compare_all()
    assert counted["words"] > 50 and len(counted["different"]) == 6
    assert not any(counted["different"].values()), counted


def test_differences_are_counted() -> None:
    assert agreement.different([["A", "B"], ["C"]], [["A", "X"], ["Y"]]) == 2


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cpu_and_gpu_nearly_agree() -> None:
    given = agreement.sentences()
    expected = agreement.tags(agreement.load_tagger(), given)
    assert agreement.compare_with_gpu(expected, given)["different"] <= 1

"""The same tags alone, batched, shuffled, on one and four threads, after fork and spawn."""

from __future__ import annotations

import pytest

from reliability import agreement


@pytest.mark.slow
def test_tags_do_not_depend_on_how_they_are_computed() -> None:
    counted = agreement.compare_all()
    assert counted["words"] > 50 and len(counted["different"]) == len(counted["different_em"]) == 6
    assert not any(counted["different"].values()) and not any(counted["different_em"].values()), counted


def test_differences_are_counted() -> None:
    assert agreement.different([["A", "B"], ["C"]], [["A", "X"], ["Y"]]) == 2

"""Invented results, made once for all tests of the report."""

import pytest

import invented_results
from zgul.experiments.store import Store


@pytest.fixture(scope="session")
def invented(tmp_path_factory) -> Store:
    """Two groups, two seeds, every part."""
    folder = tmp_path_factory.mktemp("invented")
    return invented_results.fill(folder, groups=("germanic", "african"), seeds=(0, 1), sentences=12)

"""Invented results, made once for all tests of the report."""

import pytest

import invented_results
from zgul.paper.report import open_results
from zgul.paper.store import Store


@pytest.fixture(scope="session")
def invented(tmp_path_factory) -> Store:
    """Two groups, two seeds, every part."""
    folder = tmp_path_factory.mktemp("invented")
    return invented_results.fill(folder, groups=("germanic", "african"), seeds=(0, 1), sentences=12)


@pytest.fixture(scope="session")
def frame(invented):
    """The same as the report sees it."""
    return open_results(invented.folder)

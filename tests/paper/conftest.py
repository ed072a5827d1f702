"""Invented results for all tests of the report, and a small experiment for those that plan and run one."""

import pytest

import invented_results
from small_experiment import SMALL, write_experiment
from zgul.paper.plan import Inputs, Protocol
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


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return write_experiment(tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return SMALL

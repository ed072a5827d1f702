"""Fixtures shared by all tests."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# On a busy machine an example may take any time. What must be quick has a test of its own, in processor time.
settings.register_profile("zgul", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zgul")

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_configure() -> None:
    """Let Ctrl-C reach the tests of it, also when the parent ignores it (``make test &``, ``nohup``)."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def products_as_torch_chooses() -> Iterator[None]:
    """A command that a test calls in this process must not change how later tests multiply."""
    yield
    torch.backends.mkldnn.matmul.fp32_precision = "none"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data beside the checkout; what needs it is skipped where it is absent."""
    data = SHARED / "data"
    if not data.is_dir():
        pytest.skip("needs the data folder ../shared/data beside the checkout")
    return data

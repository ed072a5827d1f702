"""Fixtures shared by all tests."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data beside the checkout; what needs it is skipped where it is absent."""
    data = SHARED / "data"
    if not data.is_dir():
        pytest.skip("needs the data folder ../shared/data beside the checkout")
    return data

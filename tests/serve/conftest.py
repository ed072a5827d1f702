"""One service with the shipped taggers for all tests, and a folder in the place of the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from running_service import Client, running


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "page"
    folder.mkdir()
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "index.html").write_text("<!doctype html><title>zgul</title>")
    (folder / "main.js").write_text("export {};")
    (folder / "style.css").write_text("body {}")
    return folder


@pytest.fixture(scope="session")
def client(page: Path) -> Iterator[Client]:
    with running(page) as found:
        yield found

"""`--engine ray` on the command line, as far as it needs no cluster."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zgul.cli import app
from zgul.errors import ZgulError


def call(*arguments: str) -> None:
    CliRunner().invoke(app, ["tag", "--lang", "fo", "texts", *arguments], catch_exceptions=False)


def test_without_ray_the_message_says_how_to_install_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ZgulError, match=r"needs another package: pip install 'zgul\[ray\]'"):
        call("--engine", "ray", "--output", "tagged")
    assert not Path("tagged").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--engine", "ray"], "writes a folder of files: give --output FOLDER"),
        (["--engine", "ray", "--output", "x", "--device", "auto"], "Say --device cpu or --device cuda"),
        (["--engine", "spark", "--output", "x"], "engine is one of local, ray, not 'spark'"),
        (["--workers", "2", "--output", "x"], "are for clusters: add --engine ray"),
        (["--engine", "ray", "--output", "texts"], r"holds files, but no manifest\.json"),
        (["--engine", "ray", "--output", "nowhere://x"], "Protocol not known"),
    ],
)
def test_mistakes(folder: Path, arguments: list[str], problem: str) -> None:
    (folder / "texts" / "sub" / "texts.txt").write_text("a")
    with pytest.raises(ZgulError, match=problem):
        CliRunner().invoke(app, ["tag", "--lang", "fo", "texts/a.txt", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"settings": {}, "inputs": {"a": 1}}', "[" * 99999])
def test_a_damaged_manifest_is_refused(folder: Path, content: str) -> None:
    Path("tagged").mkdir()
    Path("tagged/manifest.json").write_text(content)
    with pytest.raises(ZgulError, match=r"manifest\.json is damaged .*--force"):
        call("--engine", "ray", "--output", "tagged")

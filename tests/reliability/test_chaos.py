"""Killed work goes on to the same files, and a difference would be noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reliability import chaos


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tagging", "training", "adapting"])
def test_killed_work_goes_on_to_the_same_files(name: str) -> None:
    result = chaos.torment(name, 1, seed=1)
    assert result.kills == 1 and result.files >= 1 and not result.different


def test_a_folder_may_vanish_while_files_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "file").touch()
    scan = os.scandir

    def vanishing(place: os.PathLike[str] | str) -> object:
        if Path(place).name == "gone":
            (tmp_path / "gone").rmdir()
        return scan(place)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert [name for name, _, _ in chaos._listing(tmp_path)] == ["file"]


def test_what_does_not_go_on_properly_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that begins anew at the end of what a killed process had written."""

    def run(inputs: Path, output: Path) -> None:
        for part in range(20):
            with (output / "file").open("a") as file:
                file.write(f"{part}\n")
            chaos.time.sleep(0.02)

    work = chaos.Work(lambda inputs: None, run, chaos._digests)
    monkeypatch.setitem(chaos.WORKS, "careless", work)
    result = chaos.torment("careless", 4)
    assert result.kills == 4 and result.different
    assert all(line.endswith(": file") for line in result.different)


def test_one_process_of_several_may_die(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(inputs: Path, output: Path) -> None:
        for part in range(10):
            (output / f".{part}.{os.getpid()}").write_text(str(part))
            (output / f".{part}.{os.getpid()}").rename(output / f"{part}")
            chaos.time.sleep(0.01)

    def files(output: Path) -> chaos.Files:
        return {name: value for name, value in chaos._digests(output).items() if not name.startswith(".")}

    monkeypatch.setitem(chaos.WORKS, "careful", chaos.Work(lambda inputs: None, run, files, processes=3))
    result = chaos.torment("careful", 4)
    assert result.kills == 4 and result.files == 10 and not result.different


def test_work_that_fails_is_not_taken_for_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(inputs: Path, output: Path) -> None:
        raise ValueError("broken")

    monkeypatch.setitem(chaos.WORKS, "broken", chaos.Work(lambda inputs: None, run, chaos._digests))
    with pytest.raises(RuntimeError, match="ValueError: broken"):
        chaos.torment("broken", 1)

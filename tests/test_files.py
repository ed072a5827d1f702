"""Files are written whole or not at all, and what a killed process leaves behind is removed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zgul.files import STALE, atomic_write

KILLED = """
import os, signal, sys
from zgul.files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write("half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_write(path: Path) -> Path:
    """Start to write a file in a process that is killed; returns the temporary file that is left."""
    before = set(path.parent.iterdir())
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    (left,) = set(path.parent.iterdir()) - before
    assert left.read_text() == "half"
    return left


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_the_next_write_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "out[1].txt"
    left = killed_write(path)
    age(left, STALE + 1)
    others = [tmp_path / ".out[1].txt.settings", tmp_path / ".out1.txt.0123abcd.tmp"]
    for other in others:
        other.write_text("not ours")
        age(other, 10_000)
    with atomic_write(path) as file:
        file.write("whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])
    assert path.read_text() == "whole"


def test_a_write_that_goes_on_elsewhere_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with atomic_write(path) as first:
        first.write("first")
        age(next(tmp_path.iterdir()), 10_000)  # a pause of hours
        with atomic_write(path) as second:
            second.write("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    command = [sys.executable, "-c", KILLED.replace("SIGKILL", "SIGSTOP"), str(path)]
    with subprocess.Popen(command) as stopped:
        assert os.WIFSTOPPED(os.waitpid(stopped.pid, os.WUNTRACED)[1])
        (held,) = set(tmp_path.iterdir()) - {path}
        age(held, 10_000)
        with atomic_write(path) as file:
            file.write("third")
        assert held.exists()
        stopped.kill()


@pytest.mark.parametrize(("mode", "content"), [("w", "ø\n"), ("wb", "ø\n".encode())])
def test_files_are_ordinary_ones(tmp_path: Path, mode: str, content: str | bytes) -> None:
    with atomic_write(tmp_path / "below" / "out", mode) as file:
        file.write(content)
    (tmp_path / "plain").write_text("")
    written = tmp_path / "below" / "out"
    assert written.read_bytes() == "ø\n".encode()
    assert written.stat().st_mode == (tmp_path / "plain").stat().st_mode

"""Several processes write the files that one writes, go on where one was stopped, and say what one says."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zgul.errors import ZgulError, ZgulWarning
from zgul.files import cache_dir
from zgul.tagging.loading import load
from zgul.tagging.parallel import tag_files_at_once
from zgul.tagging.tag_files import FileSettings, tag_files

TEXT = "Hetta er ein lítil roynd. Hon býr í Havn. "
pytestmark = pytest.mark.slow  # each process imports torch and reads the encoder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        Path("texts").mkdir(exist_ok=True)
        Path(f"texts/{number}.txt").write_text(TEXT * (number + 1), encoding="utf-8")
    return tmp_path


def written(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def test_the_files_are_those_of_one_process_and_the_results_too(folder: Path) -> None:
    Path("texts/empty.txt").write_text(" ", encoding="utf-8")
    tagger = load("fo", "pos", em=False)
    with pytest.warns(ZgulWarning, match="Not tagged: texts/empty.txt holds no words"):
        one = tag_files(tagger, ["texts"], "one")
    with pytest.warns(ZgulWarning, match="Not tagged: texts/empty.txt holds no words"):
        two = tag_files_at_once(tagger, ["texts"], "two", jobs=2)
    assert written("one") == written("two") and len(written("two")) == 3
    assert [(r.source, r.sentences, r.problem) for r in one] == [(r.source, r.sentences, r.problem) for r in two]
    kept = tag_files_at_once(tagger, [f"texts/{n}.txt" for n in range(3)], "two", FileSettings(resume=True), jobs=2)
    assert all(result.held == result.sentences > 0 for result in kept)


def test_jobs_are_counted_from_one(folder: Path) -> None:
    with pytest.raises(ZgulError, match="at least 1"):
        tag_files_at_once(load("fo", "pos"), ["texts"], "tagged", jobs=0)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ctrl_c_stops_all_processes_and_the_rest_is_continued(folder: Path) -> None:
    for number in range(2):
        Path(f"texts/{number}.txt").write_text(TEXT * 3000, encoding="utf-8")
    Path("texts/2.txt").unlink()
    command = [
        sys.executable,
        "-m",
        "zgul",
        "tag",
        "--lang",
        "fo",
        "--no-em",
        "--jobs",
        "2",
        "texts",
        "-o",
        "tagged",
    ]
    environment = os.environ | {"ZGUL_CACHE": str(cache_dir())}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    try:
        until = time.monotonic() + 120
        while len(list(Path("tagged").glob("*.part"))) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 130, said
    assert "--resume continues" in said and "Traceback" not in said
    with pytest.raises(ProcessLookupError):  # nobody of its group is left, after a moment
        for _ in range(100):
            os.killpg(process.pid, 0)
            time.sleep(0.1)
    assert len(list(Path("tagged").glob("*.part"))) == 2

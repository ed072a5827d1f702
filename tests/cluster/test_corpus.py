"""Tagging on a Ray cluster of two nodes: the same files as without it, whoever is killed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import zgul
from standin import text
from zgul.cluster.corpus import CorpusResult, tag_corpus
from zgul.cluster.ray_cluster import ClusterSettings
from zgul.cluster.shards import CorpusJob
from zgul.errors import ZgulError, ZgulWarning
from zgul.progress import Status, silent
from zgul.tagging.tag_files import FileSettings, tag_file

pytestmark = pytest.mark.slow
JOB = CorpusJob("fo", "pos", (("em", False), ("device", "cpu")), shard_words=60)
COMMAND = [sys.executable, "-m", "zgul", "tag", "--lang", "fo", "--task", "pos", "--no-em", "--engine", "ray"]
COMMAND += ["--shard-words", "60", "texts", "--output", "tagged"]


@pytest.fixture
def cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of two nodes with one core each. This process is connected to it."""
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.second = made.add_node(num_cpus=1)
    ray.init(made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def run(report: Callable[[Status], None] = silent, job: CorpusJob = JOB) -> CorpusResult:
    return tag_corpus(["texts"], "tagged", job, ClusterSettings("ray"), report=report)


def expected() -> dict[str, bytes]:
    """What `zgul tag` writes for each text."""
    tagger, result = zgul.load("fo", "pos", em=False), {}
    for source in sorted(Path("texts").rglob("*.txt")):
        tag_file(tagger, source, "one.conllu", FileSettings(force=True))
        result[source.relative_to("texts").with_suffix(".conllu").as_posix()] = Path("one.conllu").read_bytes()
    return result


def found() -> dict[str, bytes]:
    """What the cluster wrote for each text; shards are put together."""
    result = {}
    for name in manifest()["inputs"]:
        path = Path("tagged") / name
        parts = sorted(path.iterdir()) if path.is_dir() else [path]
        result[name] = b"".join(part.read_bytes() for part in parts)
    return result


def manifest() -> dict[str, Any]:
    return dict(json.loads(Path("tagged/manifest.json").read_text()))


def workers() -> list[int]:
    """Processes that have tagged shards."""
    shards = [one for held in manifest()["inputs"].values() for one in held["shards"].values()]
    return [int(one["worker"].partition(":")[2]) for one in shards]


def test_a_cluster_gives_what_zgul_tag_gives_and_does_only_what_is_missing(cluster: Any, folder: Path) -> None:
    result = run()
    assert found() == expected()
    held = manifest()
    assert held["state"] == "done" and held["sentences"] == 307 and not result.failed
    assert held["words"] == result.words == sum(one["words"] for one in held["inputs"].values())
    assert held["inputs"]["book.conllu"]["sha256"] == hashlib.sha256(Path("texts/book.txt").read_bytes()).hexdigest()
    assert len(set(workers())) <= 2, "a worker process is used again, and has loaded the tagger"
    again = run()
    assert (again.tagged, again.seconds) == (0, 0)
    os.utime("texts/book.txt", (1, 1))
    assert run().tagged == 0 and manifest()["state"] == "done", "it was read again, and is the same"
    Path("tagged/book.conllu/000003.conllu").unlink()
    Path("tagged/a.conllu").write_text("damaged")
    Path("texts/new.txt").write_text(text(2, seed=9))
    assert run().tagged == 3 and found() == expected()
    with pytest.raises(ZgulError, match="tagged in another way: shard_words was 60, now 50"):
        run(job=CorpusJob(**{**vars(JOB), "shard_words": 50}))


def test_killed_workers_and_a_killed_node(cluster: Any, folder: Path) -> None:
    killed: list[int] = []

    def kill(status: Status) -> None:
        """Kill a worker, another one, then a node, each after some more words."""
        if len(killed) > 2 or status.done < (300, 900, 2000)[len(killed)]:
            return
        if len(killed) == 2:
            cluster.remove_node(cluster.second)
            killed.append(0)
        elif pids := set(busy()) - set(killed):
            killed.append(max(pids))
            os.kill(killed[-1], signal.SIGKILL)

    Path("texts/book.txt").write_text(text(1500, seed=2))
    run(kill)
    assert len(killed) == 3
    assert found() == expected()
    assert manifest()["sentences"] == 1507


def busy() -> list[int]:
    """Processes of this user's Ray that tag now: Ray names them so. Only those of the cluster of this test count."""
    pids = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                if (one / "cmdline").read_bytes().startswith(b"ray::tag_shard") and _is_ours(int(one.name)):
                    pids.append(int(one.name))
            except OSError:
                continue
    return pids


def _is_ours(pid: int) -> bool:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid == os.getpid():
            return True
    return False


@pytest.mark.parametrize("own", [False, True], ids=["running cluster", "its own cluster"])
def test_a_killed_driver(cluster: Any, folder: Path, own: bool) -> None:
    Path("texts/book.txt").write_text(text(60000, seed=2))
    command = COMMAND + (["--workers", "1"] if own else ["--ray-address", cluster.address])
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not (Path("tagged/manifest.json").exists() and workers()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert manifest()["state"] == "running", "it was killed while it worked"
    done = {one["output"] for held in manifest()["inputs"].values() for one in held["shards"].values()}
    before = {name: (Path("tagged") / name).stat().st_mtime_ns for name in done}
    assert done
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    assert found() == expected()
    assert before == {name: (Path("tagged") / name).stat().st_mtime_ns for name in done}, "these were not done again"
    assert not list(Path("tagged").rglob("*.tmp"))


def test_inputs_that_fail_do_not_stop_the_others(cluster: Any, folder: Path) -> None:
    good = expected()
    Path("texts/bad.txt").write_bytes(b"%PDF-1.4")
    Path("texts/runes.txt").write_text("ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾ ᛁᛃᛇᛈ ᛉᛊᛏᛒ " * 9)
    with pytest.warns(ZgulWarning) as caught:
        result = run()
    assert sorted(Path(source).name for source in result.failed) == ["bad.txt", "runes.txt"]
    messages = " ".join(str(one.message) for one in caught)
    assert "is a PDF file" in messages and "does not know the script" in messages
    assert manifest()["state"] == "failed"
    for name, content in good.items():
        path = Path("tagged") / name
        assert b"".join(p.read_bytes() for p in (sorted(path.iterdir()) if path.is_dir() else [path])) == content
    Path("texts/bad.txt").write_text(text(2))
    Path("texts/runes.txt").unlink()
    assert run().tagged == 1, "an input that is gone is not asked for"


def test_another_size_of_shards_leaves_none_of_the_earlier_outputs(cluster: Any, folder: Path) -> None:
    for words in (60, 25, 10**6, 60):
        result = run(job=replace(JOB, shard_words=words, files=FileSettings(force=True)))
        assert not result.failed and found() == expected()

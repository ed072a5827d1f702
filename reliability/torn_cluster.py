"""Chaos on a Ray cluster of two nodes on this machine: workers, nodes and the command are killed while it tags.

In each round a text is tagged into a new folder. Two workers are killed at moments that are drawn, then in turn a node
or the command itself, which is started again. All bytes are compared with those of ``zgul tag``, all sentences counted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import standin
from zgul.cluster.corpus import tag_corpus
from zgul.cluster.ray_cluster import ClusterSettings
from zgul.cluster.shards import CorpusJob
from zgul.files import read_json
from zgul.progress import Report, Status, silent
from zgul.tagging.loading import load
from zgul.tagging.tag_files import tag_file

SENTENCES, SHARD = 1500, 60  # of a text, and words of a shard
CHOICES = (("em", False), ("weights", False), ("device", "cpu"), ("precision", "float32"))  # as the command has them
JOB = CorpusJob("fo", "pos", CHOICES, shard_words=SHARD)
COMMAND = ["tag", "--lang", "fo", "--task", "pos", "--no-em", "--engine", "ray"]


def torment_cluster(rounds: int, seed: int = 0, report: Report = silent) -> dict[str, Any]:
    """Kill in so many rounds. Returns the counts."""
    import ray
    from ray.cluster_utils import Cluster

    counts = dict.fromkeys(("workers", "nodes", "commands", "sentences", "lost or doubled", "outputs that differ"), 0)
    random, started = Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {"ZGUL_TAGGERS": str(standin.stand_in_taggers(folder / "taggers", ("germanic-pos",)))}
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        ray.init(cluster.address, log_to_driver=False)
        for number in range(rounds):
            node = cluster.add_node(num_cpus=1)
            text, output, expected = (folder / f"{number}{end}" for end in (".txt", "", ".conllu"))
            text.write_text(standin.text(SENTENCES, seed=seed + number), encoding="utf-8")
            tag_file(load("fo", "pos", em=False), text, expected)
            if number % 2:
                counts["commands"] += _kill_command(cluster.address, text, output)
            killer = _Killer(random, [] if number % 2 else [lambda node=node: cluster.remove_node(node)])
            tag_corpus([str(text)], str(output), JOB, ClusterSettings("ray"), report=killer)
            counts["workers"] += killer.workers
            counts["nodes"] += killer.others
            parts = sorted((output / f"{number}.conllu").iterdir())
            counts["sentences"] += SENTENCES
            counts["lost or doubled"] += abs(SENTENCES - read_sentences(output))
            counts["outputs that differ"] += b"".join(p.read_bytes() for p in parts) != expected.read_bytes()
            if number % 2:
                cluster.remove_node(node)
            report(Status("cluster", number + 1, rounds))
        ray.shutdown()
        cluster.shutdown()
    return {**counts, "rounds": rounds, "seed": seed, "seconds": time.monotonic() - started}


def read_sentences(output: Path) -> int:
    return int(read_json(output / "manifest.json")["sentences"])


class _Killer:
    """A report that kills two workers, then does the other things it was given, each after some more words."""

    def __init__(self, random: Random, others: list[Any]) -> None:
        self.random, self.left = random, others
        self.workers = self.others = 0
        self.at = random.randint(100, 900)

    def __call__(self, status: Status) -> None:
        if status.done < self.at:
            return
        if self.workers < 2:
            if not (pids := busy_workers()):
                return
            os.kill(self.random.choice(pids), signal.SIGKILL)
            self.workers += 1
        elif self.left:
            self.left.pop()()
            self.others += 1
        self.at += self.random.randint(300, 1500)


def busy_workers() -> list[int]:
    """Processes that tag now, which this process has started. Ray names them by what they do."""
    pids = []
    for one in (one for one in Path("/proc").iterdir() if one.name.isdigit()):
        try:
            if (one / "cmdline").read_bytes().startswith(b"ray::tag_shard") and _is_ours(int(one.name)):
                pids.append(int(one.name))
        except OSError:
            continue  # it has ended
    return pids


def _is_ours(pid: int) -> bool:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid == os.getpid():
            return True
    return False


def _kill_command(address: str, text: Path, output: Path) -> bool:
    """Kill the command when it has written a few shards. False if it was done before."""
    place = ["--shard-words", str(SHARD), str(text), "--output", f"{output}/", "--ray-address", address]
    process = subprocess.Popen([sys.executable, "-m", "zgul", *COMMAND, *place], stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list(output.glob("*/*"))) < 5:
        time.sleep(0.02)
    running = process.poll() is None
    process.kill()
    process.wait()
    return running

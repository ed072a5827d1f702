"""Measure what a corpus costs on a cluster, calculate a terabyte from it, and write docs/scale.md.

    python -m benchmarks.scale --output docs/results/scale    # two minutes on two idle cores
    python -m benchmarks.scale --report                       # write the tables of docs/scale.md

One and two workers, each with one thread, tag the same text with shipped taggers: Faroese, and Bhojpuri, which uses
EM. They take turns on a cluster of two nodes, so that other work on the machine hits both alike. Workers are warm:
they have loaded the tagger before the clock starts, which is when the first shard is cut. Start-up is measured apart.
The outputs of both are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT
from benchmarks.machine import describe_machine
from benchmarks.report import markdown
from zgul.cluster import places
from zgul.cluster.corpus import CorpusResult, tag_corpus
from zgul.cluster.ray_cluster import ClusterSettings, connected
from zgul.cluster.shards import CorpusJob, cut_input
from zgul.corpora.data_folder import DataFolder
from zgul.files import atomic_write, read_json, write_json

PAGE, STORED = ROOT / "docs" / "scale.md", ROOT / "docs" / "results" / "scale"
CORES_HERE = os.cpu_count() or 1
PORT = 26379  # of the cluster
FILES, ROUNDS = 8, 3  # files of equal length; turns of one and two workers
WAYS = {"no EM": ("fo", "pos", 20), "EM as shipped": ("bho", "ner", 10)}  # language, task, lines of a file
TERABYTE, CORES, HOURS, PRICE = 10**12, 64, 24 * 7, 0.04  # bytes; of a machine; to be ready in; dollars for a core hour
LEAST = 1.6  # times as fast, with two workers


def measure(data: Path) -> dict[str, Any]:
    """All numbers of this machine."""
    import torch

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for way, (language, _, count) in WAYS.items():
            lines = list(DataFolder(data).text_lines(language))
            _write(folder / way, lines, count)
            _write(folder / f"{way}, warm", lines[::-1], 5)
        faroese = DataFolder(data).text_lines("fo")
        (folder / "long.txt").write_text("\n".join(itertools.islice(faroese, 4000)), encoding="utf-8")
        result: dict[str, Any] = {"machine": describe_machine(torch.device("cpu")), "cutting": _cutting(folder)}
        started = time.perf_counter()
        with connected(ClusterSettings("ray", workers=2)):
            result["cluster_seconds"] = time.perf_counter() - started
        with _two_nodes() as address, connected(ClusterSettings("ray", address)):
            result["ways"] = {way: _compare(folder, way, result) for way in WAYS}
    return result


@contextlib.contextmanager
def _two_nodes() -> Iterator[str]:
    """A cluster of two nodes with a core each. Each is a session of its own, as if it were another machine.

    Linux shares busy cores out among sessions (``sched_autogroup``). Two workers of one session would get no more of
    them than one, whenever others want the cores.
    """
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1"]
    command += ["--object-store-memory=500000000", "--node-ip-address=127.0.0.1"]
    address, nodes = f"127.0.0.1:{PORT}", list[Any]()
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    try:
        for place in (["--head", f"--port={PORT}", "--include-dashboard=false"], [f"--address={address}"]):
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
            nodes.append(subprocess.Popen([*command, *place], start_new_session=True, **quiet))
            time.sleep(15)
        yield address
    finally:
        for node in nodes:
            node.terminate()
            node.wait()


def _compare(folder: Path, way: str, result: dict[str, Any]) -> list[dict[str, Any]]:
    """One and two workers in turn."""
    warm = [shard.seconds for shard in _shards(_run(folder, way, "warm", 2)[0])]
    result.setdefault("load_seconds", max(warm) - min(warm))
    rounds = []
    for number in range(ROUNDS):
        found: dict[str, Any] = {"load": os.getloadavg()[0], "others": 0.0}
        for workers in (1, 2):
            before = _busy()
            done, waited = _run(folder, way, str(number), workers)
            cpu, took = sum(one.cpu_seconds for one in _shards(done)), done.seconds - waited
            found["others"] += (_busy() - before - cpu) / (2 * CORES_HERE * done.seconds)  # mean of both
            found[str(workers)] = {"words": done.words, "seconds": took, "cpu_seconds": cpu, "reader_seconds": waited}
            memory = max(one.memory for one in _shards(done))
            result["memory"] = max(memory, result.get("memory", 0))
        one, two = (_outputs(folder / f"{way}-{number}-{count}") for count in (1, 2))
        assert one == two, "outputs differ"
        rounds.append(found)
    return rounds


def _busy() -> float:
    """Seconds of processors that all programs of this machine took since it was started."""
    user, nice, system, _, _, interrupt, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + interrupt + soft) / os.sysconf("SC_CLK_TCK")


def _write(folder: Path, lines: list[str], count: int) -> None:
    """Files of equal length, so that workers end at the same time."""
    folder.mkdir()
    for number in range(FILES):
        own = lines[number * count : (number + 1) * count]
        (folder / f"{number}.txt").write_text("\n".join(own), encoding="utf-8")


def _cutting(folder: Path) -> dict[str, float]:
    place, started = str(folder / "long.txt"), time.perf_counter()
    words = sum(cut.words for cut, _ in cut_input(place, CorpusJob("fo", "pos")))
    seconds = time.perf_counter() - started
    return {"words": words, "bytes": places.look(place)[0], "seconds": seconds}


def _run(folder: Path, way: str, name: str, workers: int) -> tuple[CorpusResult, float]:
    """Tag. Returns also after how many seconds the first shard was cut: each command starts a reader."""
    language, task, _ = WAYS[way]
    job = CorpusJob(language, task, (("device", "cpu"),))  # type: ignore[arg-type]
    text, output = folder / (f"{way}, warm" if name == "warm" else way), folder / f"{way}-{name}-{workers}"
    began, cut = time.perf_counter(), list[float]()
    report = lambda status: cut.append(time.perf_counter()) if status.total and not cut else None  # noqa: E731
    result = tag_corpus([str(text)], str(output), job, ClusterSettings("ray", workers=workers), report=report)
    return result, cut[0] - began


def _shards(result: CorpusResult) -> list[Any]:
    return [shard for one in result.manifest.inputs.values() for shard in one.shards.values()]


def _outputs(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(folder.rglob("*.conllu")) if file.is_file()]


def write_page(stored: dict[str, Any], page: Path = PAGE) -> Path:
    """Write the tables of the page again: what was measured, and what is calculated from it."""
    text = page.read_text(encoding="utf-8")
    for name, table in {"measured": measured(stored), "calculated": calculated(stored)}.items():
        begin, end = f"<!-- scale: {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{table}{end}{rest.partition(end)[2]}"
    with atomic_write(page) as file:
        file.write(text)
    return page


def rate(stored: dict[str, Any], way: str, workers: str = "1", clock: str = "cpu_seconds") -> float:
    """Words a second for a core, over all rounds: by the time that the processor took, or by the clock."""
    rounds = [one[workers] for one in stored["ways"][way]]
    return float(sum(one["words"] for one in rounds) / sum(one[clock] for one in rounds))


def gains(stored: dict[str, Any], way: str) -> list[float]:
    """How many times as fast two workers were as one, by the clock, in each round."""
    return [one["1"]["seconds"] / one["2"]["seconds"] for one in stored["ways"][way]]


def measured(stored: dict[str, Any]) -> str:
    cut, rows = stored["cutting"], []
    for way in WAYS:
        gain, each = statistics.median(gains(stored, way)), ", ".join(f"{one:.2f}" for one in gains(stored, way))
        verdict = "reached" if gain >= LEAST else "**not reached**"
        clock = rate(stored, way, clock="seconds")
        rows += [
            [f"words a second for a core, {way}, one worker", f"{rate(stored, way):,.0f} (clock: {clock:,.0f})"],
            [f"the same, each of two workers, {way}", f"{rate(stored, way, '2'):,.0f}"],
            [f"two workers against one, {way}; target {LEAST} times", f"{gain:.2f} times: {verdict} ({each})"],
        ]
    rounds = [one for way in WAYS for one in stored["ways"][way]]
    loads, others = ([one[name] for one in rounds] for name in ("load", "others"))
    rows.append(["words a second that one reader cuts", f"{cut['words'] / cut['seconds']:,.0f}"])
    rows.append(["bytes of text for a word", f"{cut['bytes'] / cut['words']:.2f}"])
    rows.append(["memory of a worker, at most", f"{stored['memory'] / 1e6:,.0f} MB"])
    rows.append(["start of a cluster on this machine", f"{stored['cluster_seconds']:.1f} s"])
    waited = [one[workers]["reader_seconds"] for one in rounds for workers in ("1", "2")]
    rows.append(["start of a command's reader, until the first shard", f"{statistics.median(waited):.1f} s"])
    rows.append(["a worker's first shard, beyond the others: imports, tagger", f"{stored['load_seconds']:.1f} s"])
    rows.append(["a GPU", "not measured: there was none"])
    machine = stored["machine"]
    about = f"On two cores of {machine['device']}, torch {machine['torch']}, commit {machine['commit']}. In {ROUNDS} "
    about += "rounds, one and two workers took turns; the median counts, and brackets show each round. "
    about += f"Load before the rounds: {min(loads):.1f} to {max(loads):.1f}. Others, and Ray itself, took "
    about += f"{min(others):.0%} to {max(others):.0%} of both cores. Words a second are by the processor's time."
    return f"{about}\n\n{markdown(['measured', 'value'], rows)}\n"


def calculated(stored: dict[str, Any]) -> str:
    words = TERABYTE / (stored["cutting"]["bytes"] / stored["cutting"]["words"])
    speed = stored["cutting"]["words"] / stored["cutting"]["seconds"]
    rows = []
    for way in WAYS:
        slower = min(rate(stored, way), rate(stored, way, "2"))
        hours = words / slower / 3600
        machines, cost = f"{hours / CORES / HOURS:,.1f}", f"${hours * PRICE:,.0f}"
        rows.append([way, f"{hours:,.0f}", machines, cost, f"{speed / slower:,.0f}"])
    heads = ["tagging", "core hours", f"machines of {CORES} cores for a week", f"cost at ${PRICE} a core hour"]
    table = markdown([*heads, "workers that one reader feeds"], rows)
    return f"A terabyte is {words / 1e9:,.0f} billion words of such text.\n\n{table}\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with text/")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "scale", help="folder for the results")
    parser.add_argument("--report", action="store_true", help="only write docs/scale.md from docs/results/scale")
    given = parser.parse_args(arguments)
    if given.report:
        print(f"{write_page(read_json(STORED / 'cpu.json'))} written")
        return
    stored = measure(given.data)
    given.output.mkdir(parents=True, exist_ok=True)
    write_json(given.output / "cpu.json", stored)
    print(measured(stored), calculated(stored), sep="\n")


if __name__ == "__main__":
    main()

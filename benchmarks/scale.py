"""Measure what a corpus costs on a cluster, calculate a terabyte from it, and write docs/scale.md.

    python -m benchmarks.scale --output docs/results/scale    # two minutes on two idle cores
    python -m benchmarks.scale --report                       # write the tables of docs/scale.md

One and two workers, each with one thread, tag the same Faroese text with the shipped tagger. Workers are warm: they
have loaded the tagger before the clock starts. Start-up is measured apart. The outputs of both are compared.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
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
FILES, LINES = 8, {"no EM": 120, "EM as shipped": 40}  # so many files of so many lines
TERABYTE, CORES, HOURS, PRICE = 10**12, 64, 24 * 7, 0.04  # bytes; of a machine; to be ready in; dollars for a core hour
LEAST = 1.6  # times as fast, with two workers


def measure(data: Path) -> dict[str, Any]:
    """All numbers of this machine."""
    import torch

    lines = list(DataFolder(data).text_lines("fo"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for way, count in LINES.items():
            _write(folder / way, lines, count)
        _write(folder / "warm", lines[::-1], 5)
        (folder / "long.txt").write_text("\n".join(lines[:4000]), encoding="utf-8")
        result: dict[str, Any] = {"machine": describe_machine(torch.device("cpu")), "cutting": _cutting(folder)}
        result["load"] = os.getloadavg()[0]  # processes that wanted a core in the minute before
        result |= {"workers": {str(count): _tagging(folder, count) for count in (1, 2)}}
        for way in LINES:
            one, two = (_outputs(folder / f"{way}-{count}") for count in (1, 2))
            assert one == two, "outputs differ"
    return result


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


def _tagging(folder: Path, workers: int) -> dict[str, Any]:
    """Tag with so many workers, each way."""
    started = time.perf_counter()
    with connected(ClusterSettings("ray", workers=workers)):
        found: dict[str, Any] = {"cluster_seconds": time.perf_counter() - started}
        warm = _run(folder, "warm", "warm", workers)
        first = min(one.seconds for one in _shards(warm))
        found["load_seconds"] = max(one.seconds for one in _shards(warm)) - first
        for way in LINES:
            _run(folder, "warm", f"{way} warm", workers)
            done = _run(folder, way, way, workers)
            cpu = sum(one.cpu_seconds for one in _shards(done))
            found[way] = {"words": done.words, "seconds": done.seconds, "cpu_seconds": cpu, "shards": done.tagged}
            found["memory"] = max(one.memory for one in _shards(done))
    return found


def _run(folder: Path, text: str, output: str, workers: int) -> CorpusResult:
    choices = (("em", None if "EM as" in output else False), ("device", "cpu"))
    job = CorpusJob("fo", "pos", choices)
    return tag_corpus([str(folder / text)], str(folder / f"{output}-{workers}"), job, ClusterSettings("ray"))


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


def rate(stored: dict[str, Any], way: str, workers: str = "1") -> float:
    """Words a second for a core: by the time that the processor took, because other work may have shared the cores."""
    return float(stored["workers"][workers][way]["words"] / stored["workers"][workers][way]["cpu_seconds"])


def gain(stored: dict[str, Any], way: str) -> float:
    """How many times as fast two workers were as one, by the clock."""
    one, two = (stored["workers"][workers][way]["seconds"] for workers in ("1", "2"))
    return float(one / two)


def measured(stored: dict[str, Any]) -> str:
    one, two, cut = stored["workers"]["1"], stored["workers"]["2"], stored["cutting"]
    rows = []
    for way in LINES:
        verdict = "reached" if gain(stored, way) >= LEAST else "**not reached**"
        clock = one[way]["words"] / one[way]["seconds"]
        rows.append(
            [f"words a second for a core, {way}, one worker", f"{rate(stored, way):,.0f} (clock: {clock:,.0f})"]
        )
        rows.append([f"the same, each of two workers, {way}", f"{rate(stored, way, '2'):,.0f}"])
        rows.append(
            [f"two workers against one, {way}; target {LEAST} times", f"{gain(stored, way):.2f} times: {verdict}"]
        )
    rows.append(["words a second that one reader cuts", f"{cut['words'] / cut['seconds']:,.0f}"])
    rows.append(["bytes of text for a word", f"{cut['bytes'] / cut['words']:.2f}"])
    rows.append(["memory of a worker, at most", f"{max(one['memory'], two['memory']) / 1e6:,.0f} MB"])
    rows.append(["start of a cluster on this machine", f"{one['cluster_seconds']:.1f} s"])
    rows.append(["a worker's first shard, beyond the others: imports, tagger", f"{one['load_seconds']:.1f} s"])
    rows.append(["a GPU", "not measured: there was none"])
    machine, load = stored["machine"], stored["load"]
    about = f"On two cores of {machine['device']}, torch {machine['torch']}, commit {machine['commit']}. "
    about += (
        f"Load before the start: {load:.1f}; above about 1, other work shared the cores, and the clock says little. "
    )
    return f"{about}Words a second are by the processor's time.\n\n{markdown(['measured', 'value'], rows)}\n"


def calculated(stored: dict[str, Any]) -> str:
    words = TERABYTE / (stored["cutting"]["bytes"] / stored["cutting"]["words"])
    speed = stored["cutting"]["words"] / stored["cutting"]["seconds"]
    rows = []
    for way in LINES:
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

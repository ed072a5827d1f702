"""The service under load: many clients at one time, against ``zgul tag`` on the same text in the same run.

python -m benchmarks.service --clients 50 --seconds 60
python -m benchmarks.service --data DIR --output docs/results/performance/service.json

``zgul tag`` is measured before and after the clients, because other work may slow the machine down meanwhile. Its rate
is that from the first window of output on, without the start of the process. Tags are compared first.

Words per second of CPU time are given as well. They say what the service costs also where other work takes the cores.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import ROOT, NotMeasured, Unequal, say
from benchmarks.machine import describe_machine
from zgul.corpora import plain_text
from zgul.corpora.data_folder import DataFolder
from zgul.files import write_json

LANGUAGE, TASK = "fo", "pos"
AT_ONCE = 0.02  # seconds in which the lines of a window are read
PASSAGE = 3  # lines of text in a request
TARGET = 0.8  # of the words a second that `zgul tag` reaches


@dataclass
class Load:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)  # of each request
    words: int = 0
    errors: list[str] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Service:
    """``zgul serve`` in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "zgul", "serve", "--port", "0", "--no-open"]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        found = re.search(r":(\d+)/", self.process.stderr.readline())
        if found is None:
            raise NotMeasured("zgul serve did not start: pip install 'zgul[serve]'")
        self.port = int(found[1])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()  # a full pipe would stop it

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


def ask(connection: http.client.HTTPConnection, text: str) -> list[dict[str, Any]]:
    """The sentences of a text."""
    body = json.dumps({"texts": [{"text": text, "lang": LANGUAGE}], "task": TASK}).encode()
    connection.request("POST", "/v1/tag", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise RuntimeError(f"status {response.status}")
    sentences: list[dict[str, Any]] = json.loads(content)["texts"][0]["sentences"]
    return sentences


def put_under_load(service: Service, texts: list[str], clients: int, seconds: float) -> tuple[Load, float]:
    """Let so many clients ask again and again. Returns what they saw, and how long it took."""
    load, lock, end = Load(), threading.Lock(), time.monotonic() + seconds

    def work(start: int) -> None:
        connection = service.connect()
        for text in itertools.islice(itertools.cycle(texts), start, None):
            if time.monotonic() > end:
                return
            begun = time.perf_counter()
            try:
                words, problem = sum(len(sentence["words"]) for sentence in ask(connection, text)), ""
            except Exception as error:  # every one is counted
                words, problem = 0, f"{type(error).__name__}: {error}"
            with lock:
                load.seconds.append(time.perf_counter() - begun)
                load.words += words
                load.errors += [problem] if problem else []

    started = time.perf_counter()
    threads = [threading.Thread(target=work, args=(n * 7 % len(texts),)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return load, time.perf_counter() - started


def cpu_seconds(process: subprocess.Popen[Any]) -> float:
    """CPU time that a process took so far, also one that has ended and was not waited for."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate_of_zgul_tag(texts: list[str]) -> tuple[float, float, dict[tuple[str, ...], list[str]]]:
    """Words a second of ``zgul tag`` from its first output on, those of CPU time, and the tags of each sentence."""
    command = [sys.executable, "-m", "zgul", "tag", "--lang", LANGUAGE, "--task", TASK, "--input", "text"]
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write("\n\n".join(texts).encode())
        file.flush()
        process = subprocess.Popen([*command, "--format", "json", file.name], cwd=ROOT, stdout=subprocess.PIPE)
        assert process.stdout
        lines = [(time.perf_counter(), process.stdout.readline())]
        used = -cpu_seconds(process)
        lines += [(time.perf_counter(), line) for line in process.stdout]
        used += cpu_seconds(process)
        if process.wait():
            raise NotMeasured("zgul tag failed")
    sentences = [(at, json.loads(line)) for at, line in lines]
    first, last = sentences[0][0], sentences[-1][0]
    later = sum(len(one["words"]) for at, one in sentences if at > first + AT_ONCE)
    return later / (last - first), later / used, {tuple(one["words"]): one["upos"] for _, one in sentences}


def read_texts(data: Path, words: int) -> list[str]:
    """Passages of Faroese, this many words together."""
    if not data.is_dir():
        raise NotMeasured("needs the data: --data DIR")
    texts: list[str] = []
    lines = iter(DataFolder(data).text_lines(LANGUAGE))
    while words > 0 and (passage := " ".join(line.strip() for line in itertools.islice(lines, PASSAGE))):
        texts.append(passage)
        words -= sum(len(sentence) for sentence in plain_text.split(passage, "raw", LANGUAGE))
    return texts


def measure(data: Path, clients: int, seconds: float, words: int) -> dict[str, Any]:
    texts = read_texts(data, words)
    before, cpu_before, expected = rate_of_zgul_tag(texts)  # alone: the service loads its taggers when it starts
    service = Service()
    try:
        say("comparing tags")
        connection = service.connect()
        made = {tuple(sentence["words"]): sentence["upos"] for text in texts for sentence in ask(connection, text)}
        # abbreviations are learnt from the text itself, so a passage may be cut into other sentences than a whole book
        common = made.keys() & expected.keys()
        other = sum(made[words] != expected[words] for words in common)
        if other or len(common) < 0.98 * len(expected):
            raise Unequal(f"{other} of {len(common)} sentences have other tags, {len(expected)} were tagged")
        say(f"{clients} clients for {seconds:g} seconds")
        used = -cpu_seconds(service.process)
        load, took = put_under_load(service, texts, clients, seconds)
        used += cpu_seconds(service.process)
    finally:
        code = service.stop()
    after, cpu_after, _ = rate_of_zgul_tag(texts)
    reached, alone = load.words / took, statistics.mean([before, after])
    return {
        "machine": describe_machine(torch.device("cpu"), "python -m benchmarks.service"),
        "clients": clients,
        "seconds": took,
        "requests": len(load.seconds),
        "errors": load.errors,
        "exit_code": code,
        "p50_seconds": load.percentile(0.5),
        "p99_seconds": load.percentile(0.99),
        "words": load.words,
        "words_a_second": reached,
        "words_a_second_of_zgul_tag": [before, after],
        "share": reached / alone,
        "words_a_cpu_second": load.words / used,
        "words_a_cpu_second_of_zgul_tag": [cpu_before, cpu_after],
        "cpu_share": load.words / used / statistics.mean([cpu_before, cpu_after]),
        "met": not load.errors and reached >= TARGET * alone,
        "load_average": os.getloadavg(),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--words", type=int, default=6000, help="of the text")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with text/")
    parser.add_argument("--output", type=Path, help="JSON file for the result")
    given = parser.parse_args(arguments)
    result = measure(given.data, given.clients, given.seconds, given.words)
    if given.output:
        write_json(given.output, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

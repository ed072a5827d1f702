"""How long runs will take: by what was measured before, else roughly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from statistics import mean

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.paper.plan import READING, Inputs, Run
from zgul.paper.protocol import Protocol
from zgul.paper.store import DONE, Store, StoredRun

# Seconds for a sentence in training, the embedded encoder alone on the machine: an H200, and a CPU core or two.
TRAIN = {
    "cuda": {"sft": 0.0002, "madx": 0.0002, "cpg": 0.0004, "zgul": 0.0003},
    "cpu": {"sft": 0.09, "madx": 0.07, "cpg": 0.17, "zgul": 0.12},
}
INFER = {"cuda": 0.0001, "cpu": 0.025}  # a sentence forward; a step of EM costs about three
STEP = {"cuda": 0.03, "cpu": 4.0}  # of masked-LM training
START = {"cuda": 4.0, "cpu": 3.0}  # of any model


class Estimate:
    """Seconds that runs take."""

    def __init__(self, inputs: Inputs, protocol: Protocol, store: Store | None = None) -> None:
        self.data, self.protocol = DataFolder(inputs.data), protocol
        self.device = "cuda" if inputs.device == "cuda" else "cpu"
        seconds = defaultdict(list)
        for run in store.runs(status=DONE) if store is not None else ():
            seconds[_kind(run)].append(run.seconds)
        self.measured = {kind: mean(values) for kind, values in seconds.items()}

    def seconds(self, run: Run) -> float:
        """What a run takes from its start to its last score."""
        return self.measured.get(_kind(run)) or self._guess(run)

    def total(self, runs: Iterable[Run], workers: int) -> float:
        """Seconds of several runs with this many processes side by side, if the machine bears them."""
        return sum(map(self.seconds, runs)) / max(1, workers)

    def _guess(self, run: Run) -> float:
        if run.method == READING:
            steps, blocks = int(run.config["steps"]), int(run.config["blocks"])
            return START[self.device] + 3 * steps * STEP[self.device] * blocks / 16
        train = TRAIN[self.device][run.method.split("-")[0]]
        infer = self._inference(run)
        if run.part == "few-shot":
            return infer + 3 * int(run.extra["examples"]) * int(run.config["epochs"]) * train
        if run.extra.get("variant") == "MADX^multi-Tgt":
            return START[self.device] + infer
        languages = ["en"] if run.method in ("sft-en", "madx") else run.config["sources"]
        seen = sum(self._sentences(run, language, "train", self.protocol.limit) for language in languages)
        dev = sum(self._sentences(run, language, "dev", self.protocol.dev_limit) for language in languages)
        return START[self.device] + run.training().rounds * (seen * train + dev * INFER[self.device]) + infer

    def _inference(self, run: Run) -> float:
        tests = sum(self._sentences(run, language, "test", self.protocol.test_limit) for language in run.languages)
        steps = max(self.protocol.em_steps, default=0)
        passes = 0.0
        for row in run.rows:
            passes += tests * (1 + 3 * steps if row["em"] else 1)
            if isinstance(row["em"], str) and run.part != "few-shot":
                judges = len(run.languages) if row["em"] == "target" else min(2, len(run.languages))
                passes += judges * self.protocol.em_sentences * len(self.protocol.em_rates) * (1 + 3 * steps)
        return passes * INFER[self.device]

    def _sentences(self, run: Run, language: str, split: str, limit: int) -> int:
        split = split if split == "test" else source_split(run.group, language, split)
        path = self.data.labelled_file(run.config["task"], language, split)
        count = _about(path) if path is not None else 0
        return min(count, limit) if limit else count


def _kind(run: Run | StoredRun) -> tuple[object, ...]:
    """Runs of one kind take about as long."""
    extra = run.extra
    return (run.part, run.group, run.method, extra.get("variant"), extra.get("examples"), extra.get("share"))


@cache
def _about(path: Path) -> int:
    """About how many sentences a file has, by its size: reading them all would take longer than the plan."""
    return path.stat().st_size // (70 if path.suffix == ".xz" else 250)

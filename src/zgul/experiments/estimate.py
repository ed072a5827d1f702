"""How long runs will take and how much disk they will need: by what was measured before, else roughly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from statistics import mean

from zgul.experiments import checksums
from zgul.experiments.plan import TEXT, Inputs, Protocol, Run
from zgul.paper.store import DONE, Store
from zgul.training.data import SPLITS

# Seconds for a sentence in training, the embedded encoder alone on the machine: an H200, and a CPU core or two
TRAIN = {"cuda": {"sft": 0.0002, "madx": 0.0002, "cpg": 0.0004, "zgul": 0.0003}}
TRAIN["cpu"] = {"sft": 0.09, "madx": 0.07, "cpg": 0.17, "zgul": 0.12}
INFER = {"cuda": 0.0001, "cpu": 0.025}  # a sentence forward; a step of EM costs about three
STEP = {"cuda": 0.03, "cpu": 4.0}  # of masked-LM training
RESULTS = 100_000  # bytes of scores and tags of a run
START = {"cuda": 4.0, "cpu": 3.0}  # of any model


class Estimate:
    """Seconds and bytes of runs."""

    def __init__(self, inputs: Inputs, protocol: Protocol, done: Store | None = None) -> None:
        self.inputs, self.protocol = inputs, protocol
        self.device = "cuda" if inputs.device == "cuda" else "cpu"
        self.measured: dict[tuple[object, ...], float] = {}
        if done is not None:
            seconds = defaultdict(list)
            for run in done.runs(status=DONE):
                seconds[self._kind(run.part, run.group, run.method, run.extra)].append(run.seconds)
            self.measured = {kind: mean(found) for kind, found in seconds.items()}

    def seconds(self, run: Run) -> float:
        """What a run takes from its start to its last score."""
        kind = self._kind(run.part, run.group, run.method, run.extra)
        return self.measured[kind] if kind in self.measured else self._guess(run)

    def bytes(self, run: Run) -> int:
        """What a run's weights take on disk, with the embedded encoder."""
        width, depth, words = 384, 12, 250_000
        layers = depth * 12 * width * width
        if run.method == TEXT:
            return 2 * (layers + words * width)
        if run.part == "few-shot" or run.extra.get("variant") == "MADX^multi-Tgt":
            return 0
        whole = layers + words * width
        trained = {"sft": whole, "cpg": whole * 2, "madx": layers // 10, "zgul": layers // 2}
        return 4 * trained[run.method.split("-")[0]]

    @staticmethod
    def _kind(part: str, group: str, method: str, extra: dict[str, object]) -> tuple[object, ...]:
        return (part, group, method, extra.get("variant"), extra.get("examples"), extra.get("share"))

    def _guess(self, run: Run) -> float:
        if run.method == TEXT:
            steps, blocks = int(run.config["steps"]), int(run.config["blocks"])
            return START[self.device] + 3 * steps * STEP[self.device] * blocks / 16
        family = run.method.split("-")[0]
        infer = self._inference(run)
        if run.part == "few-shot":
            seen = int(run.extra["examples"]) * int(run.config["epochs"])
            return infer + 3 * seen * TRAIN[self.device][family]
        if run.extra.get("variant") == "MADX^multi-Tgt":
            return START[self.device] + infer
        languages = ["en"] if run.method in ("sft-en", "madx") else run.config["sources"]
        seen = sum(self._sentences(run, language, "train", self.protocol.limit) for language in languages)
        dev = sum(self._sentences(run, language, "dev", self.protocol.dev_limit) for language in languages)
        epochs = run.training().rounds
        return START[self.device] + epochs * (seen * TRAIN[self.device][family] + dev * INFER[self.device]) + infer

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
        if split != "test":
            split = SPLITS.get((run.group, language), "") + split
        path = checksums.labelled(self.inputs.data, run.config["task"], language, split)
        count = _lines(path) if path is not None else 0
        return min(count, limit) if limit else count


@cache
def _lines(path: Path) -> int:
    """About how many sentences a file has, by its size: reading them all would take longer than the plan."""
    return path.stat().st_size // (70 if path.suffix == ".xz" else 250)


def total(estimate: Estimate, runs: Iterable[Run], workers: int) -> tuple[float, int]:
    """Seconds with so many processes side by side, if the machine bears them, and the most bytes at any time.

    Weights stay while another run needs them; of those at work each has weights and a checkpoint of three times that.
    """
    runs = list(runs)
    needed = {need for run in runs for need in run.needs}
    kept = sum(estimate.bytes(run) for run in runs if run.hash in needed)
    at_work = sorted((4 * estimate.bytes(run) for run in runs), reverse=True)[: max(1, workers)]
    return sum(map(estimate.seconds, runs)) / max(1, workers), kept + sum(at_work) + RESULTS * len(runs)

"""The paper's whole evaluation from Python: `run_paper` does what ``zgul experiment paper`` does."""

import hashlib
import json
import os
import shlex
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from zgul import __version__, encoders
from zgul.corpora.data_folder import DataFolder, source_split
from zgul.errors import ZgulError
from zgul.paper import plan, provenance
from zgul.paper.plan import PARTS, READING, Inputs, Run
from zgul.paper.protocol import Protocol
from zgul.paper.store import DONE, FILE, Store, StoredRun
from zgul.paper.workers import Outcome, Work, execute_all
from zgul.progress import Report, silent
from zgul.training.labelled_data import training_languages

# Seconds for a sentence with the embedded encoder: in training (forward and backward), and for one forward pass.
TRAIN, FORWARD = {"cuda": 0.0003, "cpu": 0.12}, {"cuda": 0.0001, "cpu": 0.025}
STEP = {"cuda": 0.03, "cpu": 4.0}  # seconds for a step of masked-LM training
BYTES = 70  # of a compressed sentence


@dataclass(frozen=True)
class Experiment:
    """What is to be run, and where the results go."""

    inputs: Inputs
    protocol: Protocol
    output: Path
    only: Sequence[str] = ()  # see `select_runs`
    same_code: bool = False  # finished runs count although the code has changed since

    def store(self) -> Store | None:
        """The results that there are."""
        return Store(self.output, create=True) if (self.output / FILE).is_file() else None

    def plan(self) -> list[Run]:
        """The runs that can be planned now: tuning and, with the rates that are tuned so far, everything else."""
        store = self.store()
        meta, done = (store.meta, store.runs(status=DONE)) if store is not None else ({}, [])
        code = str(meta.get("code", "")) if self.same_code else ""
        tuning = plan.tuning_plan(self.inputs, self.protocol, done, code=code)
        settings = plan.tuned_settings(run for run in done if run.hash in {run.hash for run in tuning})
        runs = plan.paper_plan(self.inputs, self.protocol, settings, code=code)
        # tuning is always part of the plan, because the other runs rest on it
        patterns = [part for pattern in self.only for part in pattern.split(",") if part.strip() != "tuning"]
        chosen = tuning + (plan.select_runs(runs, patterns) if patterns or not self.only else [])
        if not chosen:
            raise ZgulError(f"No run fits --only {', '.join(self.only)}. See the plan with --dry-run.")
        parts = {run.part for run in done}
        if done and (found := plan.differences(self.protocol, _checksums(chosen), meta, parts)):
            # a mean over results of two protocols would say nothing
            raise ZgulError(
                f"{self.output} holds {len(done)} finished runs of another protocol ({'; '.join(found[:4])}"
                f"{'; …' if len(found) > 4 else ''}). Give the same options as for them, or another --output."
            )
        return chosen


def run_paper(
    experiment: Experiment, *, workers: int = 1, minutes: float | None = None, report: Report = silent
) -> Outcome:
    """Do all runs that are not done: the tuning runs, then the others with what was tuned."""
    until = time.monotonic() + 60 * minutes if minutes is not None else None
    if experiment.inputs.encoder == "embedded":
        encoders.load("embedded")  # once, so that the workers find what it caches
    whole = Outcome()
    while not (whole.failed or whole.stopped) and (work := _next_work(experiment, workers)):
        outcome = execute_all(work, workers, report=report, until=until)
        whole = Outcome(whole.done + outcome.done, outcome.failed, outcome.stopped)
    if not (whole.failed or whole.stopped):
        shutil.rmtree(experiment.output / "cache", ignore_errors=True)  # encoded corpora that the runs shared
    return whole


def _next_work(experiment: Experiment, workers: int) -> Work | None:
    """The runs that are not done, by part and seed, then the longest first. Tuning runs come alone."""
    needed, store = {run.hash: run for run in experiment.plan()}, Store(experiment.output, create=True)
    done = {run.hash for run in store.runs(status=DONE)}
    left = [run for run in needed.values() if run.hash not in done]
    if not left:
        return None
    runs = [run for run in left if run.part == "tuning"] or left
    _note(store, runs, experiment)
    estimate = Estimate(experiment.inputs, experiment.protocol, store)
    store.close()
    ordered = sorted(runs, key=lambda run: (PARTS.index(run.part), run.seed, -estimate.seconds(run)))
    sums = sorted({f"{name} {value}" for run in runs for name, value in run.checksums.items()})
    cache = experiment.output / "cache" / hashlib.sha256(json.dumps(sums).encode()).hexdigest()[:16]
    threads = max(1, (os.cpu_count() or 1) // workers) if workers > 1 else 0
    return Work(experiment.output, ordered, needed, experiment.inputs, experiment.protocol, cache, threads)


def _checksums(runs: Iterable[Run]) -> dict[str, str]:
    """Checksums of the data, the encoder and the adapters that these runs read."""
    sums = {name: value for run in runs for name, value in run.checksums.items() if value != "new"}
    return {name: value for name, value in sums.items() if "/" in name or name in ("encoder", "adapters")}


def _note(store: Store, runs: Sequence[Run], experiment: Experiment) -> None:
    """Note in the store what was asked for, of what, on what."""
    inputs, before = experiment.inputs, store.meta
    command = ["zgul", *(Path(word).name if "/" in word and Path(word).exists() else word for word in sys.argv[1:])]
    store.note(
        command=shlex.join(command),
        commands=list(dict.fromkeys([*before.get("commands", []), shlex.join(command)])),
        protocol=experiment.protocol.to_dict(),
        checksums=before.get("checksums", {}) | _checksums(runs),
        code=runs[0].checksums["code"],
        commit=provenance.commit() or before.get("commit", ""),
        encoder=Path(inputs.encoder).name,
        adapters=Path(inputs.adapters).name if "{lang}" not in inputs.adapters else inputs.adapters,
        machine=provenance.machine(inputs.device),
        version=__version__,
    )


class Estimate:
    """How many seconds runs take: by runs of the same kind that were measured before, else roughly."""

    def __init__(self, inputs: Inputs, protocol: Protocol, store: Store | None = None) -> None:
        self.data, self.protocol = DataFolder(inputs.data), protocol
        self.device = "cuda" if inputs.device == "cuda" else "cpu"
        seconds = defaultdict(list)
        for run in store.runs(status=DONE) if store is not None else ():
            seconds[_kind(run)].append(run.seconds)
        self.measured = {kind: mean(values) for kind, values in seconds.items()}

    def total(self, runs: Iterable[Run], workers: int = 1) -> float:
        """Seconds of several runs with this many processes side by side, if the machine bears them."""
        return sum(map(self.seconds, runs)) / max(1, workers)

    def seconds(self, run: Run) -> float:
        """Seconds from the start of a run to its last score."""
        return self.measured.get(_kind(run)) or self._guess(run)

    def _guess(self, run: Run) -> float:
        if run.method == READING:
            return 3.0 * int(run.config["steps"]) * STEP[self.device]
        config = run.training()
        sources = training_languages(config)
        trained = sum(self._sentences(run, code, source_split(run.group, code, "train")) for code in sources)
        trained = min(trained, self.protocol.limit * len(sources)) if self.protocol.limit else trained
        if run.part == "few-shot":
            trained = int(run.extra["examples"])
        tests = sum(self._sentences(run, code, "test") for code in run.languages)
        em = 1 + 3 * max(self.protocol.em_steps, default=0)  # a step of EM is a forward and a backward pass
        passes = sum(tests * (em if row["em"] else 1) for row in run.rows)
        return config.rounds * trained * TRAIN[self.device] + passes * FORWARD[self.device]

    def _sentences(self, run: Run, language: str, split: str) -> int:
        """About how many sentences a file has, by its size: reading it would take longer than the plan."""
        path = self.data.labelled_file(run.config["task"], language, split)
        return path.stat().st_size // BYTES if path is not None else 0


def _kind(run: Run | StoredRun) -> tuple[object, ...]:
    """Runs of one kind take about as long."""
    extra = run.extra
    return (run.part, run.group, run.method, extra.get("variant"), extra.get("examples"), extra.get("share"))

"""The paper's whole evaluation from Python: `run_paper` does what ``zgul experiment paper`` does."""

import hashlib
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zgul import __version__, encoders
from zgul.errors import ZgulError
from zgul.paper import provenance
from zgul.paper.estimate import Estimate
from zgul.paper.plan import PARTS, Inputs, Run, differences, paper_plan, select_runs, tuned_settings, tuning_plan
from zgul.paper.protocol import Protocol
from zgul.paper.store import DONE, FILE, Store
from zgul.paper.workers import Outcome, Work, execute_all
from zgul.progress import Report, silent


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
        code = str(store.meta.get("code", "")) if self.same_code and store is not None else ""
        done = store.runs(status=DONE) if store is not None else []
        tuning = tuning_plan(self.inputs, self.protocol, done, code=code)
        settings = tuned_settings(run for run in done if run.hash in {run.hash for run in tuning})
        runs = paper_plan(self.inputs, self.protocol, settings, code=code)
        # tuning is always part of the plan, because the other runs rest on it
        patterns = [part for pattern in self.only for part in pattern.split(",") if part.strip() != "tuning"]
        chosen = tuning + (select_runs(runs, patterns) if patterns or not self.only else [])
        if not chosen:
            raise ZgulError(f"No run fits --only {', '.join(self.only)}. See the plan with --dry-run.")
        if store is not None:
            self._check_alike(store, chosen)
            store.close()
        return chosen

    def _check_alike(self, store: Store, runs: list[Run]) -> None:
        """Refuse a folder whose results are of other data or settings: a mean over both would say nothing."""
        done = store.runs(status=DONE)
        if done and (found := differences(self.protocol, checksums(runs), store.meta, {run.part for run in done})):
            raise ZgulError(
                f"{self.output} holds {len(done)} finished runs of another protocol ({'; '.join(found[:4])}"
                f"{'; …' if len(found) > 4 else ''}). Give the same options as for them, or another --output."
            )


def run_paper(
    experiment: Experiment, *, workers: int = 1, minutes: float | None = None, report: Report = silent
) -> Outcome:
    """Do all runs that are not done: the tuning runs, then the others with what was tuned."""
    until = time.monotonic() + 60 * minutes if minutes is not None else None
    if experiment.inputs.encoder == "embedded":
        encoders.load("embedded")  # once, so that the workers find what it caches
    whole = Outcome()
    while runs := _next_stage(experiment):
        outcome = execute_all(_work(experiment, runs, workers), workers, report=report, until=until)
        whole = Outcome(whole.done + outcome.done, whole.failed | outcome.failed, outcome.stopped)
        if outcome.stopped or outcome.failed:
            break
    return whole


def _next_stage(experiment: Experiment) -> list[Run]:
    """Runs that are not done: tuning runs alone while there are any, then all others."""
    runs, store = experiment.plan(), experiment.store()
    done = {run.hash for run in store.runs(status=DONE)} if store is not None else set()
    left = [run for run in runs if run.hash not in done]
    return [run for run in left if run.part == "tuning"] or left


def _work(experiment: Experiment, runs: list[Run], workers: int) -> Work:
    """The runs in their order: by part and seed, then the longest first."""
    store = Store(experiment.output, create=True)
    _note(store, runs, experiment)
    estimate = Estimate(experiment.inputs, experiment.protocol, store)
    store.close()
    ordered = sorted(runs, key=lambda run: (PARTS.index(run.part), run.seed, -estimate.seconds(run)))
    sums = sorted({f"{name} {value}" for run in runs for name, value in run.checksums.items()})
    cache = experiment.output / "cache" / hashlib.sha256(json.dumps(sums).encode()).hexdigest()[:16]
    threads = max(1, (os.cpu_count() or 1) // workers) if workers > 1 else 0
    needed = {run.hash: run for run in experiment.plan()}
    return Work(experiment.output, ordered, needed, experiment.inputs, experiment.protocol, cache, threads)


def remove_cache(output: Path) -> None:
    """Remove the encoded corpora that runs shared."""
    shutil.rmtree(output / "cache", ignore_errors=True)


def checksums(runs: Sequence[Run]) -> dict[str, str]:
    """Checksums of the data, the encoder and the adapters that these runs read."""
    kept = ("encoder", "adapters")
    sums = {name: value for run in runs for name, value in run.checksums.items() if "/" in name or name in kept}
    return {name: value for name, value in sums.items() if value != "new"}


def _note(store: Store, runs: Sequence[Run], experiment: Experiment) -> None:
    """Note in the store what was asked for, of what, on what."""
    inputs, before = experiment.inputs, store.meta
    command = ["zgul", *(Path(word).name if "/" in word and Path(word).exists() else word for word in sys.argv[1:])]
    store.note(
        command=shlex.join(command),
        commands=list(dict.fromkeys([*before.get("commands", []), shlex.join(command)])),
        protocol=experiment.protocol.to_dict(),
        checksums=before.get("checksums", {}) | checksums(runs),
        code=runs[0].checksums["code"],
        commit=provenance.commit() or before.get("commit", ""),
        encoder=Path(inputs.encoder).name,
        adapters=Path(inputs.adapters).name if "{lang}" not in inputs.adapters else inputs.adapters,
        machine=provenance.machine(inputs.device),
        version=__version__,
    )

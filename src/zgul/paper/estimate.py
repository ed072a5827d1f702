"""How long runs will take: by runs of the same kind that were measured before, else roughly."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import mean

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.paper.plan import READING, Inputs, Run
from zgul.paper.protocol import Protocol
from zgul.paper.store import DONE, Store, StoredRun

# Seconds for a sentence with the embedded encoder: in training (forward and backward), and for one forward pass.
TRAIN, FORWARD = {"cuda": 0.0003, "cpu": 0.12}, {"cuda": 0.0001, "cpu": 0.025}
STEP = {"cuda": 0.03, "cpu": 4.0}  # seconds for a step of masked-LM training
BYTES = 70  # of a compressed sentence


class Estimate:
    """Seconds that runs take."""

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
        sources = ["en"] if run.method in ("sft-en", "madx") else run.config["sources"]
        trained = sum(self._sentences(run, code, source_split(run.group, code, "train")) for code in sources)
        trained = min(trained, self.protocol.limit * len(sources)) if self.protocol.limit else trained
        if run.part == "few-shot":
            trained = int(run.extra["examples"])
        tests = sum(self._sentences(run, code, "test") for code in run.languages)
        em = 1 + 3 * max(self.protocol.em_steps, default=0)  # a step of EM is a forward and a backward pass
        passes = sum(tests * (em if row["em"] else 1) for row in run.rows)
        return run.training().rounds * trained * TRAIN[self.device] + passes * FORWARD[self.device]

    def _sentences(self, run: Run, language: str, split: str) -> int:
        """About how many sentences a file has, by its size: reading it would take longer than the plan."""
        path = self.data.labelled_file(run.config["task"], language, split)
        return path.stat().st_size // BYTES if path is not None else 0


def _kind(run: Run | StoredRun) -> tuple[object, ...]:
    """Runs of one kind take about as long."""
    extra = run.extra
    return (run.part, run.group, run.method, extra.get("variant"), extra.get("examples"), extra.get("share"))

"""The manifest of a tagged corpus: ``manifest.json`` beside the outputs.

It says which inputs were read (size, checksum), how they were tagged, and which output files they gave (sentences,
words, size, checksum). A later run does what is not in it. A run that is killed loses its notes of the last seconds;
those shards are tagged again, and give the same files.
"""

import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from zgul import __version__
from zgul.cluster import places
from zgul.cluster.shards import CorpusJob, Tagged
from zgul.errors import ZgulError

MANIFEST = "manifest.json"
EVERY = 5.0  # seconds between two writes
PLANNED, RUNNING, DONE, FAILED = "planned", "running", "done", "failed"


@dataclass
class CorpusInput:
    """One input, and what was done with it."""

    source: str
    state: str = PLANNED
    size: int = 0
    changed: str = ""  # what the file system says about its last change
    sha256: str = ""
    language: str = ""
    problem: str = ""  # why it failed
    shards: dict[int, Tagged] = field(default_factory=dict)  # by number

    def to_dict(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "shards"}
        sums = {name: sum(getattr(shard, name) for shard in self.shards.values()) for name in ("sentences", "words")}
        shards = {str(number): asdict(shard) for number, shard in sorted(self.shards.items())}
        for shard in shards.values():
            del shard["warnings"]
        return own | sums | {"shards": shards}


class Manifest:
    """What a folder of outputs holds."""

    def __init__(self, folder: str, job: CorpusJob, inputs: dict[str, str], *, force: bool = False) -> None:
        """Plan the ``inputs``, by the names of their outputs. What the folder holds of them already is kept."""
        self.folder, self.job = folder, job
        self.place = places.join(folder, MANIFEST)
        self._saved, self._pause = time.monotonic(), EVERY
        places.remove_litter(folder)
        there = places.sizes(folder)
        known = self._known() if MANIFEST in there and not force else {}
        if there and MANIFEST not in there and not force:
            other = f"{folder} holds files, but no {MANIFEST}"
            raise ZgulError(f"{other}. Choose an empty folder for --output, or write into this one with --force.")
        self.inputs: dict[str, CorpusInput] = {}
        for name, source in inputs.items():
            before = known.pop(name, None) or CorpusInput(source)
            before.source = source
            size, changed = places.look(source)
            done = {number: one for number, one in before.shards.items() if there.get(one.output) == one.size}
            same = changed and (size, changed) == (before.size, before.changed)
            if before.state != DONE or len(done) < len(before.shards) or not same:  # it is read, and its words compared
                before.state, before.shards, before.problem, before.sha256 = PLANNED, done, "", ""
            before.size, before.changed = size, changed
            self.inputs[name] = before
        self.inputs |= known  # inputs of earlier runs, of which nothing is asked now

    def _known(self) -> dict[str, CorpusInput]:
        """The inputs of an earlier run, which must have tagged them in the same way."""
        try:
            held = json.loads(places.read_whole(self.place))
            before = dict(held["settings"])
            inputs = {name: _read_input(values) for name, values in held["inputs"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ZgulError(f"{self.place} is damaged ({error}). Start again with --force.") from error
        now = json.loads(json.dumps(self.job.settings()))
        if other := sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key)):
            changes = ", ".join(f"{key} was {before.get(key)}, now {now.get(key)}" for key in other)
            advice = "Choose another --output, or start again with --force"
            raise ZgulError(f"{self.folder} was tagged in another way: {changes}. {advice}.")
        return inputs

    def save(self, state: str = RUNNING, *, now: bool = True) -> None:
        """Write the manifest: ``now``, or if the last time was a while ago."""
        if not now and time.monotonic() - self._saved < self._pause:
            return
        started = time.monotonic()
        inputs = {name: one.to_dict() for name, one in sorted(self.inputs.items())}
        sums = {name: sum(one[name] for one in inputs.values()) for name in ("sentences", "words")}
        value = {"zgul": __version__, "state": state, **sums, "settings": self.job.settings(), "inputs": inputs}
        places.write_whole(self.place, (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode())
        self._saved = time.monotonic()
        self._pause = max(EVERY, 20 * (self._saved - started))  # a long manifest is written less often


def _read_input(values: dict[str, Any]) -> CorpusInput:
    shards = {int(number): Tagged(**shard) for number, shard in values["shards"].items()}
    fields = {name: type(default)(values[name]) for name, default in vars(CorpusInput("")).items() if name != "shards"}
    return CorpusInput(**fields, shards=shards)

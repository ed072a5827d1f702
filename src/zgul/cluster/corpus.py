"""Tag a corpus on a Ray cluster: what ``zgul tag --engine ray`` does.

Readers, which are Ray actors, cut the inputs into shards. Tasks tag the shards, and each writes one output file by an
atomic rename. Ray does a task again elsewhere when its process or machine dies, and starts a dead reader again. Both
give the same result when they are done twice, so no sentence is lost or doubled. A worker process loads the tagger
once. The command itself only keeps the list of what is done (`manifest`).
"""

import time
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zgul.cluster import places
from zgul.cluster.manifest import DONE, FAILED, RUNNING, CorpusInput, Manifest
from zgul.cluster.ray_cluster import ClusterSettings, connected, reason, resources, slots
from zgul.cluster.shards import CorpusJob, Cut, Reader, tag_shard
from zgul.errors import ZgulError, ZgulWarning
from zgul.paper import provenance
from zgul.progress import Report, Status, silent

WORKERS_A_READER = 8  # cutting text is more than this many times as fast as tagging it
WAIT = 1.0  # seconds, after which the size of the cluster is looked at again


@dataclass
class CorpusResult:
    """What a run did."""

    manifest: Manifest
    tagged: int = 0  # shards
    words: int = 0  # in them
    seconds: float = 0.0

    @property
    def failed(self) -> dict[str, str]:
        """The inputs that failed, and why."""
        return {one.source: one.problem for one in self.manifest.inputs.values() if one.state == FAILED}


def tag_corpus(
    given: Sequence[str],
    output: str,
    job: CorpusJob,
    settings: ClusterSettings = ClusterSettings(),
    *,
    report: Report = silent,
) -> CorpusResult:
    """Tag files, folders, patterns and URLs into a folder, which may be a URL. What is there already is kept.

    An input of several shards becomes a folder: ``book.conllu/000000.conllu``, ``book.conllu/000001.conllu`` and so on.
    An input that cannot be tagged is noted in the manifest, and the others are still tagged.
    """
    output = places.absolute(output)
    inputs = places.find_inputs(given, output, job.files.format)
    choices = dict(job.choices)
    if choices.get("model") and (of_model := provenance.of_place(Path(choices["model"]))):
        choices["model"] = str(Path(choices["model"]).resolve())
        job = replace(job, model_sha256=of_model, choices=tuple(choices.items()))
    manifest = Manifest(output, job, inputs, force=job.files.force)
    result = CorpusResult(manifest)
    left = [name for name in inputs if manifest.inputs[name].state != DONE]
    if not left:
        return result
    with connected(settings) as ray:
        manifest.save()  # before the first output, so that whatever happens the next run knows whose folder this is
        started = time.monotonic()
        try:
            _Corpus(ray, job, settings, result, left, report).run()
        finally:
            result.seconds = time.monotonic() - started
            states = {one.state for one in manifest.inputs.values()}
            manifest.save(FAILED if FAILED in states else DONE if states == {DONE} else RUNNING)
    return result


@dataclass(eq=False)
class _Lane:
    """A reader, and the input that it cuts."""

    reader: Any
    name: str = ""  # of the input's output
    number: int = 0  # of the next shard
    cut: Any = None  # a shard that waits for a worker: what was cut, and where its sentences are


class _Corpus:
    """The work of one call: inputs that wait, shards that are being cut, and shards that are being tagged."""

    def __init__(
        self, ray: Any, job: CorpusJob, settings: ClusterSettings, result: CorpusResult, left: list[str], report: Report
    ) -> None:
        self.ray, self.job, self.settings, self.result, self.report = ray, job, settings, result, report
        self.inputs, self.waiting = result.manifest.inputs, deque(left)
        self.size = sum(self.inputs[name].size for name in left)
        self.read: dict[str, int] = {}  # bytes of each input that were read
        self.cut_words = 0
        self.started = time.monotonic()
        self.cutting: dict[Any, tuple[_Lane, Any]] = {}  # with the sentences, which only workers need
        self.tagging: dict[Any, tuple[str, int]] = {}  # name and number of a shard
        self.complete: set[str] = set()  # inputs that were read to their end
        self.slots = slots(ray, settings, job.on_gpu)
        self.tag = ray.remote(**resources(job.on_gpu))(tag_shard)
        reader = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Reader)
        count = min(len(left), 1 + self.slots // (2 * WORKERS_A_READER))
        self.lanes = [_Lane(reader.remote(job)) for _ in range(count)]
        self.job_everywhere = ray.put(job)

    def run(self) -> None:
        for lane in self.lanes:
            self._next_input(lane)
        while self.cutting or self.tagging or any(lane.cut for lane in self.lanes):
            for lane in self.lanes:
                if lane.cut and len(self.tagging) < self.slots:
                    self._submit(lane)
            ready, _ = self.ray.wait([*self.cutting, *self.tagging], num_returns=1, timeout=WAIT, fetch_local=False)
            for one in ready:
                if one in self.cutting:
                    self._receive_cut(one, *self.cutting.pop(one))
                else:
                    self._receive_tagged(one, *self.tagging.pop(one))
            if not ready:
                self.slots = slots(self.ray, self.settings, self.job.on_gpu)
            self.result.manifest.save(now=False)
            self._show()

    def _next_input(self, lane: _Lane) -> None:
        if self.waiting:
            lane.name, lane.number = self.waiting.popleft(), 0
            self.inputs[lane.name].state = RUNNING
            self._cut_next(lane)

    def _cut_next(self, lane: _Lane) -> None:
        one = self.inputs[lane.name]
        known = one.shards[lane.number].text if lane.number in one.shards else ""
        about, windows = lane.reader.read.options(num_returns=2).remote(one.source, lane.number, known)
        self.cutting[about] = (lane, windows)

    def _receive_cut(self, about: Any, lane: _Lane, windows: Any) -> None:
        """A shard was cut. It is tagged when a worker is free, unless its output exists."""
        one = self.inputs[lane.name]
        try:
            cut: Cut = self.ray.get(about)
            if cut.last and max(one.shards, default=0) > cut.number:
                raise ZgulError(f"{one.source} is shorter than when it was tagged before. Start again with --force.")
        except (self.ray.exceptions.RayError, ZgulError) as error:
            self._fail(one, reason(error))
            self._next_input(lane)
            return
        self._warn(one, cut.warnings)
        one.language, one.sha256 = cut.language, cut.sha256
        self.read[lane.name] = cut.read
        if cut.last:
            self.complete.add(lane.name)
        if cut.number in one.shards:
            self._go_on(lane, cut)
        else:
            self.cut_words += cut.words
            lane.cut = (cut, windows)

    def _submit(self, lane: _Lane) -> None:
        cut, windows = lane.cut
        if not cut.number and not self.inputs[lane.name].shards:  # outputs of another run, perhaps with other shards
            places.remove(places.join(self.result.manifest.folder, lane.name))
        name = lane.name if cut.last and not cut.number else f"{lane.name}/{cut.number:06}.{self.job.files.format}"
        task = self.tag.remote(self.job_everywhere, cut, windows, self.result.manifest.folder, name)
        self.tagging[task] = (lane.name, cut.number)
        lane.cut = None
        self._go_on(lane, cut)

    def _go_on(self, lane: _Lane, cut: Cut) -> None:
        if cut.last or self.inputs[lane.name].state == FAILED:
            self._finish(lane.name)
            self._next_input(lane)
        else:
            lane.number = cut.number + 1
            self._cut_next(lane)

    def _receive_tagged(self, task: Any, name: str, number: int) -> None:
        one = self.inputs[name]
        try:
            tagged = self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            self._fail(one, reason(error))
            return
        self._warn(one, tagged.warnings)
        one.shards[number] = tagged
        self.result.tagged += 1
        self.result.words += tagged.words
        self._finish(name)

    def _finish(self, name: str) -> None:
        """An input is done when it was read to its end and none of its shards is on its way."""
        busy = any(name == other for other, _ in self.tagging.values())
        if name in self.complete and not busy and self.inputs[name].state == RUNNING:
            self.inputs[name].state = DONE

    def _fail(self, one: CorpusInput, problem: str) -> None:
        if one.state != FAILED:
            one.state, one.problem = FAILED, problem
            self._warn(one, [problem], "Not tagged: ")

    def _warn(self, one: CorpusInput, messages: Sequence[str], before: str = "") -> None:
        for message in messages:
            named = message if one.source in message else f"{one.source}: {message}"
            warnings.warn(f"{before}{named}", ZgulWarning, stacklevel=2)

    def _show(self) -> None:
        read = sum(self.read.values())
        total = round(self.cut_words * self.size / read) if read else 0
        rate = self.result.words / max(time.monotonic() - self.started, 1e-9)
        self.report(Status("tagging", self.result.words, max(total, self.result.words), {"words a second": rate}))

"""Micro-batching: sentences that wait are tagged together, whichever request they belong to.

A batch has the settings of the job whose turn it is. All jobs with these settings take turns to fill it, some words at
a time, so a long text never keeps short ones waiting for more than a batch. When many requests wait, batches grow, so
that each has a turn. The queue belongs to the event loop and needs no lock. Only the tagging itself runs in threads.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from zgul.corpora.sentence import Sentence
from zgul.devices import release_memory
from zgul.serve.problems import Problem
from zgul.tagger import Prediction, Tagger
from zgul.tagging.text_tagger import Inference

BATCH_WORDS, GPU_BATCH_WORDS = 512, 16384
TURN = 32  # words that a job adds to a batch before it is another's turn
GROWTH = 4  # a batch grows up to this much while so many jobs wait that each has one turn in it


@dataclass(frozen=True)
class TaggingSettings:
    """Sentences with equal settings may be tagged together, also those of several languages."""

    tagger: Tagger
    inference: Inference
    weights: bool

    @property
    def batch_words(self) -> int:
        """Words that are tagged together: the fewer, the more work EM makes of each."""
        most = GPU_BATCH_WORDS if self.tagger.device.type == "cuda" else BATCH_WORDS
        return max(TURN, most // (1 + (self.inference.em.steps if self.inference.em else 0)))

    def predict(self, sentences: list[Sentence]) -> list[Prediction]:
        return self.tagger.predict(sentences, **vars(self.inference), weights=self.weights)


@dataclass(eq=False)
class Job:
    """Sentences of one request that are tagged with the same settings."""

    settings: TaggingSettings
    sentences: list[Sentence]
    done: asyncio.Future[list[Prediction]]
    waiting: deque[int] = field(default_factory=deque)  # sentences that were not begun
    made: dict[int, Prediction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting.extend(range(len(self.sentences)))

    @property
    def words(self) -> int:
        """Words that wait."""
        return sum(len(self.sentences[number]) for number in self.waiting)

    def keep(self, number: int, prediction: Prediction) -> None:
        self.made[number] = prediction
        if len(self.made) == len(self.sentences) and not self.done.done():
            self.done.set_result([self.made[number] for number in range(len(self.sentences))])

    def fail(self, error: Exception) -> None:
        self.waiting.clear()
        if not self.done.done():
            self.done.set_exception(error)


Taken = list[tuple[Job, int]]  # sentences of a batch


class Batcher:
    """The queue of all requests, and the threads that tag."""

    def __init__(self, pool: ThreadPoolExecutor, most_words: int, on_batch: Callable[[int], None]) -> None:
        self.pool, self.most_words, self.on_batch = pool, most_words, on_batch
        self.jobs: deque[Job] = deque()
        self.more = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Words that wait, of all requests."""
        return sum(job.words for job in self.jobs)

    async def predict(self, work: dict[TaggingSettings, list[Sentence]]) -> dict[TaggingSettings, list[Prediction]]:
        """Tag the sentences of a request. If the caller is cancelled, so is the work that has not begun."""
        loop = asyncio.get_running_loop()
        jobs = [Job(settings, sentences, loop.create_future()) for settings, sentences in work.items() if sentences]
        if self.waiting + sum(job.words for job in jobs) > self.most_words:
            raise Problem(503, "Too much text waits to be tagged. Try again in some seconds.")
        self.jobs.extend(jobs)
        self.more.set()
        try:
            await asyncio.gather(*(job.done for job in jobs))
        finally:
            for job in jobs:
                job.waiting.clear()
        return {job.settings: job.done.result() for job in jobs}

    async def run(self) -> None:
        """Tag batch after batch, until cancelled."""
        while True:
            await self.more.wait()
            self.jobs = deque(job for job in self.jobs if job.waiting)
            if not self.jobs:
                self.more.clear()
                await asyncio.get_running_loop().run_in_executor(self.pool, release_memory)
                continue
            batch = self.take()
            if not await self._tag(batch):  # the fault of one request must not be that of the others
                for owner in dict.fromkeys(job for job, _ in batch):
                    await self._tag([one for one in batch if one[0] is owner])

    def take(self) -> Taken:
        """The next batch, with the settings of the first job, which goes to the end."""
        settings = self.jobs[0].settings
        sharing = deque(job for job in self.jobs if job.settings == settings)
        self.jobs.rotate(-1)
        # larger batches compute faster; a job that waits alone, however long, gets no larger ones
        room = max(settings.batch_words, min(GROWTH * settings.batch_words, TURN * len(sharing)))
        batch = list[tuple[Job, int]]()
        while sharing and room > 0:
            job, turn = sharing.popleft(), TURN
            while job.waiting and turn > 0 and room > 0:
                number = job.waiting.popleft()
                batch.append((job, number))
                turn, room = turn - len(job.sentences[number]), room - len(job.sentences[number])
            if job.waiting:
                sharing.append(job)
        return batch

    async def _tag(self, batch: Taken) -> bool:
        """Tag a batch. False if that failed, and several jobs are concerned."""
        sentences = [job.sentences[number] for job, number in batch]
        self.on_batch(sum(map(len, sentences)))
        predict = batch[0][0].settings.predict
        try:
            made = await asyncio.get_running_loop().run_in_executor(self.pool, predict, sentences)
        except Exception as error:
            if any(job is not batch[0][0] for job, _ in batch):
                return False
            batch[0][0].fail(error)
            return True
        for (job, number), prediction in zip(batch, made, strict=True):
            job.keep(number, prediction)
        return True

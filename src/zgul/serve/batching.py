"""Micro-batching: sentences that wait are tagged together, whichever request they belong to.

A batch has the settings of the request whose turn it is. All requests with these settings take turns to fill it, some
words at a time, so a long text never keeps short ones waiting for more than a batch. The queue belongs to the event
loop and needs no lock. Only the tagging itself runs in threads.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from zgul.corpora.sentence import Sentence
from zgul.serve.problems import Problem
from zgul.tagger import Prediction, Tagger
from zgul.tagging.text_tagger import Inference

BATCH_WORDS, GPU_BATCH_WORDS = 1024, 16384
TURN = 64  # words that a request adds to a batch before it is another's turn


@dataclass(frozen=True)
class TaggingSettings:
    """Sentences with equal settings may be tagged together, also those of several languages."""

    tagger: Tagger
    inference: Inference
    weights: bool

    def predict(self, sentences: list[Sentence]) -> list[Prediction]:
        return self.tagger.predict(sentences, **vars(self.inference), weights=self.weights)


Work = tuple[TaggingSettings, Sequence[Sentence]]


@dataclass(eq=False)
class Job:
    """The work of one request: for each part of it the sentences that wait, and the predictions that are there."""

    work: Sequence[Work]
    done: asyncio.Future[list[list[Prediction]]]
    waiting: dict[TaggingSettings, deque[tuple[int, int]]] = field(default_factory=dict)  # part, sentence
    made: dict[tuple[int, int], Prediction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part, (settings, sentences) in enumerate(self.work):
            if sentences:
                self.waiting.setdefault(settings, deque()).extend((part, n) for n in range(len(sentences)))

    def sentence(self, place: tuple[int, int]) -> Sentence:
        return self.work[place[0]][1][place[1]]

    @property
    def words(self) -> int:
        """Words that wait."""
        return sum(len(self.sentence(place)) for places in self.waiting.values() for place in places)

    def keep(self, place: tuple[int, int], prediction: Prediction) -> None:
        self.made[place] = prediction
        if len(self.made) == sum(len(sentences) for _, sentences in self.work) and not self.done.done():
            parts = enumerate(sentences for _, sentences in self.work)
            self.done.set_result([[self.made[part, n] for n in range(len(each))] for part, each in parts])

    def fail(self, error: Exception) -> None:
        self.waiting.clear()
        if not self.done.done():
            self.done.set_exception(error)


Taken = list[tuple[Job, tuple[int, int]]]


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

    async def predict(self, work: Sequence[Work]) -> list[list[Prediction]]:
        """The predictions of each part. If the caller is cancelled, so is the work that has not begun."""
        job = Job(work, asyncio.get_running_loop().create_future())
        if not job.waiting:
            return [[] for _ in work]
        if self.waiting + job.words > self.most_words:
            raise Problem(503, "Too much text waits to be tagged. Try again in some seconds.")
        self.jobs.append(job)
        self.more.set()
        try:
            return await job.done
        finally:
            job.waiting.clear()

    async def run(self) -> None:
        """Tag batch after batch, until cancelled."""
        while True:
            await self.more.wait()
            self.jobs = deque(job for job in self.jobs if job.waiting)
            if not self.jobs:
                self.more.clear()
                continue
            settings, batch = self.take()
            try:
                await self._tag(settings, batch)
            except Exception as error:
                owners = dict.fromkeys(job for job, _ in batch)
                for owner in owners:  # the fault of one request must not be that of the others
                    if len(owners) == 1:
                        owner.fail(error)
                    else:
                        await self._tag_alone(settings, [one for one in batch if one[0] is owner])

    def take(self) -> tuple[TaggingSettings, Taken]:
        """The next batch, with the settings that the first request waits for. That request goes to the end."""
        settings = next(iter(self.jobs[0].waiting))
        room = GPU_BATCH_WORDS if settings.tagger.device.type == "cuda" else BATCH_WORDS
        sharing = deque(job for job in self.jobs if settings in job.waiting)
        self.jobs.rotate(-1)
        batch: Taken = []
        while sharing and room > 0:
            job = sharing.popleft()
            places, turn = job.waiting[settings], TURN
            while places and turn > 0 and room > 0:
                place = places.popleft()
                batch.append((job, place))
                size = len(job.sentence(place))
                turn, room = turn - size, room - size
            if places:
                sharing.append(job)
            else:
                del job.waiting[settings]
        return settings, batch

    async def _tag(self, settings: TaggingSettings, batch: Taken) -> None:
        sentences = [job.sentence(place) for job, place in batch]
        self.on_batch(sum(map(len, sentences)))
        made = await asyncio.get_running_loop().run_in_executor(self.pool, settings.predict, sentences)
        for (job, place), prediction in zip(batch, made, strict=True):
            job.keep(place, prediction)

    async def _tag_alone(self, settings: TaggingSettings, batch: Taken) -> None:
        try:
            await self._tag(settings, batch)
        except Exception as error:
            batch[0][0].fail(error)

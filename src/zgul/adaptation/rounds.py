"""A round of training: a student learns label probabilities of words, and masked pieces, from noisy copies of text.

The targets of a word are probabilities: a teacher's, or one-hot for labelled sentences. So self-training and training
on labels are one loop. With ``masked``, 15% of the pieces are masked, and the same pass also learns to guess them; the
tags must then come from the context, too. Each epoch has its own spelling noise, order and masks.

A round can be killed at any moment and continued bit for bit. A budget of seconds fits the number of steps to the time
that the first steps took; the plan file keeps that number for a run that is continued.
"""

import hashlib
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from zgul.adaptation.student import Student, soft_loss
from zgul.corpora.sentence import Sentence
from zgul.devices import mixed_precision, release_memory
from zgul.encoders.batches import Batch, EncodedCorpus
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import read_json, write_json
from zgul.progress import Report, Status, silent
from zgul.training import distributed
from zgul.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from zgul.training.config import NoiseConfig
from zgul.training.noise import noisy_words
from zgul.training.optimiser import Optimiser, rate_share
from zgul.training.trainer import LENGTH_STEP, deferred_interrupt, mixed_batches

POOL = 40  # batches that are sorted by length together
WARMUP = 0.1  # share of the steps in which the learning rate rises
TRIED = 6  # steps that are timed before a budget fixes the number of steps
CHECKPOINT_EVERY = 20.0  # seconds
TOKENS = (640, 16384)  # that are computed at once, on a CPU and on a GPU; each takes half a megabyte
RELEASE_EVERY = 5  # steps: batches of changing shapes leave holes in memory


@dataclass
class Plan:
    """What was decided while running: the precision, and the steps of each round. A continued run keeps to it."""

    path: Path | None = None
    values: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path | None) -> "Plan":
        return cls(path, distributed.of_first(read_json(path) if path is not None and path.is_file() else {}))

    def decide(self, name: str, value: Any) -> Any:
        """Keep a decision, unless one was made before, which is returned."""
        if name not in self.values:
            self.values[name] = distributed.of_first(value)
            if self.path is not None and distributed.is_first():
                write_json(self.path, self.values)
        return self.values[name]


@dataclass(frozen=True)
class Lesson:
    """What a round learns from, and how."""

    name: str  # of the round: for progress, checkpoint and plan
    sentences: Sequence[Sentence]
    targets: Tensor  # [words, C]
    epochs: int
    lr: float
    batch: int = 16  # sentences
    noise: NoiseConfig = NoiseConfig()
    masked: float = 0.0  # weight of the masked pieces in the loss
    tags: bool = True  # False: only the masked-LM head is trained, and the rest stays as it is
    seed: int = 0


class Round:
    """Trains a student on a lesson."""

    def __init__(
        self, student: Student, lesson: Lesson, plan: Plan, *, folder: Path | None = None, seconds: float = math.inf
    ) -> None:
        """``folder`` receives checkpoints. The round takes about ``seconds`` at most."""
        self.student, self.lesson, self.plan, self.seconds = student, lesson, plan, seconds
        self.precision = student.precision
        self.checkpoint = folder / f"{lesson.name.replace(' ', '-')}.safetensors" if folder is not None else None
        trained = student if lesson.tags else student.masked_head
        assert trained is not None
        self.optimiser = Optimiser(trained, lr=lesson.lr)
        self.targets = lesson.targets.to(student.device)
        self.per_epoch = math.ceil(len(student.encode(lesson.sentences)) / lesson.batch)
        self.total = plan.values.get(f"steps: {lesson.name}", self.per_epoch * lesson.epochs)
        self.progress = Progress()

    def run(self, report: Report = silent) -> None:
        """Train to the end. Ctrl-C finishes the step, writes a checkpoint and raises ``KeyboardInterrupt``."""
        torch.manual_seed(self.lesson.seed)
        if distributed.count() > 1:
            distributed.check_same(self._fingerprint)
        if self.checkpoint is not None and self.checkpoint.is_file():
            _, self.progress = load_checkpoint(self.checkpoint, self.optimiser, self._fingerprint)
        progress, saved = self.progress, time.monotonic()
        started, before = saved, progress.step
        epoch, corpus, batches, worth = -1, None, list[Tensor](), 0.0
        with deferred_interrupt(self.checkpoint is not None) as interrupt:
            while progress.step < self.total:
                if progress.step // self.per_epoch != epoch or corpus is None:
                    epoch = progress.step // self.per_epoch
                    corpus = self._encode(epoch)
                    batches = self._order(corpus, epoch)
                rows = batches[progress.step % self.per_epoch % len(batches)]
                loss = self._step(corpus, rows)
                progress.step += 1
                if progress.step - before <= TRIED and self.seconds < math.inf:
                    worth += self._worth(corpus, rows, batches)
                    if progress.step - before == TRIED:
                        self._fit(time.monotonic() - started, before, worth)
                if progress.step % RELEASE_EVERY == 0:
                    release_memory()
                report(Status(self.lesson.name, progress.step, self.total, {"loss": loss}))
                stop = distributed.any_of(interrupt.is_set(), self.student.device)
                if stop or time.monotonic() - saved > CHECKPOINT_EVERY:
                    self._save()
                    saved = time.monotonic()
                if stop:
                    distributed.wait()  # until the file is there
                    raise KeyboardInterrupt
        self.student.eval()
        self.plan.decide(f"share: {self.lesson.name}", self.total / (self.per_epoch * self.lesson.epochs))

    def _worth(self, corpus: EncodedCorpus, rows: Tensor, batches: list[Tensor]) -> float:
        """How many average batches a batch is worth, by its pieces with padding: its time is about as much."""

        def pieces(own: Tensor) -> int:
            return len(own) * corpus.padded_length(int(corpus.lengths[own].max()) + 2, LENGTH_STEP)

        return pieces(rows) * len(batches) / sum(map(pieces, batches))

    def _fit(self, seconds: float, before: int, worth: float) -> None:
        """Fit the number of steps to the budget, from the time that the first ones took, worth so many average ones."""
        fits = before + TRIED + int((self.seconds - seconds) / seconds * worth)
        self.total = self.plan.decide(f"steps: {self.lesson.name}", max(before + TRIED, min(self.total, fits)))
        if self.lesson.tags and self.total < self.per_epoch:
            few = f"Only {self.total} of the {self.per_epoch} batches fit into the time. Give a larger --budget."
            warnings.warn(few, ZgulWarning, stacklevel=4)

    def _step(self, corpus: EncodedCorpus, rows: Tensor) -> float:
        """One update. A batch of long sentences is computed in parts, because it would take gigabytes at once.

        Several processes share the sentences of each part. What is masked depends on the step, not on the process.
        """
        step, seed, device = self.progress.step, self.lesson.seed, self.student.device
        self.student.train()
        self.optimiser.set_lr(self.lesson.lr * rate_share(step, self.total, WARMUP))
        self.student.zero_grad()
        distributed.seed_step(seed, step)
        draws = torch.Generator(device).manual_seed(seed * 1_000_003 + step)
        total, at_once = torch.zeros((), device=device), self._at_once(int(corpus.lengths[rows].max()) + 2)
        for part in torch.split(rows, at_once):
            length = corpus.padded_length(int(corpus.lengths[part].max()) + 2, LENGTH_STEP)
            loss = self._loss(corpus.batch(part, length), draws) * (len(part) / len(rows))
            if loss.requires_grad:
                loss.backward()
            total += loss.detach()
        self.optimiser.step(total)
        if not math.isfinite(float(total)):
            raise ZgulError(f"The loss is no longer a number in the round {self.lesson.name!r}. Lower --lr.")
        return float(total)

    def _at_once(self, length: int) -> int:
        """How many chunks of this length are computed at once."""
        return max(1, TOKENS[self.student.device.type != "cpu"] // length)

    def _loss(self, batch: Batch, draws: torch.Generator) -> Tensor:
        """The loss of this process's sentences, as a share of the mean over all words of the batch."""
        lesson, student, rows = self.lesson, self.student, distributed.own_part(len(batch))
        masked, own = student.mask(batch, draws=draws) if lesson.masked else None, batch.select(rows)
        loss = torch.zeros((), device=student.device)
        if not len(own):
            return loss
        with mixed_precision(student.device, self.precision):
            with torch.set_grad_enabled(lesson.tags):
                hidden = student.model(masked.batch.select(rows) if masked else own)
            if lesson.tags:
                learnt = self.targets[batch.labels[batch.words]].sum().clamp(min=1.0)
                loss = soft_loss(student.head(hidden[own.words]), self.targets[own.labels[own.words]]) / learnt
            if masked is not None:
                places = masked.places[rows]
                truth = masked.truth[int(masked.places[: rows.start].sum()) :][: int(places.sum())]
                missed = F.cross_entropy(student.guess(hidden[places]).float(), truth, reduction="sum")
                loss = loss + lesson.masked * missed / max(1, len(masked.truth))
        return loss

    def _encode(self, epoch: int) -> EncodedCorpus:
        lesson = self.lesson
        words = noisy_words(lesson.sentences, lesson.noise, np.random.default_rng([lesson.seed, 3, epoch]))
        return self.student.encode(lesson.sentences, words)

    def _order(self, corpus: EncodedCorpus, epoch: int) -> list[Tensor]:
        """All chunks once, in batches of similar length."""
        rng = np.random.default_rng([self.lesson.seed, 5, epoch])
        batches = mixed_batches(corpus.lengths.cpu().numpy(), self.lesson.batch, POOL, rng)
        return [torch.from_numpy(rows).to(self.student.device) for rows in batches]

    def _save(self) -> None:
        if self.checkpoint is not None and distributed.is_first():
            save_checkpoint(self.checkpoint, self.optimiser, {}, self.progress, self._fingerprint)

    @property
    def _fingerprint(self) -> str:
        """A hash of what must stay the same to continue."""
        lesson = self.lesson
        settings = (lesson.name, lesson.epochs, lesson.lr, lesson.batch, lesson.noise, lesson.masked, lesson.seed)
        digest = hashlib.sha256(repr((*settings, self.precision)).encode())
        for sentence in lesson.sentences:
            digest.update(repr((sentence.words, sentence.language)).encode())
        digest.update(lesson.targets.numpy().tobytes())
        return digest.hexdigest()

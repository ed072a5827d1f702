"""Training: epochs of mixed-language batches, model selection on the combined source dev sets, checkpoints."""

import hashlib
import json
import math
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zgul.devices import halving, mixed_precision
from zgul.encoders.batches import EncodedCorpus, Integers, PieceEncoder
from zgul.errors import ZgulError
from zgul.evaluation import Scores, scores
from zgul.files import write_json
from zgul.progress import Report, Status, counter, silent
from zgul.tagger import Tagger
from zgul.training import distributed
from zgul.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from zgul.training.config import TrainingConfig
from zgul.training.labelled_data import LabelledData
from zgul.training.optimiser import Optimiser, Stepper, rate_share

LENGTH_STEP = 16  # batches are padded to a multiple of this, so that few shapes occur
POOL = 50  # batches that are sorted by length together
DEV_TOKENS = (8192, 65536)  # of the dev sets, read at once on a CPU and on a GPU
EMBEDDINGS = "encoder.words.weight"
MAX_TYPES = 1_000_000  # distinct words whose pieces are remembered while training
SLOW_CHECKPOINT = 0.5  # seconds; after a slow one, training goes on for twenty times as long before the next
CHECKPOINT = "checkpoint.safetensors"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
OF_LANGUAGES = ("weighting.vectors.", "weighting.lang2vec.")  # lang2vec's parameters, with a learning rate of their own
ANYWHERE = ("data", "device", "tensorboard")  # options that may change when a run is continued, on another machine
MAY_CHANGE = (*ANYWHERE, "em_by", "em_sentences")  # those of one tagger, whose EM settings are chosen after training


class Trainer:
    """Trains the model of a tagger in place."""

    def __init__(
        self,
        tagger: Tagger,
        data: LabelledData,
        config: TrainingConfig,
        folder: Path | None = None,
        *,
        checkpoint_every: float = 0.0,
    ) -> None:
        """``folder`` receives checkpoints, at most one in ``checkpoint_every`` seconds, and the history.

        Writing large ones takes at most a twentieth of the time.
        """
        self.tagger, self.data, self.config, self.folder = tagger, data, config, folder
        self.checkpoint = folder / CHECKPOINT if folder else None
        self.checkpoint_every, self._saved = checkpoint_every, time.monotonic()
        self.device = tagger.device
        most = min(tagger.parts.encoder.max_pieces, config.max_pieces)
        related = tagger.pieces.related_letters
        self.pieces = PieceEncoder(tagger.pieces.tokenizer, most, related_letters=related, max_types=MAX_TYPES)
        self.table = tagger.language_table(list(data.corpus_of), tagger.method.strategies[0])
        self.batch_rows = config.batch_size * config.accumulate
        on_gpu = self.device.type == "cuda"
        train = data.encode(data.train, self.pieces, self.table)
        shares = dict.fromkeys(OF_LANGUAGES, config.language_lr)
        used = torch.unique(torch.cat([train.pieces, torch.tensor(train.specials)]))
        rows = {} if data.noise else {EMBEDDINGS: used.long().to(self.device)}  # noise makes other pieces
        settings: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay, "clip": config.clip}
        self.optimiser = Optimiser(tagger.model, **settings, shares=shares, rows=rows)
        micro = self.batch_rows if on_gpu else config.batch_size  # the same sum; a GPU is faster on all at once
        self.stepper = Stepper(tagger.model, self.optimiser, data.allowed.to(self.device), micro, config.precision)
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.dev = data.encode(data.dev, self.pieces, self.table).to(self.device)
        self.dev_tokens = DEV_TOKENS[on_gpu]
        self.gold = [sentence.tags or [] for sentence in data.dev]
        self.steps_per_epoch = math.ceil(len(train) / self.batch_rows)
        self.total_steps = self.steps_per_epoch * config.rounds

    def resume(self) -> bool:
        """Restore the state of the checkpoint. False if there is none."""
        if self.checkpoint is None or not self.checkpoint.is_file():
            return False
        self.best, self.progress = load_checkpoint(self.checkpoint, self.optimiser, self._fingerprint)
        return True

    def run(self, report: Report = silent) -> list[dict[str, Any]]:
        """Train to the end, or to an early stop. The selected weights are left in the model.

        Ctrl-C finishes the current step, writes a checkpoint and raises ``KeyboardInterrupt``. The last checkpoint
        stays. The caller removes it after saving the tagger.
        """
        if distributed.count() > 1:
            distributed.check_same(self._fingerprint)
        encode = partial(self.data.encode_epoch, self.pieces, self.table, self.config.seed)
        with ThreadPoolExecutor(1) as background, deferred_interrupt(self.checkpoint is not None) as interrupt:
            prepared = background.submit(encode, self.progress.epoch)
            while self.progress.epoch < self.config.rounds and not self._stale():
                epoch = prepared.result().to(self.device)
                if self.progress.epoch + 1 < self.config.rounds:
                    prepared = background.submit(encode, self.progress.epoch + 1)
                if not self._train_epoch(epoch, report, interrupt):
                    break
                self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
            if self.best:
                self.optimiser.load(self.best)
            if self.config.select == "average" and self.data.dev:
                self.progress.best_f1 = distributed.of_first(self.dev_scores(report).f1)
        self.tagger.model.eval()
        return self.progress.history

    def _train_epoch(self, corpus: EncodedCorpus, report: Report, interrupt: threading.Event) -> bool:
        """Train one epoch. False if training must stop early."""
        progress = self.progress
        batches = self._order(corpus, progress.epoch)
        if self._due(len(batches)) and not self._evaluate(report):  # the run was stopped in this evaluation
            return False
        running = torch.tensor(progress.loss, device=self.device)
        for rows, length in batches[progress.batch :]:
            self.tagger.model.train()
            share = rate_share(progress.step, self.total_steps, self.config.warmup)
            self.optimiser.set_lr(self.config.lr * share)
            distributed.seed_step(self.config.seed, progress.step)
            running += self.stepper.step(corpus.batch(rows, length))
            progress.counted += 1
            progress.step += 1
            progress.batch += 1
            if self._due(len(batches)):
                progress.loss = float(running)
                if not self._evaluate(report):
                    return False
                running = torch.zeros_like(running)
            elif self.device.type == "cpu" or progress.counted % 20 == 0:  # reading the loss waits for the GPU
                report(Status("training", progress.step, self.total_steps, {"loss": float(running) / progress.counted}))
            if distributed.any_of(interrupt.is_set(), self.device):
                progress.loss = float(running)
                self._save(now=True)
                distributed.wait()  # until the file is there
                raise KeyboardInterrupt
        progress.loss = float(running)
        return True

    def _due(self, batches: int) -> bool:
        """Whether to evaluate now. After an evaluation, the count of steps is 0."""
        every = self.config.eval_every or self.steps_per_epoch
        last = self.progress.batch == batches and self.progress.epoch + 1 == self.config.rounds
        return self.progress.counted > 0 and (self.progress.step % every == 0 or last)

    def _evaluate(self, report: Report) -> bool:
        """Score the dev sets and keep the best weights. False if training must stop early."""
        progress = self.progress
        loss = progress.loss / progress.counted
        if not math.isfinite(loss):
            step, lr = progress.step, self.config.lr
            raise ZgulError(f"The loss is no longer a number at step {step}. Lower --lr (now {lr:g}).")
        self._save()  # whatever happens in the evaluation, no step is lost
        f1 = distributed.of_first(self.dev_scores(report).f1) if self.data.dev else 0.0
        progress.loss, progress.counted = 0.0, 0
        progress.history.append({"step": progress.step, "epoch": progress.epoch + 1, "loss": loss, "dev_f1": f1})
        if self.config.select == "average" and 2 * (progress.epoch + 1) > self.config.rounds:
            self._average()
        if f1 > progress.best_f1 or not self.data.dev:  # without dev data the last weights are the best
            progress.best_f1, progress.stale = f1, 0
            if self.config.select == "best":
                self.best = {name: value.detach().clone() for name, value in self.optimiser.weights.items()}
        else:
            progress.stale += 1
        # before the checkpoint, because a run that is killed between them would never write it
        if self.folder and distributed.is_first():
            write_json(self.folder / "history.json", progress.history)
        self._save()
        figures = {"loss": loss} | ({"dev F1": f1, "best": progress.best_f1} if self.data.dev else {})
        report(Status("training", progress.step, self.total_steps, figures))
        return not self._stale()

    @torch.no_grad()
    def _average(self) -> None:
        """Take the weights into the mean of those at the evaluations of the second half."""
        count = sum(2 * entry["epoch"] > self.config.rounds for entry in self.progress.history)
        if count == 1:
            self.best = {name: value.detach().clone() for name, value in self.optimiser.weights.items()}
        for name, mean in self.best.items():
            mean.lerp_(self.optimiser.weights[name].to(mean.dtype), 1 / count)

    def _stale(self) -> bool:
        return bool(self.config.patience and self.progress.stale >= self.config.patience)

    def _save(self, *, now: bool = False) -> None:
        started = time.monotonic()
        due = now or started - self._saved >= self.checkpoint_every
        if self.checkpoint and due and distributed.is_first():
            save_checkpoint(self.checkpoint, self.optimiser, self.best, self.progress, self._fingerprint)
            self._saved = time.monotonic()
            if (took := self._saved - started) > SLOW_CHECKPOINT:
                self.checkpoint_every = max(self.checkpoint_every, 20 * took)

    @torch.no_grad()
    def dev_scores(self, report: Report = silent) -> Scores:
        """F1 on the combined dev sets of the sources, without EM."""
        advice = "use a device with more memory (--device cpu)"
        predicted, self.dev_tokens = halving(partial(self._predict, report), self.dev_tokens, "tokens", advice)
        labels = np.array(self.tagger.labels)[self.dev.by_word(predicted).numpy()]
        tags = np.split(labels, np.cumsum(self.dev.sentence_sizes)[:-1])
        return scores(self.gold, [row.tolist() for row in tags])

    def _predict(self, report: Report, tokens: int) -> Tensor:
        """The best label of each piece of the dev sets [P], in batches of this many tokens."""
        model = self.tagger.model.eval()
        predicted = torch.zeros(len(self.dev.pieces), dtype=torch.long, device=self.device)
        count = counter(report, "dev sets", len(self.dev))
        for batch in self.dev.batches(tokens, multiple=LENGTH_STEP):
            with mixed_precision(self.device, self.config.precision):
                logits = model(batch)
            self.dev.scatter(predicted, batch, logits.argmax(dim=-1))
            count(len(batch))
        return predicted

    def _order(self, corpus: EncodedCorpus, epoch: int) -> list[tuple[Tensor, int]]:
        """All chunks once, in batches of one size and similar length with mixed languages. -1 fills the last batch."""
        rng = np.random.default_rng([self.config.seed, 7, epoch])
        lengths, size = corpus.lengths.cpu().numpy(), self.batch_rows
        batches = mixed_batches(lengths, size, POOL, rng)
        longest = [corpus.padded_length(int(lengths[rows].max()) + 2, LENGTH_STEP) for rows in batches]
        if self.device.type == "cuda":  # graphs need one shape
            batches = [np.pad(rows, (0, size - len(rows)), constant_values=-1) for rows in batches]
        # one copy to the device: one for each batch would wait for the step before it
        together = torch.from_numpy(np.concatenate(batches)).to(self.device)
        return list(zip(torch.split(together, [len(rows) for rows in batches]), longest, strict=True))

    @cached_property
    def _fingerprint(self) -> str:
        """A hash of what must stay the same to continue a checkpoint: the configuration and the sentences."""
        settings = [self.config.to_dict() | dict.fromkeys(MAY_CHANGE, ""), list(self.tagger.labels)]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for sentences in (self.data.train, self.data.dev):
            for sentence in sentences:
                parts = (sentence.words, sentence.tags, sentence.language, sentence.word_languages)
                digest.update(repr(parts).encode())
            digest.update(b"\n")
        return digest.hexdigest()


def mixed_batches(lengths: Integers, size: int, pool: int, rng: np.random.Generator) -> list[Integers]:
    """All places of ``lengths`` once, in batches of similar length: those of a ``pool`` of batches are sorted."""
    order = rng.permutation(len(lengths))
    pools = [order[start : start + size * pool] for start in range(0, len(order), size * pool)]
    ordered = [own[np.argsort(lengths[own], kind="stable")] for own in pools]
    batches = [own[at : at + size] for own in ordered for at in range(0, len(own), size)]
    return [batches[index] for index in rng.permutation(len(batches))]


@contextmanager
def deferred_interrupt(wanted: bool = True) -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C sets (half a step cannot be resumed). The second one interrupts at once."""
    event = threading.Event()
    if not wanted or threading.current_thread() is not threading.main_thread():  # which alone receives signals
        yield event
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    # Ctrl-C stays ignored if the parent ignores it (nohup); handlers that are not Python's cannot be restored
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def receive(number: int, frame: FrameType | None) -> None:
        event.set()
        restore()

    for number in before:
        signal.signal(number, receive)
    try:
        yield event
    finally:
        restore()

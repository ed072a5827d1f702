"""Training: epochs of mixed-language batches, model selection on the combined source dev sets, checkpoints."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zgul.corpora.encode import EncodedCorpus, PieceEncoder
from zgul.errors import ZgulError
from zgul.evaluation import Scores, scores
from zgul.methods.tagger import Tagger
from zgul.precision import autocast
from zgul.tensors import write_json
from zgul.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from zgul.training.config import TrainingConfig
from zgul.training.data import LabelledData
from zgul.training.interrupt import deferred_interrupt
from zgul.training.memory import fitting
from zgul.training.stepper import Stepper, half_frozen

LENGTH_STEP = 16  # batches are padded to a multiple of this, so that few shapes occur
CHECKPOINT = "checkpoint.safetensors"
POOL = 50  # batches that are sorted by length together

Report = Callable[[dict[str, Any]], None]


def seed_everything(seed: int) -> None:
    """New parameters, dropout and order of batches follow from this."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - libraries may still draw from it


class Trainer:
    """Trains a tagger in place."""

    def __init__(self, tagger: Tagger, data: LabelledData, config: TrainingConfig, folder: Path | None = None) -> None:
        self.tagger, self.data, self.config, self.folder = tagger, data, config, folder
        self.device = tagger.device
        # the tagger's own encoder of pieces keeps the limit that it will have when it is loaded again
        most = min(tagger.parts.encoder.max_pieces, config.max_pieces)
        self.pieces = PieceEncoder(tagger.tokenizer, most, kin_letters=tagger.pieces.kin_letters)
        self.rows = tagger.prepare(tagger.parts.sources, tagger.method.strategies[0])
        self.stepper = Stepper(
            tagger.model,
            data.allowed.to(self.device),
            lr=config.lr,
            weight_decay=config.weight_decay,
            clip=config.clip,
            precision=config.precision,
            micro=config.batch_size,
            language_lr=config.language_lr,
        )
        self.batch_rows = config.batch_size * config.accumulate
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.dev = data.encode(data.dev, self.pieces, self.rows).to(self.device)
        self.dev_tokens = 65536 if self.device.type == "cuda" else 8192  # read at once
        self.gold = [sentence.tags or [] for sentence in data.dev]
        chunks = len(data.encode(data.train, self.pieces, self.rows))
        self.steps_per_epoch = math.ceil(chunks / self.batch_rows)
        self.total_steps = self.steps_per_epoch * config.rounds

    @property
    def checkpoint(self) -> Path | None:
        return self.folder / CHECKPOINT if self.folder else None

    def resume(self) -> bool:
        """Go back to where the checkpoint stands; False where there is none."""
        if self.checkpoint is None or not self.checkpoint.is_file():
            return False
        self.best, self.progress = load_checkpoint(
            self.checkpoint, self.tagger.model, self.tagger.trained, self.stepper.optimizer, self._fingerprint
        )
        return True

    def run(self, *, resume: bool = False, report: Report | None = None) -> list[dict[str, Any]]:
        """Train to the end, or to an early stop; leaves the selected weights in the tagger.

        Ctrl-C leaves a checkpoint of the step it fell in and raises ``KeyboardInterrupt``. The last checkpoint stays:
        whoever saves the tagger removes it.
        """
        if resume:
            self.resume()
        started = time.monotonic()
        with (
            ThreadPoolExecutor(1) as background,
            deferred_interrupt(self.checkpoint is not None) as interrupt,
            half_frozen(self.tagger.model, self.device, self.config.precision),
        ):
            prepared = background.submit(self._epoch, self.progress.epoch)
            while self.progress.epoch < self.config.rounds and not self._stale():
                epoch = prepared.result().to(self.device)
                if self.progress.epoch + 1 < self.config.rounds:
                    prepared = background.submit(self._epoch, self.progress.epoch + 1)
                if not self._train_epoch(epoch, started, report, interrupt):
                    break
                self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
        if self.config.select == "best" and self.best:
            self._restore(self.best)
        return self.progress.history

    def _epoch(self, epoch: int) -> EncodedCorpus:
        return self.data.encode_epoch(self.pieces, self.rows, self.config.seed, epoch)

    def _train_epoch(
        self, corpus: EncodedCorpus, started: float, report: Report | None, interrupt: threading.Event
    ) -> bool:
        """False when training is to stop early."""
        progress = self.progress
        batches = self._order(corpus, progress.epoch)
        if self._due(len(batches)) and not self._evaluate(started, report):  # stopped in this evaluation, and resumed
            return False
        running = torch.tensor(progress.loss, device=self.device)
        for rows, length in batches[progress.batch :]:
            self.tagger.model.train()
            self.stepper.set_lr(self._lr(progress.step))
            running += self.stepper.step(corpus.batch(rows, length))
            progress.counted += 1
            progress.step += 1
            progress.batch += 1
            if self._due(len(batches)):
                progress.loss = float(running)
                if not self._evaluate(started, report):
                    return False
                running = torch.zeros_like(running)
            elif report is not None and (self.device.type == "cpu" or progress.counted % 10 == 0):
                report(self._status(started) | {"loss": float(running / progress.counted)})
            if interrupt.is_set():
                progress.loss = float(running)
                self._save()
                raise KeyboardInterrupt
        progress.loss = float(running)
        return True

    def _due(self, batches: int) -> bool:
        """Whether an evaluation is to come now; after it no step is counted any more."""
        every = self.config.eval_every or self.steps_per_epoch
        last = self.progress.batch == batches and self.progress.epoch + 1 == self.config.rounds
        return self.progress.counted > 0 and (self.progress.step % every == 0 or last)

    def _evaluate(self, started: float, report: Report | None) -> bool:
        """False when training is to stop early."""
        loss = self.progress.loss / self.progress.counted
        if not math.isfinite(loss):
            raise ZgulError(
                f"the loss is no longer a number at step {self.progress.step}; lower --lr (now {self.config.lr:g})"
            )
        self._save()  # whatever happens in the evaluation, no step is lost
        progress = self.progress
        f1 = self.dev_scores(report).f1 if self.data.dev else 0.0
        progress.loss, progress.counted = 0.0, 0
        entry = {"step": progress.step, "epoch": progress.epoch + 1, "loss": loss, "dev_f1": f1}
        progress.history.append(entry)
        if f1 > progress.best_f1 or not self.data.dev:  # without dev data the last are the best
            progress.best_f1, progress.best_step, progress.stale = f1, progress.step, 0
            if self.config.select == "best":
                self.best = {name: value.detach().clone() for name, value in self._trained()}
        else:
            progress.stale += 1
        self._save()
        if self.folder:
            write_json(self.folder / "history.json", progress.history)
        if report is not None:
            report(self._status(started) | entry | {"best_f1": progress.best_f1})
        return not self._stale()

    def _stale(self) -> bool:
        return bool(self.config.patience and self.progress.stale >= self.config.patience)

    def _save(self) -> None:
        if self.checkpoint:
            save_checkpoint(
                self.checkpoint,
                self.tagger.model,
                self.tagger.trained,
                self.stepper.optimizer,
                self.best,
                self.progress,
                self._fingerprint,
            )

    @torch.no_grad()
    def dev_scores(self, report: Report | None = None) -> Scores:
        """F1 on the combined dev sets of the sources, without EM."""
        predicted, self.dev_tokens = fitting(lambda tokens: self._predict(tokens, report), self.dev, self.dev_tokens)
        labels = self.tagger.labels
        tags = [[labels[int(tag)] for tag in row] for row in self.dev.by_sentence(predicted)]
        return scores(self.gold, tags)

    def _predict(self, tokens: int, report: Report | None) -> Tensor:
        """The best label of each piece of the dev sets [P], in batches of so many tokens."""
        model = self.tagger.model
        model.eval()
        predicted = torch.zeros(len(self.dev.pieces), dtype=torch.int16, device=self.device)
        done = 0
        for batch in self.dev.batches(tokens, LENGTH_STEP):
            with autocast(self.device, self.config.precision):
                logits = model(batch)
            self.dev.scatter(predicted, batch, logits.argmax(dim=-1))
            done += len(batch.rows)
            if report is not None:
                report({"stage": "dev sets", "done": done, "total": len(self.dev)})
        return predicted

    def _order(self, corpus: EncodedCorpus, epoch: int) -> list[tuple[Tensor, int]]:
        """All chunks once in batches of one size and similar length, languages mixed; -1 fills the last."""
        rng = np.random.default_rng([self.config.seed, 7, epoch])
        lengths = corpus.lengths.cpu().numpy() + 2
        order = rng.permutation(len(lengths))
        size = self.batch_rows
        batches = []
        for start in range(0, len(order), size * POOL):
            pool = order[start : start + size * POOL]
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            batches += [pool[at : at + size] for at in range(0, len(pool), size)]
        batches = [batches[index] for index in rng.permutation(len(batches))]
        longest = [int(-(-int(lengths[rows].max()) // LENGTH_STEP) * LENGTH_STEP) for rows in batches]
        if self.device.type == "cuda":  # graphs want one shape
            batches = [np.pad(rows, (0, size - len(rows)), constant_values=-1) for rows in batches]
        # in one copy to the device: one for each batch would wait for the step before it
        together = torch.from_numpy(np.concatenate(batches)).to(self.device)
        return list(zip(torch.split(together, [len(rows) for rows in batches]), longest, strict=True))

    def _lr(self, step: int) -> float:
        """Linear warm-up, linear decay."""
        warm = self.config.warmup * self.total_steps
        if step < warm:
            return self.config.lr * (step + 1) / warm
        return self.config.lr * max(0.0, (self.total_steps - step) / max(1.0, self.total_steps - warm))

    def _status(self, started: float) -> dict[str, Any]:
        return {"step": self.progress.step, "steps": self.total_steps, "seconds": time.monotonic() - started}

    def _trained(self) -> Iterator[tuple[str, Tensor]]:
        own = dict(self.tagger.model.named_parameters())
        return ((name, own[name]) for name in self.tagger.trained)

    @torch.no_grad()
    def _restore(self, weights: dict[str, Tensor]) -> None:
        for name, value in self._trained():
            value.copy_(weights[name])

    @cached_property
    def _fingerprint(self) -> str:
        """What must be the same for a checkpoint to be continued: the configuration and the sentences themselves."""
        free = dict.fromkeys(("data", "device", "tensorboard", "em_by", "em_sentences"), "")
        told = json.dumps([self.config.to_dict() | free, self.tagger.labels], sort_keys=True)
        found = hashlib.sha256(told.encode())
        for sentences in (self.data.train, self.data.dev):
            for sentence in sentences:
                found.update(repr((sentence.words, sentence.tags, sentence.language, sentence.word_languages)).encode())
            found.update(b"\n")
        return found.hexdigest()

"""One optimiser step: cross-entropy on the first pieces of words, clipping, AdamW.

On a GPU the whole step (forward, backward, clipping, update) is replayed as a CUDA graph. On the CPU it runs as
written; when memory runs out the batch is halved and the step is taken again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F

from zgul.corpora.encode import IGNORED, Batch
from zgul.devices import out_of_memory
from zgul.errors import ZgulError, ZgulWarning
from zgul.graphs import GraphedStep
from zgul.methods.model import Model
from zgul.precision import autocast, uses_bf16


def tagging_loss(model: Model, batch: Batch, allowed: Tensor) -> Tensor:
    """Summed cross-entropy of the annotated words; labels that the sentence's corpus does not annotate are out."""
    logits = model(batch).float()  # [B, T, C]
    logits = logits.masked_fill(~allowed[batch.corpus][:, None], -torch.inf)
    return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED, reduction="sum")


@contextmanager
def half_frozen(model: Model, device: torch.device, precision: str) -> Iterator[None]:
    """Where matrices are multiplied in bf16 anyway, hold what is frozen so: no casts, half the memory to move."""
    frozen = [p for p in model.parameters() if not p.requires_grad] if uses_bf16(device, precision) else []
    exact = [p.data for p in frozen]
    for parameter in frozen:
        parameter.data = parameter.data.to(torch.bfloat16)
    try:
        yield
    finally:
        for parameter, data in zip(frozen, exact, strict=True):
            parameter.data = data


class Stepper:
    """Takes optimiser steps on batches."""

    def __init__(
        self,
        model: Model,
        allowed: Tensor,
        *,
        lr: float,
        weight_decay: float,
        clip: float,
        precision: str,
        micro: int,
        language_lr: float = 1.0,
    ) -> None:
        self.model = model
        self.allowed = allowed
        self.clip = clip
        self.precision = precision
        self.micro = micro  # sentences in one forward
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.device = self.parameters[0].device
        graphs = self.device.type == "cuda"
        groups = []
        for share, parameters in _groups(model, language_lr):
            rate = torch.tensor(lr * share, device=self.device) if graphs else lr * share
            groups.append({"params": parameters, "lr": rate, "share": share})
        self.optimizer = torch.optim.AdamW(groups, lr=lr, weight_decay=weight_decay, fused=graphs, capturable=graphs)
        self._step = GraphedStep(lambda **tensors: self._update(Batch(**tensors)))

    def set_lr(self, lr: float) -> None:
        """Change the learning rate without touching captured graphs."""
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr * group["share"])
            else:
                group["lr"] = lr * group["share"]

    def step(self, batch: Batch) -> Tensor:
        """One update; gives the mean loss of the words."""
        while True:
            try:
                return self._step(**vars(batch))
            except (RuntimeError, MemoryError) as error:
                self._halve(error)

    def _halve(self, error: BaseException) -> None:
        """Make room, or give the error on."""
        if not out_of_memory(error):
            raise error
        if self.micro == 1:
            raise ZgulError("out of memory even with one sentence at a time; lower max_pieces") from error
        self.micro //= 2
        warnings.warn(f"out of memory: going on with {self.micro} sentences at a time", ZgulWarning, stacklevel=2)

    def _update(self, batch: Batch) -> Tensor:
        self.optimizer.zero_grad()  # a captured step makes its gradients anew in each replay
        words = (batch.labels != IGNORED).sum().clamp(min=1)
        total = torch.zeros((), device=self.device)
        for start in range(0, len(batch.rows), self.micro):
            part = Batch(**{name: value[start : start + self.micro] for name, value in vars(batch).items()})
            with autocast(self.device, self.precision):
                loss = tagging_loss(self.model, part, self.allowed) / words
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimizer.step()
        return total


def _groups(model: Model, language_lr: float) -> Iterator[tuple[float, list[Parameter]]]:
    """What is trained, by its share of the learning rate: lang2vec (language vectors and W_L), and everything else."""
    trained = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    of_languages = ("weighting.vectors.", "weighting.lang2vec.")
    for share, slow in ((1.0, False), (language_lr, True)):
        parameters = [value for name, value in trained if name.startswith(of_languages) is slow]
        if parameters:
            yield share, parameters

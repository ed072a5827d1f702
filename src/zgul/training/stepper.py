"""One optimiser step: cross-entropy on the first pieces of words.

On a GPU the whole step is replayed as a CUDA graph. When memory runs out, the batch is computed in smaller parts.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from zgul.devices import halving, mixed_precision
from zgul.encoders.batches import IGNORED, Batch
from zgul.fast.graphs import GraphedStep
from zgul.methods.model import Model
from zgul.training.optimiser import Optimiser


def tagging_loss(model: Model, batch: Batch, allowed: Tensor) -> Tensor:
    """Summed cross-entropy of the annotated words. Labels that the sentence's corpus does not annotate are left out."""
    logits = model(batch).float()  # [B, T, C]
    logits = logits.masked_fill(~allowed[batch.corpora][:, None], -torch.inf)
    return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED, reduction="sum")


class Stepper:
    """Takes optimiser steps on batches."""

    def __init__(
        self, model: Model, optimiser: Optimiser, allowed: Tensor, micro: int, precision: str = "float32"
    ) -> None:
        """``allowed`` [corpora, C] tells which labels a corpus annotates; ``micro`` sentences are computed at once."""
        self.model, self.optimiser, self.allowed, self.micro = model, optimiser, allowed, micro
        self.precision = precision
        self._step = GraphedStep(self._update)

    def step(self, batch: Batch) -> Tensor:
        """One update. Returns the mean loss of the words."""
        advice = "lower max_pieces, or use a device with more memory"
        loss, self.micro = halving(lambda micro: self._step(micro, **vars(batch)), self.micro, "sentences", advice)
        return loss

    def _update(self, micro: int, **tensors: Tensor) -> Tensor:
        batch = Batch(**tensors)
        self.model.zero_grad()  # a captured step makes its gradients anew in each replay
        words = (batch.labels != IGNORED).sum().clamp(min=1)
        total = torch.zeros((), device=words.device)
        for start in range(0, len(batch), micro):
            part = batch if micro >= len(batch) else batch.select(slice(start, start + micro))
            with mixed_precision(words.device, self.precision):
                loss = tagging_loss(self.model, part, self.allowed) / words
            loss.backward()
            total += loss.detach()
        self.optimiser.step()
        return total

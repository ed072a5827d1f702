"""One optimiser step: cross-entropy on the first pieces of words, clipped gradients, AdamW."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.devices import halving, mixed_precision
from zgul.encoders.batches import IGNORED, Batch
from zgul.fast.graphs import GraphedStep
from zgul.methods.model import Model
from zgul.training import distributed

CPU_PIECES = 1024  # that are computed at once on a CPU: each takes a megabyte, and more at once is not faster
Shares = Mapping[str, float]  # the beginning of a parameter's name -> its share of the learning rate


class Optimiser:
    """Updates the trained parameters of a model. Captured graphs see changes of its learning rate.

    ``rows`` has, for a parameter, the rows that may get a gradient. The others never change without weight decay, so
    ``weights``, AdamW's state and checkpoints hold a copy of these rows alone: of 250,000 pieces a text uses a few.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        lr: float,
        weight_decay: float = 0.0,
        clip: float = 1.0,
        shares: Shares | None = None,
        rows: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.clip, self.shares = clip, shares or {}
        self.weights: dict[str, Tensor] = {name: v for name, v in model.named_parameters() if v.requires_grad}
        chosen = {name: index for name, index in (rows or {}).items() if name in self.weights and not weight_decay}
        self.rows = {name: (self.weights[name], index) for name, index in chosen.items()}
        self.weights |= {name: nn.Parameter(whole.detach()[index]) for name, (whole, index) in self.rows.items()}
        device = next(iter(self.weights.values())).device
        on_gpu = device.type == "cuda"
        groups = []
        for share in sorted({self._share(name) for name in self.weights}, reverse=True):
            own = [value for name, value in self.weights.items() if self._share(name) == share]
            rate = torch.tensor(lr * share, device=device) if on_gpu else lr * share
            groups.append({"params": own, "lr": rate, "share": share})
        self.adamw = torch.optim.AdamW(groups, lr=lr, weight_decay=weight_decay, fused=on_gpu, capturable=on_gpu)

    def _share(self, name: str) -> float:
        return next((share for start, share in self.shares.items() if name.startswith(start)), 1.0)

    @property
    def optimised(self) -> list[Tensor]:
        """The parameters in AdamW's order."""
        return [value for group in self.adamw.param_groups for value in group["params"]]

    def set_lr(self, lr: float) -> None:
        for group in self.adamw.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr * group["share"])
            else:
                group["lr"] = lr * group["share"]

    def step(self, loss: Tensor) -> None:
        """Update the weights. Several processes first add up their gradients and, in place, their ``loss``."""
        for name, (whole, index) in self.rows.items():
            self.weights[name].grad = whole.grad[index] if whole.grad is not None else None
            whole.grad = None
        distributed.sum_gradients(self.optimised, loss)
        nn.utils.clip_grad_norm_(self.weights.values(), self.clip)
        self.adamw.step()
        self._write_rows()

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        for name, value in weights.items():
            self.weights[name].copy_(value)
        self._write_rows()

    @torch.no_grad()
    def _write_rows(self) -> None:
        for name, (whole, index) in self.rows.items():
            whole.index_copy_(0, index, self.weights[name])


def rate_share(step: int, total: int, warmup: float) -> float:
    """The share of the learning rate in a step: it rises to 1 in the first ``warmup`` of all steps, then falls to 0."""
    warm = warmup * total
    return min(1.0, (step + 1) / max(1.0, warm), max(0, total - step) / max(1.0, total - warm))


def tagging_loss(model: Model, batch: Batch, allowed: Tensor) -> Tensor:
    """Summed cross-entropy of the annotated words. Labels that the sentence's corpus does not annotate are left out."""
    logits = model(batch).float()  # [B, T, C]
    logits = logits.masked_fill(~allowed[batch.corpora][:, None], -torch.inf)
    return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED, reduction="sum")


class Stepper:
    """Takes optimiser steps on batches, on a GPU as CUDA graphs. When memory runs out, a batch is computed in parts."""

    def __init__(self, model: Model, optimiser: Optimiser, allowed: Tensor, micro: int, precision: str) -> None:
        """``allowed`` [corpora, C] tells which labels a corpus annotates; ``micro`` sentences are computed at once."""
        self.model, self.optimiser, self.allowed = model, optimiser, allowed
        self.micro, self.precision = micro, precision
        self._step = GraphedStep(self._update, most=None if distributed.count() == 1 else 0)

    def step(self, batch: Batch) -> Tensor:
        """One update. Returns the mean loss of the words."""
        advice = "lower max_pieces, or use a device with more memory"
        loss, self.micro = halving(lambda micro: self._step(micro, **vars(batch)), self.micro, "sentences", advice)
        return loss

    def _update(self, micro: int, **tensors: Tensor) -> Tensor:
        batch = Batch(**tensors)
        self.model.zero_grad()  # a captured step creates its gradients again in each replay
        words = (batch.labels != IGNORED).sum().clamp(min=1)
        total = torch.zeros((), device=words.device)
        own = batch if distributed.count() == 1 else batch.select(distributed.own_part(len(batch)))
        if words.device.type == "cpu":
            micro = min(micro, max(1, CPU_PIECES // batch.mask.shape[1]))
        for start in range(0, len(own), micro):
            part = own if micro >= len(own) else own.select(slice(start, start + micro))
            with mixed_precision(words.device, self.precision):
                loss = tagging_loss(self.model, part, self.allowed) / words
            loss.backward()
            total += loss.detach()
        self.optimiser.step(total)
        return total

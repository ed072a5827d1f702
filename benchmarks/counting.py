"""The floor of a row: the operations and bytes that cannot be avoided, counted by hand from the shapes.

Operations are those of matrix products on real tokens, two for each multiply-add; padding, norms and activations count
as nothing. Bytes are the weights, read once for each pass over a batch. Per token and layer, in multiply-adds:

    encoder         4 d² + 2 d F, and 2 d for each position attended to
    bank            N r d into the bottlenecks, then the cheaper of
                      every adapter's output, mixed, projected:   N r d + K d²   (scores: d²)
                      the same where P_1 is the identity:         N r d + (K - 1) d²
                      bottlenecks scaled, one product out:        K N r d        (scores: N r d)
    task adapter    2 d t
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from zgul.ensemble.weighting import SAFE, Folded
from zgul.methods.model import Model


@dataclass(frozen=True)
class Shape:
    """The sizes that decide how much there is to compute."""

    width: int  # d
    depth: int
    inner: int  # F
    labels: int
    adapters: int = 0  # N
    size: int = 0  # r
    views: int = 2  # K
    task: int = 0  # t
    turned: bool = False  # into coordinates in which P_1 is the identity

    @classmethod
    def of(cls, model: Model) -> Shape:
        bank, task = model.bank, model.task
        return cls(
            width=model.encoder.width,
            depth=model.encoder.depth,
            inner=model.encoder.model.config.intermediate_size,
            labels=len(model.labels),
            adapters=len(bank) if bank is not None else 0,
            size=max((adapter.size for adapter in bank.adapters), default=0) if bank is not None else 0,
            views=len(model.weighting.views) if model.weighting is not None else 0,
            task=int(task[0].get_parameter("down.bias").numel()) if len(task) else 0,
            turned=isinstance(model.weighting, Folded) and model.weighting.condition < SAFE[torch.float32],
        )

    def encoder(self, length: float) -> float:
        d = self.width
        return 4 * d * d + 2 * d * self.inner + 2 * d * length

    def bank(self, scores: bool) -> float:
        """From the adapters' input to what is added to f; with or without computing the scores."""
        d, one = self.width, self.adapters * self.size * self.width
        apart = one + (self.views - self.turned) * d * d + (d * d if scores else 0)
        inside = self.views * one + (one if scores else 0)
        return one + min(apart, inside) if self.adapters else 0.0

    def after(self) -> float:
        return 2 * self.width * self.task


def forward_flops(shape: Shape, lengths: list[int]) -> float:
    """One forward pass over sentences of these lengths."""
    per_layer = sum(n * (shape.encoder(n) + shape.bank(scores=True) + shape.after()) for n in lengths)
    return 2 * (shape.depth * per_layer + sum(lengths) * shape.width * shape.labels)


def em_flops(shape: Shape, lengths: list[int], steps: int) -> float:
    """Entropy minimisation: T + 1 forward passes, T backward ones to the scores.

    Of the first layer everything before the mix is computed once; a backward pass costs as much as a forward one, and
    nothing of it lies before the first layer's mix.
    """
    passes = 2 * steps + 1
    d, one = shape.width, shape.adapters * shape.size * shape.width
    mix = min(one + (shape.views - shape.turned) * d * d, shape.views * one)  # from the bottlenecks to z
    first = sum(n * (shape.encoder(n) + one) for n in lengths) + passes * sum(lengths) * (mix + shape.after())
    rest = (shape.depth - 1) * sum(
        n * (shape.encoder(n) + one + mix + shape.after()) * passes + n * (shape.bank(True) - shape.bank(False))
        for n in lengths
    )
    return 2 * (first + rest + passes * sum(lengths) * d * shape.labels)


def training_flops(shape: Shape, lengths: list[int], *, encoder: bool) -> float:
    """One step: forward, backward to the activations, and the gradients of the matrices that are trained."""
    forward = forward_flops(shape, lengths)
    if encoder:  # every matrix
        return 3 * forward
    d = shape.width
    trained = (2 * d * d if shape.adapters else 0) + (1 + shape.views) * d * d * bool(shape.adapters) + shape.after()
    frozen = 2 * sum(n * shape.encoder(n) for n in lengths)  # the first layer's attention and FFN need no backward
    return 2 * forward - frozen + 2 * shape.depth * sum(lengths) * trained


def weight_bytes(model: nn.Module) -> int:
    """All weights of the layers, once; an embedding table is looked up, not read.

    ``Encoder.joined`` holds again what is in the layers.
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return sum(p.nbytes for name, p in model.named_parameters() if id(p) not in tables and ".joined." not in name)

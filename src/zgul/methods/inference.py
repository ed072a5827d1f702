"""Inference in plain code: a model, a batch and, perhaps, EM, to label scores and adapter weights.

`zgul.fast` computes the same faster.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from zgul.encoders.batches import Batch
from zgul.ensemble.em import PADDED, Alpha, EMConfig, minimise_entropy
from zgul.methods.model import Model


@dataclass
class Inferred:
    """What a model says of a batch. The weights are given where they were asked for, as means over the layers."""

    logits: Tensor  # [B, T, C]
    before: Tensor | None = None  # [B, T, K, N] weights before EM
    after: Tensor | None = None  # and after it


def infer(model: Model, batch: Batch, em: EMConfig | None = None, weights: bool = False) -> Inferred:
    """Label scores of a batch; after entropy minimisation if ``em`` asks for it and the model has a bank."""
    if model.bank is None or (not weights and (em is None or em.steps == 0)):
        with torch.no_grad():
            return Inferred(model(batch))
    config = em or EMConfig(steps=0)
    length = batch.input_ids.shape[1]
    if config.positions == "all":  # as the release pads, so that no sentence depends on how long the others are
        longest = max(length, min(PADDED, model.encoder.max_pieces))
        batch = batch.padded(len(batch), longest, model.encoder.config.pad)
    alpha = Alpha(config)
    logits = minimise_entropy(model, batch, config, alpha=alpha)[:, :length]
    if not weights:
        return Inferred(logits)
    before, after = alpha.mean_weights()
    return Inferred(logits, before[:, :length], after[:, :length])

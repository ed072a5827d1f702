"""ZGUL: fusion and lang2vec over the bank, learnt; entropy minimisation when inferring. And its ablations.

Frozen: the encoder and the language adapters. Trained: W_q, W_k, W_v, W_L, the language vectors' projection, C, the
task adapter and the head. Inference: ``em`` (the paper's ZGUL), ``plain`` (w/o EM), ``em-tied`` (one move per layer).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from zgul.ensemble.lang2vec import LanguageVectors
from zgul.ensemble.weighting import ZGUL as ZGULWeighting
from zgul.ensemble.weighting import Folded
from zgul.methods.base import Method, Parts
from zgul.methods.model import Model


@dataclass(frozen=True)
class ZGUL(Method):
    strategies: tuple[str, ...] = ("em", "plain", "em-tied")
    views: tuple[str, ...] = ("fusion", "lang2vec")

    def build(self, parts: Parts) -> Model:
        parts.freeze_encoder()
        bank = parts.bank()
        features = torch.stack([parts.language_features(language) for language in bank.languages])
        weighting = ZGULWeighting(
            LanguageVectors(bank.languages, features),
            width=parts.encoder.width,
            depth=parts.encoder.depth,
            views=self.views,
            form=parts.options.l_scores,
            combine=parts.options.combine,
        )
        weighting.vectors.requires_grad_("lang2vec" in self.views)
        return Model(
            parts.encoder,
            parts.labels,
            bank=bank,
            weighting=weighting,
            task_size=parts.task_size(),
            invertible=parts.options.invertible,
            dropout=parts.options.dropout,
        )

    def prepare(self, model: Model, strategy: str, languages: Sequence[str], parts: Parts) -> dict[str, int]:
        assert isinstance(model.weighting, ZGULWeighting | Folded)
        vectors = model.weighting.vectors
        return {language: vectors.add(language, parts.language_features(language)) for language in languages}


METHODS = [
    ZGUL("zgul", "ZGUL"),
    ZGUL("zgul-no-l", "ZGUL w/o L", views=("fusion",)),
    ZGUL("zgul-no-f", "ZGUL w/o F", views=("lang2vec",)),
]

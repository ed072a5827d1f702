"""ZGUL and its ablations: fusion and lang2vec learn to weight the bank, and EM refines the weights at inference.

The encoder and the language adapters are frozen. W_q, W_k, W_v, W_L, the projection of the language vectors, C, the
task adapter and the head are trained. The strategies are ``em`` (the paper's ZGUL), ``plain`` (w/o EM) and ``em-tied``
(one move per layer).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from zgul.ensemble.weighting import FUSION, LANG2VEC, ZGULWeighting
from zgul.methods.base import Method, Parts
from zgul.methods.model import Model


@dataclass(frozen=True)
class ZGUL(Method):
    strategies: tuple[str, ...] = ("em", "plain", "em-tied")
    views: tuple[str, ...] = (FUSION, LANG2VEC)

    def build(self, parts: Parts) -> Model:
        parts.freeze_encoder()
        bank, options = parts.bank(), parts.options
        weighting = ZGULWeighting(
            parts.language_features(bank.languages),
            width=parts.encoder.width,
            depth=parts.encoder.depth,
            views=self.views,
            form=options.l_scores,
            start=options.l_start,
            combine=options.combine,
            fusion_dropout=options.fusion_dropout,
        )
        weighting.vectors.requires_grad_(LANG2VEC in self.views)
        return parts.adapted(bank, weighting)

    def table(self, parts: Parts, languages: Sequence[str], strategy: str, bank: Sequence[str]) -> Tensor:
        return parts.language_features(languages)


METHODS = [
    ZGUL("zgul", "ZGUL"),
    ZGUL("zgul-no-l", "ZGUL w/o L", views=(FUSION,)),
    ZGUL("zgul-no-f", "ZGUL w/o F", views=(LANG2VEC,)),
]

"""MADX and MADX^multi: a task adapter over one language adapter at a time, mixed only when inferring.

Training uses the adapter of the sentence's own language (MADX: always English). Inference:

    en        English's adapter
    rel       the adapter of the most related source
    uniform   the mean of all
    emea      from the mean of all, moved by entropy minimisation, tied over the tokens of a layer
    tgt       the target's own adapter, if there is one
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from zgul.ensemble.weighting import ByLanguage
from zgul.errors import ZgulError
from zgul.methods.base import Method, Parts
from zgul.methods.model import Model

RULED_OUT = -1e4  # a score so low that the softmax gives exactly 0; -inf would turn 0 · score into NaN


@dataclass(frozen=True)
class MADX(Method):
    strategies: tuple[str, ...] = ("rel", "en", "uniform", "emea", "tgt")

    def build(self, parts: Parts) -> Model:
        parts.freeze_encoder()
        return parts.adapted(parts.bank(), ByLanguage())

    def table(self, parts: Parts, languages: Sequence[str], strategy: str, bank: Sequence[str]) -> Tensor:
        if strategy in ("uniform", "emea"):
            return torch.zeros(len(languages), len(bank))
        # for each language, the language whose adapter reads it
        readers = [{"en": "en", "tgt": code}.get(strategy) or parts.most_related(code) for code in languages]
        if missing := next((code for code in readers if code not in bank), None):
            problem = f"{strategy!r} needs a language adapter for {missing!r}; the bank has {', '.join(bank)}"
            raise ZgulError(f"The strategy {problem}. Train one with: zgul adapter train --lang {missing} --text FILE")
        places = torch.tensor([list(bank).index(code) for code in readers])
        return torch.where(F.one_hot(places, len(bank)).bool(), 0.0, RULED_OUT)


METHODS = [MADX("madx", "MADX", english_only=True, strategies=("en", "rel", "emea")), MADX("madx-multi", "MADX^multi")]

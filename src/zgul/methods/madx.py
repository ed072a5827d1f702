"""MADX and MADX^multi: a task adapter over one language adapter at a time, mixed only when inferring.

Training switches on the adapter of the sentence's own language (MADX: always English). Inference:

    en        English's adapter
    rel       the adapter of the most related source
    uniform   the mean of all
    emea      from the mean of all, moved by entropy minimisation, tied over the tokens of a layer
    tgt       the target's own adapter, where there is one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zgul.ensemble.weighting import OneHot, Uniform
from zgul.errors import ZgulError
from zgul.methods.base import Method, Parts
from zgul.methods.model import Model


@dataclass(frozen=True)
class MADX(Method):
    strategies: tuple[str, ...] = ("rel", "en", "uniform", "emea", "tgt")

    def build(self, parts: Parts) -> Model:
        parts.freeze_encoder()
        bank = parts.bank()
        return Model(
            parts.encoder,
            parts.labels,
            bank=bank,
            weighting=OneHot(list(range(len(bank)))),
            task_size=parts.task_size(),
            invertible=parts.options.invertible,
            dropout=parts.options.dropout,
        )

    def prepare(self, model: Model, strategy: str, languages: Sequence[str], parts: Parts) -> dict[str, int]:
        assert model.bank is not None
        device = model.head.weight.device
        if strategy in ("uniform", "emea"):
            if not isinstance(model.weighting, Uniform):
                model.weighting = Uniform()
            return dict.fromkeys(languages, 0)
        adapters = [self._adapter(language, strategy, parts, model.bank.languages) for language in languages]
        rows = [model.bank.index(adapter) for adapter in adapters]
        if not (isinstance(model.weighting, OneHot) and model.weighting.rows == rows):
            model.weighting = OneHot(rows).to(device)
        return {language: row for row, language in enumerate(languages)}

    def _adapter(self, language: str, strategy: str, parts: Parts, held: list[str]) -> str:
        """Whose adapter reads this language."""
        if strategy == "en":
            return "en"
        if strategy == "tgt":
            if language not in held:
                raise ZgulError(
                    f"the strategy 'tgt' needs a language adapter for {language!r}; "
                    f"train one with: zgul adapter train --lang {language} --text FILE"
                )
            return language
        return parts.most_related(language)


METHODS = [
    MADX("madx", "MADX", english_only=True, strategies=("en", "rel", "emea")),
    MADX("madx-multi", "MADX^multi"),
]

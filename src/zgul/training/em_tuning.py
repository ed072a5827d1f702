"""Choose the settings of entropy minimisation, T and the learning rate, by a grid on a dev set (appendix A).

The paper's rates, 0.05 to 1.0, are for a sum of entropies. The mean over the words of a sentence is smaller and needs
rates of 3 to 100. No EM (T = 0) is one of the settings. Of equal settings, the one with fewer steps is chosen. A run of
ten steps passes through one and five on its way, and all rates run side by side in one batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import Batch
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.methods.base import TIED
from zgul.tagger import Tagger


@dataclass(frozen=True)
class Grid:
    """The settings that are tried, besides no EM."""

    steps: tuple[int, ...] = (1, 5, 10)
    rates: tuple[float, ...] = (0.05, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass
class EMTable:
    """F1 of every setting on one dev set."""

    language: str
    sentences: int
    base: EMConfig  # what the settings have in common
    f1: dict[tuple[int, float], float] = field(default_factory=dict)  # by steps and rate; (0, 0.0) is no EM

    @property
    def without(self) -> float:
        """F1 without EM."""
        return self.f1[0, 0.0]


def em_strategy(tagger: Tagger) -> str | None:
    """The tagger's own strategy if it has EM, else the first strategy of its method that has EM."""
    strategies = [tagger.strategy, *tagger.method.strategies]
    return next((strategy for strategy in strategies if tagger.method.uses_em(strategy)), None)


def em_table(
    tagger: Tagger,
    sentences: Sequence[Sentence],
    grid: Grid | None = None,
    *,
    strategy: str | None = None,
    start: str = "scores",
    on_batch: Callable[[int], None] = lambda count: None,
) -> EMTable:
    """F1 of every setting on these sentences. ``on_batch`` receives how many chunks were done."""
    grid, strategy = grid or Grid(), strategy or em_strategy(tagger)
    if strategy is None or not tagger.method.uses_em(strategy):
        raise ZgulError(f"{tagger.method.title} has no EM ({strategy or 'no strategy'}). There is nothing to choose.")
    if not sentences:
        raise ZgulError("EM settings are chosen on sentences with tags. There are none.")
    base = EMConfig(start=start, tied=strategy in TIED)
    codes = list(dict.fromkeys(sentence.language or "" for sentence in sentences))
    known = tagger.language_table(codes, strategy)
    encoded = tagger.pieces.encode(sentences, languages=known, strip_marks=tagger.strip_marks).to(tagger.device)
    settings = [(0, 0.0), *((steps, rate) for rate in grid.rates for steps in grid.steps)]
    size = len(encoded.pieces), len(tagger.labels)
    kept = {setting: torch.zeros(size, device=tagger.device) for setting in settings}  # label probabilities [P, C]

    def run(batch: Batch) -> None:
        def keep(t: int, logits: Tensor) -> None:  # [rates, B, T, C]
            for rate, own in zip(grid.rates, logits, strict=True):
                if (t, rate if t else 0.0) in kept:
                    encoded.scatter(kept[t, rate if t else 0.0], batch, own.float().softmax(dim=-1))

        tagger.engine.grid(batch, replace(base, steps=max(grid.steps)), grid.rates, keep)

    for batch, _ in tagger.run_batches(encoded, run, copies=len(grid.rates)):
        on_batch(len(batch))
    gold = [sentence.tags or [] for sentence in sentences]
    table = EMTable(codes[0], len(sentences), base)
    for setting, probabilities in kept.items():
        predicted = tagger.decoded(encoded, {"probabilities": probabilities})
        table.f1[setting] = scores(gold, [prediction.tags for prediction in predicted]).f1
    return table


def best_setting(tables: Sequence[EMTable]) -> EMConfig:
    """The setting with the highest mean F1; of equal settings the one with fewer steps, then with the smaller rate."""
    mean = {key: float(np.mean([table.f1[key] for table in tables])) for key in tables[0].f1}
    steps, rate = min(mean, key=lambda key: (-mean[key], key))
    return replace(tables[0].base, steps=steps, lr=rate)

"""Settings of entropy minimisation, T and the learning rate, by a grid on a dev set (the paper's appendix).

The paper's rates, 0.05 to 1.0, are for its sum of entropies; the mean over the words of a sentence is smaller and
needs 3 to 100. A run of ten steps passes through one and five on its way, so a rate costs one run, not three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from zgul.corpora.encode import Batch, EncodedCorpus
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig, minimise_entropy
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.methods.decode import decoder
from zgul.methods.tagger import Tagger, batch_tokens
from zgul.precision import autocast
from zgul.training.memory import fitting


@dataclass(frozen=True)
class Grid:
    """The settings that are tried."""

    steps: tuple[int, ...] = (1, 5, 10)
    rates: tuple[float, ...] = (0.05, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass
class EMTable:
    """F1 of every setting on one dev set."""

    language: str
    sentences: int
    without: float  # F1 with no EM
    f1: dict[tuple[int, float], float] = field(default_factory=dict)  # by steps and rate


def em_strategy(tagger: Tagger) -> str | None:
    """The tagger's way to infer with EM: its own strategy where that has EM, else the method's first that has."""
    ways = [tagger.strategy, *tagger.method.strategies]
    return next((way for way in ways if tagger.method.uses_em(way)), None)


def em_table(
    tagger: Tagger,
    sentences: Sequence[Sentence],
    grid: Grid | None = None,
    *,
    strategy: str | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> EMTable:
    """F1 of every setting on these sentences; ``on_batch`` hears how many chunks were done at one more rate."""
    grid = grid or Grid()
    strategy = strategy or em_strategy(tagger)
    if strategy is None or not tagger.method.uses_em(strategy):
        raise ZgulError(f"{tagger.method.title} has no EM ({strategy or 'no strategy'}): there is nothing to choose")
    if not sentences:
        raise ZgulError("EM settings are chosen on sentences with tags; there are none")
    language = sentences[0].language or ""
    base = tagger.em_for(language, strategy)
    assert base is not None
    rows = tagger.prepare(list(dict.fromkeys(sentence.language or "" for sentence in sentences)), strategy)
    encoded = tagger.pieces.encode(sentences, languages=rows).to(tagger.device)
    gold = [sentence.tags or [] for sentence in sentences]
    table, decode = EMTable(language, len(sentences), 0.0), decoder(tagger.decode, tagger.labels)
    tokens = batch_tokens(tagger.device)
    for rate in grid.rates:
        config = replace(base, steps=max(grid.steps), lr=rate)
        run = partial(_run, tagger, encoded, config, (0, *grid.steps), on_batch)
        kept, tokens = fitting(run, encoded, tokens)
        for step, probabilities in kept.items():
            tags = decode(encoded.by_word(probabilities).numpy(), encoded.sentence_sizes)
            found = np.split(np.array(tagger.labels)[tags], np.cumsum(encoded.sentence_sizes)[:-1])
            f1 = scores(gold, [labels.tolist() for labels in found]).f1
            if step:
                table.f1[step, rate] = f1
            else:
                table.without = f1
    return table


def _run(
    tagger: Tagger,
    encoded: EncodedCorpus,
    config: EMConfig,
    steps: Sequence[int],
    on_batch: Callable[[int], None] | None,
    tokens: int,
) -> dict[int, torch.Tensor]:
    """Label probabilities [P, C] after each of these numbers of steps, in batches of so many tokens."""
    size = len(encoded.pieces), len(tagger.labels)
    kept = {step: torch.zeros(size, device=tagger.device) for step in steps}
    for batch in encoded.batches(tokens):

        def keep(step: int, logits: torch.Tensor, batch: Batch = batch) -> None:
            if step in kept:
                encoded.scatter(kept[step], batch, logits.float().softmax(dim=-1))

        with autocast(tagger.device, tagger.precision):
            minimise_entropy(tagger.model, batch, config, on_step=keep)
        if on_batch is not None:
            on_batch(len(batch.rows))
    return kept


def best_setting(tables: Sequence[EMTable]) -> EMConfig:
    """The setting with the highest mean F1 over the tables; of equals the one with fewer steps, then the smaller."""
    mean = {key: float(np.mean([table.f1[key] for table in tables])) for key in tables[0].f1}
    steps, rate = min(mean, key=lambda key: (-mean[key], key))
    return EMConfig(steps=steps, lr=rate)


def choose_em(tagger: Tagger, dev_sentences: Sequence[Sentence], grid: Grid | None = None) -> EMConfig:
    """The setting of the grid with the best F1 on these sentences."""
    return best_setting([em_table(tagger, dev_sentences, grid)])

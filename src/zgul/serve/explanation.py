"""Why each word has its tag: probabilities and weights of every view, layer and word, after each step of EM.

The plain code computes it. After T steps it agrees with ``Tagger.predict(weights=True)``, whose weights are the mean
over the layers; T = 0 is the model without EM.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zgul.corpora.sentence import Sentence, to_iob2
from zgul.encoders.batches import Batch
from zgul.ensemble.em import Alpha, EMConfig, minimise_entropy
from zgul.tagger import Tagger
from zgul.tagger.decoding import decoder

DIGITS = 4


class Stopped(Exception):
    """Nobody waits for the explanation any more."""


def explain(tagger: Tagger, sentence: Sentence, em: EMConfig, stopped: Callable[[], bool]) -> dict[str, Any]:
    """All steps of EM for one sentence, whose language is set, as plain data."""
    weighting, depth = tagger.model.weighting, tagger.model.encoder.depth
    assert weighting is not None
    strategy = next(name for name in tagger.method.strategies if tagger.method.uses_em(name))
    codes = dict.fromkeys([*(sentence.word_languages or ()), str(sentence.language)])
    table = tagger.language_table(list(codes), strategy)
    encoded = tagger.pieces.encode([sentence], languages=table, strip_marks=tagger.strip_marks).to(tagger.device)
    kept: dict[tuple[int, str], Tensor] = {}  # by step

    def keep(t: int, name: str, batch: Batch, values: Tensor) -> None:
        if (t, name) not in kept:
            kept[t, name] = values.new_zeros(len(encoded.pieces), *values.shape[2:])
        encoded.scatter(kept[t, name], batch, values.expand(*batch.words.shape, *values.shape[2:]))

    with torch.inference_mode(False):
        for batch in encoded.batches(tagger.engine.max_tokens):
            alpha = Alpha(replace(em, positions="words"))

            def on_step(t: int, logits: Tensor, batch: Batch = batch, alpha: Alpha = alpha) -> None:
                if stopped():
                    raise Stopped
                keep(t, "probabilities", batch, logits.float().softmax(dim=-1))
                weights = torch.stack([alpha.weights(layer).detach() for layer in range(depth)], dim=2)
                keep(t, "weights", batch, weights)  # [B, T, L, K, N]

            minimise_entropy(tagger.model, batch, alpha, on_step)
    made = {key: encoded.by_word(values).numpy().astype(np.float64) for key, values in kept.items()}
    steps = [_step(tagger, made[t, "probabilities"], made[t, "weights"]) for t in range(em.steps + 1)]
    about = {"task": tagger.task, "labels": tagger.labels, "sources": tagger.bank_languages}
    return about | {"views": list(weighting.views), "layers": depth, "em_lr": em.lr, "steps": steps}


def _step(tagger: Tagger, p: NDArray[np.float64], weights: NDArray[np.float64]) -> dict[str, Any]:
    """Probabilities [words, C] and weights [words, L, K, N] of a step as plain data."""
    best = decoder(tagger.decode, tagger.labels)(p.astype(np.float32), np.array([len(p)]))
    tags = [tagger.labels[tag] for tag in best.tolist()]
    entropy = -(p * np.log(np.maximum(p, 1e-30))).sum(axis=1).mean()
    rounded = {"probabilities": p.round(DIGITS).tolist(), "weights": weights.round(DIGITS).tolist()}
    iob2 = tagger.task == "ner" and tagger.decode == "words"
    return {"entropy": round(float(entropy), DIGITS), "tags": to_iob2(tags) if iob2 else tags} | rounded

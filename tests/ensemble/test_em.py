"""Entropy minimisation in batches is what Algorithm 1 gives sentence by sentence, and its gradient is right."""

import numpy as np
import pytest
import torch

from em_oracle import SlowEM, assert_same_em, forward, mean_entropy, slow_em, start_scores
from family import FUNCTION_WORDS, MARKED, Family, family, tiny_encoder
from zgul.adapters.bank import LanguageAdapter
from zgul.corpora.encode import Batch, EncodedCorpus
from zgul.ensemble.em import EMConfig, minimise_entropy
from zgul.methods.tagger import Tagger


def tagger_of(made: Family) -> Tagger:
    """An untrained ZGUL with random weights everywhere, in double precision."""
    encoder = tiny_encoder(made, layers=2, width=16)
    adapters = [
        LanguageAdapter.new(source, 16, 2, size=8 if n % 2 else 5, activation="gelu" if n else "relu")
        for n, source in enumerate(made.sources)
    ]
    tagger = Tagger.new(
        "zgul",
        encoder=encoder,
        task="pos",
        labels=sorted(set(MARKED) | set(FUNCTION_WORDS)),
        sources=made.sources,
        adapters=adapters,
        features={language: made.features(language) for language in made.languages},
    )
    generator = torch.Generator().manual_seed(0)
    tagger.model.double().eval()
    for name, weight in tagger.model.named_parameters():
        if not name.startswith("encoder"):
            weight.data = torch.randn(weight.shape, generator=generator, dtype=torch.float64) * 0.4
    return tagger


@pytest.fixture(scope="module")
def made() -> Family:
    return family(0, n_languages=4)


@pytest.fixture(scope="module")
def tagger(made: Family) -> Tagger:
    return tagger_of(made)


@pytest.fixture(scope="module")
def encoded(made: Family, tagger: Tagger) -> EncodedCorpus:
    """Sentences of several languages and lengths, one of them code-switched."""
    sentences = [s for language in ("target", "s1") for s in made.sentences(language, 3)]
    mixed = sentences[0]
    mixed.word_languages = ["s0" if i % 2 else "target" for i in range(len(mixed))]
    return tagger.pieces.encode(sentences, languages=tagger.prepare(["target", "s1", "s0"]))


def all_in_one(encoded: EncodedCorpus, padding: int = 3) -> Batch:
    return encoded.batch(torch.arange(len(encoded)), int(encoded.lengths.max()) + 2 + padding)


def slow(tagger: Tagger, batch: Batch, row: int, steps: int, lr: float) -> SlowEM:
    length = int(batch.mask[row].sum())
    words = batch.words[row].nonzero().flatten().tolist()
    pieces, languages = batch.input_ids[row, :length].tolist(), batch.languages[row, :length].tolist()
    return slow_em(tagger.model, pieces, words, languages, steps, lr)


@pytest.mark.parametrize(("steps", "lr"), [(0, 1.0), (1, 0.5), (4, 1.0), (3, 30.0)])
def test_a_batch_gives_what_algorithm_1_gives_for_each_sentence(tagger, encoded, steps: int, lr: float) -> None:
    batch = all_in_one(encoded)
    fast = minimise_entropy(tagger.model, batch, EMConfig(steps=steps, lr=lr))
    for row in range(len(batch.rows)):
        expected = slow(tagger, batch, row, steps, lr)
        assert_same_em(fast, row, batch.words[row].nonzero().flatten().tolist(), expected)
        got = [float(entropy[row]) for entropy in fast.entropy[:steps]]
        assert got == pytest.approx(expected.entropy, abs=1e-9)
    if steps:
        assert not torch.allclose(fast.before, fast.after, atol=1e-4), "EM must have moved something"


def test_padding_and_specials_do_not_count(tagger, encoded) -> None:
    config = EMConfig(steps=3, lr=5.0)
    narrow, wide = (minimise_entropy(tagger.model, all_in_one(encoded, pad), config) for pad in (0, 9))
    length = narrow.logits.shape[1]
    inside = all_in_one(encoded, 0).words
    torch.testing.assert_close(narrow.logits[inside], wide.logits[:, :length][inside], rtol=0, atol=1e-9)


def test_the_step_follows_the_numerical_gradient(tagger, encoded) -> None:
    """One step moves each score by -lr times the slope of the entropy, measured by finite differences."""
    batch, row, lr, eps = all_in_one(encoded), 1, 1e-3, 1e-5
    length = int(batch.mask[row].sum())
    words = batch.words[row].nonzero().flatten().tolist()
    ids = batch.input_ids[row : row + 1, :length]
    scores = start_scores(tagger.model, ids, batch.languages[row, :length].tolist())
    result = minimise_entropy(tagger.model, batch, EMConfig(steps=1, lr=lr))
    moved = (result.after / result.before).log()[:, row, :length] / -lr  # the slope, up to a constant per softmax

    @torch.no_grad()
    def entropy(layer: int, place: tuple[int, int, int], change: float) -> float:
        changed = [score.clone() for score in scores]
        changed[layer][place] += change
        return float(mean_entropy(forward(tagger.model, ids, [s.softmax(dim=-1) for s in changed]), words))

    rng = np.random.default_rng(0)
    for _ in range(6):
        layer, view = int(rng.integers(2)), int(rng.integers(2))
        token = int(rng.integers(length)) if layer == 0 else int(rng.choice(words))
        slopes = torch.tensor(
            [
                (entropy(layer, (token, view, n), eps) - entropy(layer, (token, view, n), -eps)) / (2 * eps)
                for n in range(result.before.shape[-1])
            ],
            dtype=torch.float64,
        )
        expected = slopes - slopes.mean()
        got = moved[layer, token, view] - moved[layer, token, view].mean()
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-8)


def test_no_step_and_zero_rate_change_nothing(tagger, encoded) -> None:
    batch = all_in_one(encoded)
    with torch.no_grad():
        plain = tagger.model(batch)
    for config in (EMConfig(steps=0), EMConfig(steps=3, lr=0.0)):
        still = minimise_entropy(tagger.model, batch, config)
        torch.testing.assert_close(still.logits[batch.words], plain[batch.words], rtol=0, atol=1e-12)
        assert torch.equal(still.before, still.after)

"""Entropy minimisation in batches is Algorithm 1 for each sentence, in all its options."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from em_oracle import Sentence as Slow
from em_oracle import SlowEM, forward, mean_entropy, slow_em, start_scores
from small_tagger import MADE, mixed_sentences, small_batch, small_tagger
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import Batch
from zgul.ensemble import em
from zgul.ensemble.em import Alpha, EMConfig, minimise_entropy, sentence_entropy
from zgul.errors import ZgulError
from zgul.methods import MethodOptions
from zgul.methods.model import infer
from zgul.tagger import Tagger


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return small_tagger(double=True)


@pytest.fixture(scope="module")
def batch(tagger: Tagger) -> Batch:
    """Sentences of several lengths, one of them code-switched, with padding and an empty row."""
    return small_batch(tagger, short_sentences(), padding=3, empty=1)


def short_sentences() -> list[Sentence]:
    """The code-switched sentence and the two shortest others: the oracle is slow."""
    first, *others = mixed_sentences()
    return [first, *sorted(others, key=len)[:2]]


def of_row(batch: Batch, row: int, length: int | None = None) -> Slow:
    """One sentence of a batch, without its padding or with so much of it."""
    visible = int(batch.mask[row].sum())
    length = length or visible
    return Slow(
        batch.input_ids[row, :length].tolist(),
        batch.words[row].nonzero().flatten().tolist(),
        batch.table[batch.languages[row, :length]],
        visible,
    )


def run(tagger: Tagger, batch: Batch, config: EMConfig) -> tuple[torch.Tensor, Alpha]:
    alpha = Alpha(config)
    return minimise_entropy(tagger.model, batch, alpha), alpha


def layer_weights(alpha: Alpha) -> torch.Tensor:
    """The weights [L, B, T, K, N] as they are now."""
    return torch.stack([alpha.weights(layer).detach() for layer in sorted(alpha.start) if layer >= 0])


def assert_same(logits: torch.Tensor, alpha: Alpha, row: int, sentence: Slow, expected: SlowEM) -> None:
    """Label scores of the words, and the weights of all pieces in all layers but the last, whose others do nothing."""
    words, length = sentence.words, len(sentence.pieces)
    exactly = {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(logits[row, words], expected.logits[words], **exactly)
    weights = layer_weights(alpha)[:, row, :length]
    torch.testing.assert_close(weights[:-1], expected.after[:-1], **exactly)
    torch.testing.assert_close(weights[-1, words], expected.after[-1, words], **exactly)
    before, after = (mean[row, words] for mean in alpha.mean_weights())
    torch.testing.assert_close(before, expected.before.mean(dim=0)[words], **exactly)
    torch.testing.assert_close(after, expected.after.mean(dim=0)[words], **exactly)


SETTINGS = [
    EMConfig(steps=0),
    EMConfig(steps=1, lr=0.5),
    EMConfig(steps=4, lr=1.0),
    EMConfig(steps=3, lr=20.0),
    EMConfig(steps=3, lr=2.0, tied=True),
    EMConfig(steps=1, lr=0.0, start="probabilities"),
    EMConfig(steps=3, lr=2.0, start="probabilities"),
    EMConfig(steps=2, lr=2.0, start="probabilities", tied=True),
]


def name(config: EMConfig) -> str:
    return ",".join(f"{key}={value}" for key, value in vars(config).items() if value != getattr(EMConfig(), key))


@pytest.mark.parametrize("config", SETTINGS, ids=name)
def test_a_batch_gives_what_algorithm_1_gives_for_each_sentence(tagger: Tagger, batch: Batch, config: EMConfig) -> None:
    logits, alpha = run(tagger, batch, config)
    options = {"tied": config.tied, "start": config.start}
    for row in range(len(batch) - 1):
        sentence = of_row(batch, row)
        expected = slow_em(tagger.model, sentence, config.steps, config.lr, **options)
        assert_same(logits, alpha, row, sentence, expected)
    assert logits.isfinite().all(), "an empty row does no harm"
    before, after = alpha.mean_weights()
    assert torch.equal(before, after) == (config.steps == 0), "EM must have moved something"


@pytest.mark.parametrize(
    ("method", "options"),
    [("zgul-no-l", {}), ("zgul-no-f", {}), ("zgul", {"combine": "max"})],
)
def test_ablations_and_the_releases_maximum(method: str, options: dict[str, Any]) -> None:
    tagger = small_tagger(method, options=MethodOptions(dropout=0.0, **options), double=True)
    batch = small_batch(tagger, short_sentences(), padding=2)
    logits, alpha = run(tagger, batch, EMConfig(steps=2, lr=3.0))
    for row in range(3):
        sentence = of_row(batch, row)
        assert_same(logits, alpha, row, sentence, slow_em(tagger.model, sentence, 2, 3.0))


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(MADE.languages), st.integers(0, 30)), min_size=1, max_size=4),
    st.integers(0, 5),
    st.sampled_from([0.1, 3.0, 30.0]),
)
def test_sentences_do_not_see_each_other(tagger: Tagger, drawn: list[tuple[str, int]], padding: int, lr: float) -> None:
    sentences = [MADE.sentences(language, 31)[number] for language, number in drawn]
    config = EMConfig(steps=2, lr=lr)
    together = small_batch(tagger, sentences, padding=padding)
    logits, _ = run(tagger, together, config)
    for row, sentence in enumerate(sentences):
        alone = small_batch(tagger, [sentence])
        words = alone.words[0]
        found = logits[row, : len(words)][words]
        torch.testing.assert_close(found, run(tagger, alone, config)[0][0, words], rtol=0, atol=1e-11)


def test_the_step_follows_the_numerical_gradient(tagger: Tagger, batch: Batch) -> None:
    """One step moves each score by -lr times the slope of the entropy, measured by finite differences."""
    row, lr, eps = 1, 1e-3, 1e-5
    sentence = of_row(batch, row)
    scores = start_scores(tagger.model, sentence)
    _, alpha = run(tagger, batch, EMConfig(steps=1, lr=lr))

    @torch.no_grad()
    def entropy(layer: int, place: tuple[int, int, int], change: float) -> float:
        changed = [score.clone() for score in scores]
        changed[layer][place] += change
        weights = [score.softmax(dim=-1) for score in changed]
        return float(mean_entropy(forward(tagger.model, sentence, weights), sentence.words))

    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        layer, view, n = (int(torch.randint(size, (), generator=generator)) for size in (2, 2, 3))
        token = sentence.words[int(torch.randint(len(sentence.words), (), generator=generator))]
        place = token, view, n
        slope = (entropy(layer, place, eps) - entropy(layer, place, -eps)) / (2 * eps)
        assert float(alpha.moves[layer].detach()[row, token, view, n]) == pytest.approx(
            -lr * slope, rel=1e-5, abs=1e-12
        )


def test_no_step_and_zero_rate_are_the_model_itself(tagger: Tagger, batch: Batch) -> None:
    with torch.no_grad():
        plain = tagger.model(batch)
    for config in (EMConfig(steps=0), EMConfig(steps=3, lr=0.0), EMConfig(steps=0, start="probabilities")):
        logits, alpha = run(tagger, batch, config)
        torch.testing.assert_close(logits, plain, rtol=0, atol=1e-12)
        torch.testing.assert_close(*alpha.mean_weights(), rtol=0, atol=1e-15)


def test_the_releases_start_softmaxes_twice() -> None:
    """[.7 .1 .1 .1], taken for scores, becomes [.38 .21 .21 .21] at the first update, whatever its size."""
    alpha = Alpha(EMConfig(lr=0.0, start="probabilities"))
    own = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64)
    first = alpha(0, lambda: own.log()[None, None, None])
    torch.testing.assert_close(first.flatten(), own)
    alpha.step((first**2).sum())
    second = alpha(0, lambda: pytest.fail("the start is computed once")).flatten()
    torch.testing.assert_close(second, torch.tensor([0.38, 0.21, 0.21, 0.21]).double(), rtol=0, atol=6e-3)
    torch.testing.assert_close(second, own.softmax(dim=-1))
    before, after = alpha.mean_weights()
    torch.testing.assert_close(before.flatten(), own)
    torch.testing.assert_close(after.flatten(), own.softmax(dim=-1))


def test_small_moves_are_not_lost_in_bfloat16() -> None:
    alpha = Alpha(EMConfig(lr=1e-3))
    scores = torch.tensor([[[[100.0, 0.0]]]], dtype=torch.bfloat16)
    weights = alpha(0, lambda: scores)
    assert weights.dtype == torch.float32
    alpha.step(alpha.moves[0].sum())
    assert torch.allclose(alpha.moves[0], torch.tensor(-1e-3))


@pytest.mark.parametrize("tied", [False, True])
def test_sentences_may_have_rates_of_their_own(tagger: Tagger, batch: Batch, tied: bool) -> None:
    config = EMConfig(steps=2, tied=tied)
    rates = torch.linspace(0, 5, len(batch), dtype=torch.float64)
    alpha = Alpha(config, rates)
    logits = minimise_entropy(tagger.model, batch, alpha)
    for row in range(len(batch) - 1):
        sentence = of_row(batch, row)
        expected = slow_em(tagger.model, sentence, 2, float(rates[row]), tied=tied)
        assert_same(logits, alpha, row, sentence, expected)


# --- tied moves


def test_tied_moves_are_the_same_for_all_tokens_of_a_layer(tagger: Tagger, batch: Batch) -> None:
    _, alpha = run(tagger, batch, EMConfig(steps=3, lr=5.0, tied=True))
    now, before = layer_weights(alpha), torch.stack([alpha.start[layer].softmax(dim=-1) for layer in range(2)])
    for row in range(len(batch) - 1):
        words = batch.words[row]
        moved = (now[:, row, words] / before[:, row, words]).log()
        moved = moved - moved.mean(dim=-1, keepdim=True)  # [L, words, K, N]
        torch.testing.assert_close(moved, moved[:, :1].expand_as(moved), rtol=0, atol=1e-9)
        assert moved.abs().max() > 1e-3


@pytest.mark.parametrize("invertible", ["off", "first", "mixed"])
@pytest.mark.parametrize("strategy", ["uniform", "emea"])
def test_no_step_is_the_model_itself_for_madx(invertible: str, strategy: str) -> None:
    tagger = small_tagger("madx-multi", options=MethodOptions(dropout=0.0, invertible=invertible), double=True)
    batch = small_batch(tagger, MADE.sentences("target", 3), strategy=strategy)
    with torch.no_grad():
        plain = tagger.model(batch)
    for config in (EMConfig(steps=0, tied=True), EMConfig(steps=2, lr=0.0, tied=True)):
        torch.testing.assert_close(run(tagger, batch, config)[0], plain, rtol=0, atol=1e-12)
    logits, alpha = run(tagger, batch, EMConfig(steps=2, lr=5.0, tied=True))
    assert not torch.allclose(logits[batch.words], plain[batch.words], atol=1e-6)
    assert (sentence_entropy(logits, batch) < sentence_entropy(plain, batch)).all()
    before, after = alpha.mean_weights()
    assert before.shape == after.shape == (3, batch.words.shape[1], 1, 3)


def test_emea_moves_the_weights_of_mixed_invertible_blocks() -> None:
    """EMEA's vector 0, with all others, by plain autograd on the whole model."""
    steps, lr = 2, 5.0
    tagger = small_tagger("madx-multi", options=MethodOptions(dropout=0.0, invertible="mixed"), double=True)
    batch = small_batch(tagger, MADE.sentences("target", 3), strategy="emea")

    def by_autograd(moving: set[int]) -> torch.Tensor:
        zeros = torch.zeros(3, 1, 1, 3, dtype=torch.float64)  # sentences, one for all tokens, one view, adapters
        moves = {layer: zeros.clone().requires_grad_(layer in moving) for layer in (-1, 0, 1)}

        def logits() -> torch.Tensor:
            return tagger.model(batch, lambda layer, scores: (scores() + moves[layer]).softmax(dim=-1))

        for _ in range(steps):
            scores = logits()
            places = [batch.words[row].nonzero().flatten().tolist() for row in range(3)]
            loss = torch.stack([mean_entropy(scores[row], places[row]) for row in range(3)]).sum()
            for layer, gradient in zip(moving, torch.autograd.grad(loss, [moves[n] for n in moving]), strict=True):
                moves[layer] = (moves[layer] - lr * gradient).detach().requires_grad_()
        return logits().detach()[batch.words]

    found = run(tagger, batch, EMConfig(steps=steps, lr=lr, tied=True))[0][batch.words]
    torch.testing.assert_close(found, by_autograd({-1, 0, 1}), rtol=0, atol=1e-12)
    assert not torch.allclose(found, by_autograd({0, 1}), atol=1e-3)


# --- the sum over all positions


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("padded", [24, 10], ids=["padding is added", "the sentence is longer"])
def test_the_releases_sum_over_all_positions(
    tagger: Tagger, padded: int, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padding included, up to so many pieces: 128 in the release, few here because the oracle is slow."""
    for module in ("ensemble.em", "methods.model"):
        monkeypatch.setattr(f"zgul.{module}.PADDED", padded)
    sentence = next(s for s in MADE.sentences("target", 20) if 10 < int(small_batch(tagger, [s]).mask.sum()) < 24)
    alone = small_batch(tagger, [sentence])
    visible = int(alone.mask.sum())
    config = EMConfig(steps=2, lr=0.5, positions="all", tied=tied)
    found = infer(tagger.model, alone, config, weights=True)
    padded_batch = alone.padded(1, max(padded, visible), tagger.model.encoder.config.pad)
    slow = of_row(padded_batch, 0, max(padded, visible))
    expected = slow_em(tagger.model, slow, 2, 0.5, positions="all", tied=tied)
    torch.testing.assert_close(found.logits[0], expected.logits[:visible], rtol=0, atol=1e-12)
    assert found.after is not None
    torch.testing.assert_close(found.after[0], expected.after.mean(dim=0)[:visible], rtol=0, atol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("padded", [128, 20])  # pieces: all sentences are shorter, some are longer
def test_the_releases_sum_does_not_depend_on_the_batch(
    tagger: Tagger, padded: int, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("ensemble.em", "methods.model"):
        monkeypatch.setattr(f"zgul.{module}.PADDED", padded)
    config = EMConfig(steps=2, lr=0.5, positions="all", tied=tied)
    sentences = MADE.sentences("target", 8)
    together = small_batch(tagger, sentences)
    lengths = together.mask.sum(dim=1).tolist()
    assert min(lengths) < 20 < max(lengths) < 100
    found = infer(tagger.model, together, config, weights=True)
    assert found.before is not None and found.after is not None
    assert found.logits.shape[:2] == found.before.shape[:2] == found.after.shape[:2] == together.words.shape
    for row, length in enumerate(lengths):
        alone = infer(tagger.model, small_batch(tagger, [sentences[row]]), config, weights=True)
        torch.testing.assert_close(found.logits[row, :length], alone.logits[0], rtol=0, atol=1e-11)
        torch.testing.assert_close(found.after[row, :length], alone.after[0], rtol=0, atol=1e-11)
    if padded == 128:
        words = infer(tagger.model, together, EMConfig(steps=2, lr=0.5, tied=tied)).logits
        assert not torch.allclose(words[together.words], found.logits[together.words], atol=1e-6)


# --- entropy


def test_only_the_releases_sum_counts_padding_and_specials(tagger: Tagger, batch: Batch) -> None:
    """Whatever is predicted at padding and specials, the entropy over words does not see it."""
    generator = torch.Generator().manual_seed(0)
    logits, other = (torch.randn(*batch.words.shape, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    changed = torch.where(batch.words[..., None], logits, other)
    words = [sentence_entropy(scores, batch) for scores in (logits, changed)]
    assert torch.equal(*words)
    assert not torch.allclose(*(sentence_entropy(scores, batch, "all") for scores in (logits, changed)))
    for row in range(len(batch) - 1):
        positions = batch.words[row].nonzero().flatten().tolist()
        torch.testing.assert_close(words[0][row], mean_entropy(logits[row], positions))
    assert words[0][-1] == 0, "a row without words has no entropy"


def test_a_label_that_is_ruled_out_adds_nothing(tagger: Tagger) -> None:
    batch = small_batch(tagger, MADE.sentences("s0", 1))
    logits = torch.tensor([0.0, 0.0, -torch.inf]).expand(*batch.words.shape, 3).clone().requires_grad_()
    entropy = sentence_entropy(logits, batch)
    assert entropy.item() == pytest.approx(torch.tensor(2.0).log().item())
    entropy.sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()


def test_entropy_falls(tagger: Tagger, batch: Batch) -> None:
    entropies: list[torch.Tensor] = []
    minimise_entropy(
        tagger.model,
        batch,
        Alpha(EMConfig(steps=5, lr=0.5)),
        on_step=lambda t, logits: entropies.append(sentence_entropy(logits, batch)[:-1]),
    )
    assert len(entropies) == 6
    assert all((later < earlier).all() for earlier, later in itertools.pairwise(entropies))


# --- what comes back, and what does not change


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_every_step_is_what_a_run_with_fewer_steps_would_give(tagger: Tagger, batch: Batch, steps: int) -> None:
    heard: list[tuple[int, torch.Tensor]] = []
    config = EMConfig(steps=steps, lr=5.0)
    logits = minimise_entropy(tagger.model, batch, Alpha(config), on_step=lambda t, scores: heard.append((t, scores)))
    assert [t for t, _ in heard] == list(range(steps + 1))
    assert not logits.requires_grad and torch.equal(heard[-1][1], logits)
    for t, scores in heard:
        assert not scores.requires_grad
        assert torch.equal(scores, run(tagger, batch, EMConfig(steps=t, lr=5.0))[0])


def test_weights_are_distributions_over_the_bank(tagger: Tagger, batch: Batch) -> None:
    _, alpha = run(tagger, batch, EMConfig(steps=2, lr=5.0))
    for weights in alpha.mean_weights():
        assert weights.shape == (*batch.words.shape, 2, 3), "sentences, tokens, views, adapters"
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1], dtype=torch.float64))


def test_the_model_is_left_as_it_was(tagger: Tagger, batch: Batch) -> None:
    model = tagger.model
    trained = set(tagger.trained_names)
    before = {name: value.clone() for name, value in model.named_parameters()}
    minimise_entropy(model, batch, Alpha(EMConfig(steps=2)))
    assert set(tagger.trained_names) == trained and not model.training
    assert all(torch.equal(value, before[name]) and value.grad is None for name, value in model.named_parameters())


def test_gradients_may_be_switched_off_outside(tagger: Tagger, batch: Batch) -> None:
    config = EMConfig(steps=2, lr=5.0)
    expected = run(tagger, batch, config)[0]
    with torch.no_grad():
        assert torch.equal(run(tagger, batch, config)[0], expected)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": -1}, "steps must be at least 0 and at most 1000, not -1"),
        ({"lr": -0.1}, "lr must be at least 0"),
        ({"lr": float("inf")}, "lr must be at least 0, not inf"),
        ({"lr": float("nan")}, "lr must be at least 0, not nan"),
        ({"start": "zero"}, "start is one of scores, probabilities, not 'zero'"),
        ({"positions": "specials"}, "positions is one of words, all"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        EMConfig(**wrong)


def test_the_release_pads_to_128_pieces() -> None:
    assert em.PADDED == 128

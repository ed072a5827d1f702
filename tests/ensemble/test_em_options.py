"""Entropy minimisation's options: what the release does, tied moves, and what comes back."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from em_oracle import forward, mean_entropy, start_scores
from small_tagger import MADE, small_tagger
from zgul.corpora.encode import Batch
from zgul.encoders.packing import Packing
from zgul.ensemble import em
from zgul.ensemble.em import EMConfig, _Leaves, label_scores_after, minimise_entropy, position_entropy, uncertain
from zgul.ensemble.weighting import Folded
from zgul.errors import ZgulError
from zgul.methods.base import MethodOptions
from zgul.methods.tagger import Tagger


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return small_tagger(double=True)


@pytest.fixture(scope="module")
def batch(tagger: Tagger) -> Batch:
    """Four sentences of several lengths, three positions of padding behind the longest, and an empty row."""
    sentences = MADE.sentences("target", 2) + MADE.sentences("s1", 2)
    encoded = tagger.pieces.encode(sentences, languages=tagger.prepare(["target", "s1"]))
    return encoded.batch(torch.tensor([0, 1, 2, 3, -1]), int(encoded.lengths.max()) + 5)


def test_the_releases_start_softmaxes_twice() -> None:
    """[.7 .1 .1 .1], taken for scores, becomes [.38 .21 .21 .21] at the first update, whatever its size."""
    one = torch.ones(1, 1, dtype=torch.bool)
    leaves = _Leaves(EMConfig(lr=0.0, start="probabilities"), Packing(one, one), first=0, last=0)
    own = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64)
    first = leaves.choose(0, lambda: own.log()[None, None, None])
    torch.testing.assert_close(first.flatten(), own)
    leaves.step((first**2).sum())
    second = leaves.choose(0, lambda: pytest.fail("the start is computed once")).flatten()
    torch.testing.assert_close(second, torch.tensor([0.38, 0.21, 0.21, 0.21]).double(), rtol=0, atol=6e-3)
    torch.testing.assert_close(second, own.softmax(dim=-1))
    torch.testing.assert_close(leaves.before().flatten(), own)
    torch.testing.assert_close(leaves.after().flatten(), own.softmax(dim=-1))


def test_the_releases_start_moves_even_at_rate_zero_but_not_without_steps(tagger, batch) -> None:
    plain = minimise_entropy(tagger.model, batch, EMConfig(steps=0))
    none = minimise_entropy(tagger.model, batch, EMConfig(steps=0, start="probabilities"))
    torch.testing.assert_close(none.logits, plain.logits, rtol=0, atol=1e-12)
    one = minimise_entropy(tagger.model, batch, EMConfig(steps=1, lr=0.0, start="probabilities"))
    torch.testing.assert_close(one.before, plain.before)
    inside = batch.mask
    torch.testing.assert_close(one.after[0][inside], plain.before[0][inside].softmax(dim=-1), rtol=0, atol=1e-12)
    assert not torch.allclose(one.logits, plain.logits, atol=1e-3)


def by_hand(tagger: Tagger, batch: Batch, row: int, positions: str, tied: bool, lr: float) -> torch.Tensor:
    """The weights [L, T, 2, N] of one sentence after one step, through the slow forward."""
    length = int(batch.mask[row].sum())
    ids = batch.input_ids[row : row + 1, :length]
    scores = start_scores(tagger.model, ids, batch.languages[row, :length].tolist())
    moves = [torch.zeros_like(s[:1] if tied else s, requires_grad=True) for s in scores]
    logits = forward(tagger.model, ids, [(s + m).softmax(dim=-1) for s, m in zip(scores, moves, strict=True)])
    if positions == "words":
        loss = mean_entropy(logits, batch.words[row].nonzero().flatten().tolist())
    else:
        loss = mean_entropy(logits, list(range(length))) * length
    gradients = torch.autograd.grad(loss, moves)
    return torch.stack([(s - lr * g).softmax(dim=-1) for s, g in zip(scores, gradients, strict=True)]).detach()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("positions", ["words", "all"])
def test_one_step_of_each_kind_is_what_it_is_by_hand(tagger, positions: str, tied: bool, monkeypatch) -> None:
    monkeypatch.setattr(em, "PADDED", 0)  # the release sums over padding too; without it this can be done by hand
    encoded = tagger.pieces.encode(MADE.sentences("target", 3), languages=tagger.prepare(["target"]))
    for row in range(3):
        alone = encoded.batch(torch.tensor([row]), int(encoded.lengths[row]) + 2)
        expected = by_hand(tagger, alone, 0, positions, tied, 2.0)
        result = minimise_entropy(tagger.model, alone, EMConfig(steps=1, lr=2.0, positions=positions, tied=tied))
        torch.testing.assert_close(result.after[:-1, 0], expected[:-1], rtol=0, atol=1e-9)
        counts = alone.words[0] if positions == "words" else alone.mask[0]
        torch.testing.assert_close(result.after[-1, 0, counts], expected[-1, counts], rtol=0, atol=1e-9)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("padded", [128, 20])  # pieces: all sentences are shorter, some are longer
def test_the_releases_sum_does_not_hear_how_long_other_sentences_are(tagger, padded, tied, monkeypatch) -> None:
    config = EMConfig(steps=2, lr=0.5, positions="all", tied=tied)
    monkeypatch.setattr(em, "PADDED", padded)
    encoded = tagger.pieces.encode(MADE.sentences("target", 8), languages=tagger.prepare(["target"]))
    lengths = (encoded.lengths + 2).tolist()
    assert min(lengths) < 20 < max(lengths) < 100
    together = encoded.batch(torch.arange(8), max(lengths))
    found = minimise_entropy(tagger.model, together, config)
    assert found.logits.shape[:2] == found.before.shape[1:3] == found.after.shape[1:3] == together.words.shape
    for row, length in enumerate(lengths):
        alone = minimise_entropy(tagger.model, encoded.batch(torch.tensor([row]), length), config)
        torch.testing.assert_close(found.logits[row, :length], alone.logits[0], rtol=0, atol=1e-9)
        torch.testing.assert_close(found.after[:, row, :length], alone.after[:, 0], rtol=0, atol=1e-9)
    heard: list[torch.Tensor] = []
    minimise_entropy(tagger.model, together, config, on_step=lambda _, logits: heard.append(logits))
    torch.testing.assert_close(heard[-1], found.logits, rtol=0, atol=1e-9)
    if padded == 128:  # the release's own padding is what is added
        same = minimise_entropy(tagger.model, encoded.batch(torch.arange(8), 128), config).logits
        torch.testing.assert_close(same[:, : max(lengths)], found.logits, rtol=0, atol=1e-9)
        monkeypatch.setattr(em, "PADDED", 0)
        fewer = minimise_entropy(tagger.model, together, config).logits
        assert not torch.allclose(fewer[together.words], found.logits[together.words], atol=1e-6)


def test_tied_moves_are_the_same_for_all_tokens_of_a_layer(tagger, batch) -> None:
    result = minimise_entropy(tagger.model, batch, EMConfig(steps=3, lr=5.0, tied=True))
    for row in range(4):
        words = batch.words[row]
        moved = (result.after[:, row, words] / result.before[:, row, words]).log()
        moved = moved - moved.mean(dim=-1, keepdim=True)  # [L, words, K, N]
        torch.testing.assert_close(moved, moved[:, :1].expand_as(moved), rtol=0, atol=1e-9)
        assert moved.abs().max() > 1e-3


def test_only_the_releases_sum_hears_padding_and_specials(tagger, batch, monkeypatch) -> None:
    """Whatever is predicted at padding and specials, the entropy over words does not see it."""
    logits = torch.randn(*batch.words.shape, 5, dtype=torch.float64)
    changed = torch.where(batch.words[..., None], logits, torch.randn_like(logits))
    from zgul.ensemble.em import _sentence_entropy

    words = [_sentence_entropy(position_entropy(x), batch, "words") for x in (logits, changed)]
    assert torch.equal(*words)
    summed = [_sentence_entropy(position_entropy(x), batch, "all") for x in (logits, changed)]
    assert not torch.allclose(*summed)
    for row in range(4):
        positions = batch.words[row].nonzero().flatten().tolist()
        torch.testing.assert_close(words[0][row], mean_entropy(logits[row], positions))
    assert words[0][4] == 0, "a row without words has no entropy"


def test_a_label_that_is_ruled_out_adds_nothing() -> None:
    logits = torch.tensor([[[0.0, 0.0, -torch.inf]]], requires_grad=True)
    entropy = position_entropy(logits)
    assert entropy.item() == pytest.approx(torch.tensor(2.0).log().item())
    entropy.sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_what_comes_back(tagger, batch, steps: int) -> None:
    heard: list[tuple[int, torch.Tensor]] = []
    result = minimise_entropy(
        tagger.model, batch, EMConfig(steps=steps, lr=5.0), on_step=lambda step, x: heard.append((step, x))
    )
    shape = (2, *batch.words.shape, 2, 3)  # layers, sentences, tokens, views, adapters
    assert result.before.shape == result.after.shape == shape
    for weights in (result.before, result.after):
        ones = torch.ones(shape[1:-1], dtype=torch.float64)
        for layer, counts in zip(weights, (batch.mask, batch.words), strict=True):
            torch.testing.assert_close(layer.sum(dim=-1), ones * counts[..., None])
    assert torch.equal(result.before, result.after) == (steps == 0)
    assert not result.logits.requires_grad and len(result.entropy) == steps + 1
    assert [step for step, _ in heard] == list(range(steps + 1))
    assert torch.equal(heard[-1][1], result.logits)
    for step, logits in heard:  # what a run with fewer steps would give
        fewer = minimise_entropy(tagger.model, batch, EMConfig(steps=step, lr=5.0)).logits
        assert torch.equal(logits, fewer)


def test_entropy_falls(tagger, batch) -> None:
    entropy = minimise_entropy(tagger.model, batch, EMConfig(steps=5, lr=0.5)).entropy
    for earlier, later in itertools.pairwise(entropy):
        assert (later[:4] < earlier[:4]).all()


def test_the_model_is_left_as_it_was(tagger, batch) -> None:
    model = tagger.model
    asking = {name for name, value in model.named_parameters() if value.requires_grad}
    before = {name: value.clone() for name, value in model.named_parameters()}
    model.train()
    minimise_entropy(model, batch, EMConfig(steps=2))
    assert model.training
    model.eval()
    assert {name for name, value in model.named_parameters() if value.requires_grad} == asking
    assert all(torch.equal(value, before[name]) and value.grad is None for name, value in model.named_parameters())


@pytest.mark.parametrize("invertible", ["off", "first", "mixed"])
@pytest.mark.parametrize("strategy", ["uniform", "emea"])
def test_no_step_is_the_model_itself_for_madx(invertible: str, strategy: str) -> None:
    tagger = small_tagger("madx-multi", options=MethodOptions(dropout=0.0, invertible=invertible), double=True)
    rows = tagger.prepare(["target"], strategy)
    encoded = tagger.pieces.encode(MADE.sentences("target", 3), languages=rows)
    batch = encoded.batch(torch.arange(3), int(encoded.lengths.max()) + 2)
    with torch.no_grad():
        plain = tagger.model(batch)
    for config in (EMConfig(steps=0, tied=True), EMConfig(steps=2, lr=0.0, tied=True)):
        found = minimise_entropy(tagger.model, batch, config).logits
        torch.testing.assert_close(found[batch.words], plain[batch.words], rtol=0, atol=1e-12)
    moved = minimise_entropy(tagger.model, batch, EMConfig(steps=2, lr=5.0, tied=True))
    assert not torch.allclose(moved.logits[batch.words], plain[batch.words], atol=1e-6)
    assert moved.after.shape == (2, *batch.words.shape, 1, 3), "the invertible blocks' weights are no layer"
    assert (moved.entropy[-1] < moved.entropy[0]).all()


def test_emea_moves_the_weights_of_mixed_invertible_blocks() -> None:
    """EMEA's vector 0, with all others, by plain autograd on the whole model."""
    steps, lr = 2, 5.0
    tagger = small_tagger("madx-multi", options=MethodOptions(dropout=0.0, invertible="mixed"), double=True)
    encoded = tagger.pieces.encode(MADE.sentences("target", 3), languages=tagger.prepare(["target"], "emea"))
    batch = encoded.batch(torch.arange(3), int(encoded.lengths.max()) + 2)

    def by_autograd(moving: set[int]) -> torch.Tensor:
        zeros = torch.zeros(3, 1, 1, 3, dtype=torch.float64)  # sentences, one for all tokens, one view, adapters
        moves = {layer: zeros.clone().requires_grad_(layer in moving) for layer in (-1, 0, 1)}

        def logits() -> torch.Tensor:
            return tagger.model(batch, choose=lambda layer, scores: (scores() + moves[layer]).softmax(dim=-1))

        for _ in range(steps):
            found = logits()
            places = [batch.words[row].nonzero().flatten().tolist() for row in range(3)]
            loss = sum(mean_entropy(found[row], places[row]) for row in range(3))
            for layer, gradient in zip(moving, torch.autograd.grad(loss, [moves[n] for n in moving]), strict=True):
                moves[layer] = (moves[layer] - lr * gradient).detach().requires_grad_()
        return logits().detach()[batch.words]

    result = minimise_entropy(tagger.model, batch, EMConfig(steps=steps, lr=lr, tied=True)).logits[batch.words]
    torch.testing.assert_close(result, by_autograd({-1, 0, 1}), rtol=0, atol=1e-9)
    assert not torch.allclose(result, by_autograd({0, 1}), atol=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": -1},
        {"lr": -0.1},
        {"skip_below": -1.0},
        {"patience": -1},
        {"layers": -1},
        {"start": "zero"},
        {"positions": "specials"},
    ],
)
def test_settings_that_make_no_sense(wrong: dict) -> None:
    with pytest.raises(ZgulError, match=r"EM (needs|starts)"):
        EMConfig(**wrong)


def test_certain_sentences_can_be_left_as_they_are(tagger, batch) -> None:
    plain = minimise_entropy(tagger.model, batch, EMConfig(steps=0))
    moved = minimise_entropy(tagger.model, batch, EMConfig(steps=3, lr=20.0))
    entropy = plain.entropy[0][:4]
    between = float(entropy.sort().values[1:3].mean())
    some = minimise_entropy(tagger.model, batch, EMConfig(steps=3, lr=20.0, skip_below=between))
    for row in range(4):
        expected = moved if entropy[row] >= between else plain
        torch.testing.assert_close(some.logits[row], expected.logits[row], rtol=0, atol=1e-12)
        torch.testing.assert_close(some.after[:, row], expected.after[:, row], rtol=0, atol=1e-12)
    torch.testing.assert_close(some.before, plain.before)
    none = minimise_entropy(tagger.model, batch, EMConfig(steps=3, lr=20.0, skip_below=100.0))
    assert torch.equal(none.logits, plain.logits) and torch.equal(none.after, plain.after)


def test_recomputing_keeps_less_and_changes_nothing(tagger, batch) -> None:
    kept: dict[bool, int] = {}
    found = {}
    for recompute in (False, True):
        sizes: list[int] = []

        def keep(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            found[recompute] = minimise_entropy(tagger.model, batch, EMConfig(steps=2, lr=10.0, recompute=recompute))
        kept[recompute] = sum(sizes)
    torch.testing.assert_close(found[True].logits, found[False].logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(found[True].after, found[False].after, rtol=0, atol=1e-12)
    assert kept[True] < kept[False]


@pytest.mark.parametrize(
    ("name", "value"), [("steps", -1), ("lr", -0.1), ("lr", math.inf), ("lr", math.nan), ("skip_below", math.inf)]
)
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ZgulError, match=f"EM needs finite.*{name}={value}"):
        EMConfig(**{name: value})


@pytest.mark.parametrize("options", [{}, {"tied": True}, {"layers": 1}, {"start": "probabilities"}, {"steps": 0}])
@pytest.mark.parametrize("folded", [False, True])
def test_what_a_graph_replays_is_the_same(batch, options: dict, folded: bool) -> None:
    tagger = small_tagger(double=True)
    tagger.prepare(["target", "s1"])
    if folded:
        tagger.fold()
    config = EMConfig(**({"steps": 3, "lr": 4.0} | options))
    expected = minimise_entropy(tagger.model, batch, config)
    padded = batch.padded(8, batch.input_ids.shape[1] + 3, tagger.parts.encoder.pad)
    found = label_scores_after(tagger.model, padded, config)
    assert found.shape[0] == 8 and torch.isfinite(found).all() and not found.requires_grad
    found = found[:5, : batch.input_ids.shape[1]]
    torch.testing.assert_close(found[batch.words], expected.logits[batch.words], rtol=0, atol=1e-9)


def test_a_graph_cannot_decide_who_is_done(tagger, batch) -> None:
    for options in ({"skip_below": 1.0}, {"patience": 1}, {"positions": "all"}):
        with pytest.raises(ValueError, match="depends on the batch"):
            label_scores_after(tagger.model, batch, EMConfig(**options))


def test_the_uncertain_are_those_that_adaptive_em_would_move(tagger, batch) -> None:
    plain = minimise_entropy(tagger.model, batch, EMConfig(steps=0))
    middle = float(plain.entropy[0][:4].sort().values[1:3].mean())
    config = EMConfig(steps=1, lr=1.0, skip_below=middle)
    moved = minimise_entropy(tagger.model, batch, config).steps.nonzero().squeeze(1)
    assert len(moved) == 2 and torch.equal(uncertain(plain.logits, batch, config), moved)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("graphed", [False, True])
def test_wide_adapters_move_as_far_when_they_are_folded(batch, turned: bool, graphed: bool, monkeypatch) -> None:
    """Fusion's scores, which need no gradient, and the mix, which needs one, share the adapters' outputs."""
    monkeypatch.setattr("zgul.ensemble.weighting.SAFE", {torch.float64: math.inf if turned else 0.0})
    config, logits = EMConfig(steps=2, lr=20.0), []
    for folded in (False, True):
        tagger = small_tagger(double=True, depth=3, size=12)
        tagger.prepare(["target", "s1"])
        if folded:
            tagger.fold()
            weighting = tagger.model.weighting
            assert isinstance(weighting, Folded) and weighting.wide
            assert ("rest" in dict(weighting.named_buffers())) == turned
        plain = minimise_entropy(tagger.model, batch, replace(config, steps=0)).logits[batch.words]
        if graphed:
            logits.append(label_scores_after(tagger.model, batch, config)[batch.words])
        else:
            logits.append(minimise_entropy(tagger.model, batch, config).logits[batch.words])
        assert (logits[-1] - plain).abs().max() > 1e-2, "if nothing moves, this shows little"
    torch.testing.assert_close(logits[0], logits[1], rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "config",
    [
        EMConfig(steps=3, lr=2.0),
        EMConfig(steps=3, lr=2.0, tied=True),
        EMConfig(steps=3, lr=2.0, layers=1, skip_below=1.5, patience=1),
        EMConfig(steps=3, lr=2.0, positions="all"),
        EMConfig(steps=3, lr=2.0, recompute=True),
    ],
    ids=lambda config: ",".join(f"{key}={value}" for key, value in vars(config).items() if value)[:60],
)
def test_rows_that_only_round_up_change_nothing(monkeypatch, tagger, batch, config) -> None:
    """A CPU's products are compiled for each number of rows, so batches are given one of few."""
    found = []
    for rounded in (False, True):
        monkeypatch.setattr("zgul.products.compiled", lambda device, rounded=rounded: rounded)
        found.append(minimise_entropy(tagger.model, batch, config, weights=True))
    for name in ("logits", "before", "after", "steps"):
        plain, padded = (getattr(result, name) for result in found)
        torch.testing.assert_close(padded, plain, rtol=0, atol=1e-12)

"""EM in the upper layers alone: plain autograd with the lower layers' scores frozen gives the same."""

from dataclasses import replace

import pytest
import torch

from em_oracle import assert_same_em, slow_adaptive_em, slow_em
from small_tagger import MADE, small_tagger
from zgul.corpora.encode import Batch
from zgul.ensemble.em import EMConfig, minimise_entropy
from zgul.methods.base import MethodOptions
from zgul.methods.tagger import Tagger

DEPTH, STEPS, LR = 4, 3, 8.0


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return small_tagger(double=True, depth=DEPTH)


@pytest.fixture(scope="module")
def folded() -> Tagger:
    tagger = small_tagger(double=True, depth=DEPTH)
    tagger.prepare(["target", "s1"])
    return tagger.fold()


def batch_for(tagger: Tagger, strategy: str | None = None) -> Batch:
    """Six sentences of several lengths, padding behind the longest, and an empty row."""
    sentences = MADE.sentences("target", 4) + MADE.sentences("s1", 2)
    encoded = tagger.pieces.encode(sentences, languages=tagger.prepare(["target", "s1"], strategy))
    return encoded.batch(torch.tensor([*range(6), -1]), int(encoded.lengths.max()) + 4)


@pytest.fixture(scope="module")
def batch(tagger: Tagger) -> Batch:
    return batch_for(tagger)


def sentence(batch: Batch, row: int) -> tuple[list[int], list[int], list[int]]:
    """Pieces, the places of the words, and languages of one sentence, without padding."""
    length = int(batch.mask[row].sum())
    words = batch.words[row].nonzero().flatten().tolist()
    return batch.input_ids[row, :length].tolist(), words, batch.languages[row, :length].tolist()


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3, DEPTH])
def test_the_scores_below_stay(tagger, folded, batch, layers: int, recompute: bool) -> None:
    config = EMConfig(steps=STEPS, lr=LR, layers=layers, recompute=recompute)
    results = [minimise_entropy(each.model, batch, config) for each in (tagger, folded)]
    for row in range(6):
        pieces, words, languages = sentence(batch, row)
        expected = slow_em(tagger.model, pieces, words, languages, STEPS, LR, layers)
        for fast in results:
            assert_same_em(fast, row, words, expected)
    fast = results[0]
    below = DEPTH - layers
    assert torch.equal(fast.after[:below], fast.before[:below])
    assert all(not torch.allclose(fast.after[n], fast.before[n], atol=1e-6) for n in range(below, DEPTH))


def test_all_layers_can_be_said_in_two_ways(tagger, batch) -> None:
    every = minimise_entropy(tagger.model, batch, EMConfig(steps=STEPS, lr=LR))
    for layers in (DEPTH, DEPTH + 3):  # a setting for a deeper encoder means all of this one
        same = minimise_entropy(tagger.model, batch, EMConfig(steps=STEPS, lr=LR, layers=layers))
        assert torch.equal(same.logits, every.logits) and torch.equal(same.after, every.after)


@pytest.mark.parametrize("layers", [1, 3])
def test_no_step_is_the_model_itself(tagger, batch, layers: int) -> None:
    with torch.no_grad():
        plain = tagger.model(batch)
    for config in (EMConfig(steps=0, layers=layers), EMConfig(steps=2, lr=0.0, layers=layers)):
        result = minimise_entropy(tagger.model, batch, config)
        torch.testing.assert_close(result.logits[batch.words], plain[batch.words], rtol=0, atol=1e-12)
        assert torch.equal(result.before, result.after) and result.before.shape[0] == DEPTH


@pytest.mark.parametrize("patience", [0, 1, 2])
@pytest.mark.parametrize("layers", [1, 2])
def test_with_sentences_that_stop(tagger, batch, layers: int, patience: int) -> None:
    entropy = minimise_entropy(tagger.model, batch, EMConfig(steps=0)).entropy[0][:6]
    skip = float(entropy.sort().values[1:3].mean())
    config = EMConfig(steps=5, lr=LR, layers=layers, skip_below=skip, patience=patience)
    fast = minimise_entropy(tagger.model, batch, config)
    for row in range(6):
        pieces, words, languages = sentence(batch, row)
        rules = {"steps": 5, "lr": LR, "skip_below": skip, "patience": patience, "layers": layers}
        expected, steps = slow_adaptive_em(tagger.model, pieces, words, languages, **rules)
        assert int(fast.steps[row]) == steps
        assert_same_em(fast, row, words, expected)
    assert len(set(fast.steps[:6].tolist())) > 1, "if all sentences took as long, this shows little"


@pytest.mark.parametrize("invertible", ["off", "mixed"])
def test_tied_moves_below_invertible_blocks_that_stay(invertible: str) -> None:
    options = MethodOptions(dropout=0.0, invertible=invertible)
    tagger = small_tagger("madx-multi", options=options, double=True, depth=DEPTH)
    batch = batch_for(tagger, "emea")
    config = EMConfig(steps=2, lr=20.0, tied=True, layers=2)
    found = minimise_entropy(tagger.model, batch, config)
    assert torch.equal(found.after[:2], found.before[:2])
    for row in range(6):
        words = batch.words[row]
        moved = (found.after[2:, row, words] / found.before[2:, row, words]).log()  # [2, words, K, N]
        moved = moved - moved.mean(dim=-1, keepdim=True)
        torch.testing.assert_close(moved, moved[:, :1].expand_as(moved), rtol=0, atol=1e-9)
        assert moved.abs().max() > 1e-3
    for row in range(6):
        alone = Batch(**{name: value[row : row + 1] for name, value in vars(batch).items()})
        expected = minimise_entropy(tagger.model, alone, config)
        torch.testing.assert_close(found.logits[row], expected.logits[0], rtol=0, atol=1e-9)
    everywhere = minimise_entropy(tagger.model, batch, replace(config, layers=0))
    assert not torch.allclose(everywhere.logits, found.logits, atol=1e-6)


def test_the_layers_below_are_computed_once(tagger, batch, monkeypatch) -> None:
    computed: list[int] = []
    layer = type(tagger.model.encoder).layer

    def counted(self, index, *arguments):
        computed.append(index)
        return layer(self, index, *arguments)

    monkeypatch.setattr(type(tagger.model.encoder), "layer", counted)
    minimise_entropy(tagger.model, batch, EMConfig(steps=STEPS, lr=LR, layers=2))
    assert sorted(computed) == [0, 1, 2, *[3] * (STEPS + 1)]

"""Adaptive EM: sentences that are certain or settled leave the batch; a slow loop over sentences gives the same."""

import pytest
import torch

from em_oracle import assert_same_em, slow_adaptive_em
from small_tagger import MADE, small_tagger
from zgul.corpora.encode import Batch
from zgul.ensemble.em import EMConfig, minimise_entropy
from zgul.methods.base import MethodOptions
from zgul.methods.tagger import Tagger

STEPS, LR = 5, 4.0


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return small_tagger(double=True)


def batch_for(tagger: Tagger, strategy: str | None = None) -> Batch:
    """Twelve sentences of several lengths, with padding behind the longest, and an empty row."""
    sentences = MADE.sentences("target", 8) + MADE.sentences("s1", 4)
    encoded = tagger.pieces.encode(sentences, languages=tagger.prepare(["target", "s1"], strategy))
    return encoded.batch(torch.tensor([*range(12), -1]), int(encoded.lengths.max()) + 4)


@pytest.fixture(scope="module")
def batch(tagger: Tagger) -> Batch:
    return batch_for(tagger)


@pytest.fixture(scope="module")
def median(tagger: Tagger, batch: Batch) -> float:
    """An entropy that half of the sentences stay below, and none has."""
    entropy = minimise_entropy(tagger.model, batch, EMConfig(steps=0)).entropy[0][:12]
    return float(entropy.sort().values[5:7].mean())


@pytest.mark.parametrize("patience", [0, 1, 2, 3])
@pytest.mark.parametrize("skip", [False, True])
def test_each_sentence_ends_as_in_a_slow_loop(tagger, batch, median, skip: bool, patience: int) -> None:
    skip_below = median if skip else 0.0
    config = EMConfig(steps=STEPS, lr=LR, skip_below=skip_below, patience=patience)
    fast = minimise_entropy(tagger.model, batch, config)
    for row in range(12):
        length = int(batch.mask[row].sum())
        words = batch.words[row].nonzero().flatten().tolist()
        expected, steps = slow_adaptive_em(
            tagger.model,
            batch.input_ids[row, :length].tolist(),
            words,
            batch.languages[row, :length].tolist(),
            steps=STEPS,
            lr=LR,
            skip_below=skip_below,
            patience=patience,
        )
        assert int(fast.steps[row]) == steps
        assert_same_em(fast, row, words, expected)
        assert fast.logits[row, words].argmax(dim=-1).tolist() == expected.logits[words].argmax(dim=-1).tolist()
    if patience in (1, 2):
        assert len(set(fast.steps[:12].tolist())) > 1, "if all sentences took as long, this shows little"


def test_with_both_off_it_is_full_em(tagger, batch) -> None:
    full = minimise_entropy(tagger.model, batch, EMConfig(steps=STEPS, lr=LR))
    assert full.steps.tolist() == [STEPS] * 13 and len(full.entropy) == STEPS + 1
    never = minimise_entropy(tagger.model, batch, EMConfig(steps=STEPS, lr=LR, skip_below=1e-9, patience=STEPS + 1))
    torch.testing.assert_close(never.logits[:12], full.logits[:12], rtol=0, atol=1e-9)
    heard: list[torch.Tensor] = []
    adaptive = EMConfig(steps=STEPS, lr=LR, skip_below=100.0, patience=1)
    told = minimise_entropy(tagger.model, batch, adaptive, on_step=lambda _, logits: heard.append(logits))
    assert len(heard) == STEPS + 1, "who listens hears full EM"
    assert torch.equal(told.logits, full.logits)


def test_finished_sentences_cost_nothing_more(tagger, batch, median, monkeypatch) -> None:
    sizes: list[int] = []
    forward = type(tagger.model).forward

    def counted(self, part, *arguments, **named):
        sizes.append(len(part.rows))
        return forward(self, part, *arguments, **named)

    monkeypatch.setattr(type(tagger.model), "forward", counted)
    result = minimise_entropy(tagger.model, batch, EMConfig(steps=STEPS, lr=LR, skip_below=median, patience=1))
    expected = [13]
    for step in range(STEPS):
        moving = int((result.steps > step).sum())
        if 2 * moving < expected[-1] and moving:  # their gradient comes from a forward of their own
            expected.append(moving)
        expected += [moving] if moving else []
    assert sizes == expected
    assert sizes[-1] < 6, "some stopped before others"
    everyone = minimise_entropy(tagger.model, batch, EMConfig(steps=STEPS, skip_below=100.0))
    assert sizes[-1] == 13 and everyone.steps.sum() == 0, "all certain: one forward"


def test_what_comes_back_has_every_sentence(tagger, batch, median) -> None:
    result = minimise_entropy(tagger.model, batch, EMConfig(steps=STEPS, lr=LR, skip_below=median, patience=2))
    assert all(entropy.shape == (13,) for entropy in result.entropy)
    for row, steps in enumerate(result.steps.tolist()):
        ended = [float(entropy[row]) for entropy in result.entropy[steps:]]
        assert len(set(ended)) == 1, "a finished sentence's entropy stays"
    assert not result.logits.requires_grad and result.logits.isfinite().all()


@pytest.mark.parametrize("invertible", ["off", "mixed"])
def test_tied_moves_and_invertible_blocks_leave_the_batch_too(invertible: str) -> None:
    options = MethodOptions(dropout=0.0, invertible=invertible)
    tagger = small_tagger("madx-multi", options=options, double=True)
    batch = batch_for(tagger, "emea")
    config = EMConfig(steps=4, lr=20.0, tied=True, patience=1)
    together = minimise_entropy(tagger.model, batch, config)
    assert len(set(together.steps[:12].tolist())) > 1
    for row in range(12):
        alone = Batch(**{name: value[row : row + 1] for name, value in vars(batch).items()})
        expected = minimise_entropy(tagger.model, alone, config)
        assert together.steps[row] == expected.steps[0]
        torch.testing.assert_close(together.logits[row], expected.logits[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("patience", [0, 1])
def test_what_is_not_asked_for_changes_nothing(tagger, batch, median, patience: int) -> None:
    config = EMConfig(steps=STEPS, lr=LR, skip_below=median, patience=patience)
    whole, bare = (minimise_entropy(tagger.model, batch, config, weights=asked) for asked in (True, False))
    assert torch.equal(whole.logits, bare.logits) and torch.equal(whole.steps, bare.steps)
    assert whole.after is not None and bare.before is None and bare.after is None

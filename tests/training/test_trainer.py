"""The training loop: batches, schedule, selection, early stopping, resuming, and a loss that is no number."""

import itertools
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from small_tagger import MADE, small_tagger
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.methods.tagger import Tagger
from zgul.training.config import NoiseConfig, TrainingConfig
from zgul.training.data import LabelledData, labelled_data
from zgul.training.loop import Trainer, seed_everything
from zgul.training.stepper import Stepper


def config_of(**more) -> TrainingConfig:
    values = {
        "sources": tuple(MADE.sources),
        "epochs": 3,
        "batch_size": 8,
        "accumulate": 2,
        "lr": 1e-2,
        "device": "cpu",
    }
    return TrainingConfig(**values | more)


def data_of(config: TrainingConfig, dev: bool = True) -> LabelledData:
    train = [s for source in MADE.sources for s in MADE.sentences(source, 30)]
    held = [s for source in MADE.sources for s in MADE.sentences(source, 10, 1)] if dev else []
    return labelled_data(train, held, config)


def trainer_of(folder: Path | None = None, method: str = "zgul", dev: bool = True, **more) -> Trainer:
    config = config_of(method=method, **more)
    seed_everything(config.seed)
    data = data_of(config, dev)
    tagger = small_tagger(method, labels=data.labels, random=False)
    tagger.model.dropout.p = 0.1  # so that the random state matters
    return Trainer(tagger, data, config, folder)


def weights(tagger: Tagger) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in tagger.model.named_parameters()}


def assert_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_an_epoch_holds_every_sentence_once_in_batches_of_mixed_languages() -> None:
    trainer = trainer_of()
    corpus = trainer._epoch(0)
    for epoch in range(3):
        batches = list(trainer._order(corpus, epoch))
        rows = torch.cat([rows for rows, _ in batches])
        assert sorted(rows[rows >= 0].tolist()) == list(range(90))
        assert len(batches) == trainer.steps_per_epoch == 6
        mixed = [len(set(corpus.corpus[rows[rows >= 0]].tolist())) for rows, _ in batches]
        assert np.mean(mixed) > 2
        for rows, length in batches:
            assert length % 16 == 0 and length >= int(corpus.lengths[rows[rows >= 0]].max()) + 2
    orders = [[rows.tolist() for rows, _ in trainer._order(corpus, epoch)] for epoch in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_which_sentences_meet_in_a_batch_and_when_is_drawn_afresh(monkeypatch) -> None:
    monkeypatch.setattr("zgul.training.loop.POOL", 2)
    trainer = trainer_of()
    corpus = trainer._epoch(0)
    orders = [[rows.tolist() for rows, _ in trainer._order(corpus, epoch)] for epoch in range(3)]
    together = [{frozenset(rows) for rows in order} for order in orders]
    assert not together[0] & together[1] and not together[1] & together[2], "other sentences meet"
    # within a pool batches are sorted by length; their order must not follow it
    lengths = [[int(corpus.lengths[rows].max()) for rows in order] for order in orders]
    assert all(found != sorted(found) for found in lengths)
    monkeypatch.setattr("zgul.training.loop.POOL", 50)  # all in one pool: sorted by length, were it not for the draw
    lengths = [[int(corpus.lengths[rows].max()) for rows, _ in trainer._order(corpus, epoch)] for epoch in range(3)]
    assert all(found != sorted(found) for found in lengths) and lengths[0] != lengths[1] != lengths[2]


def test_weight_decay_pulls_towards_zero() -> None:
    norms = []
    for more in ({}, {"weight_decay": 5.0}):
        trainer = trainer_of(epochs=1, select="last", **more)
        before = float(trainer.tagger.model.head.weight.detach().norm())
        trainer.run()
        norms.append(float(trainer.tagger.model.head.weight.detach().norm()) / before)
    assert norms[1] < 0.95 * norms[0]


def test_the_learning_rate_warms_up_and_decays_to_nothing() -> None:
    trainer = trainer_of(epochs=10, warmup=0.1)
    rates = [trainer._lr(step) for step in range(trainer.total_steps + 1)]
    warm = trainer.total_steps // 10
    assert rates[0] == pytest.approx(1e-2 / warm) and max(rates) == pytest.approx(1e-2)
    assert all(a < b for a, b in itertools.pairwise(rates[:warm]))
    assert all(a > b for a, b in itertools.pairwise(rates[warm:]))
    assert rates[-1] == 0.0
    assert trainer_of(warmup=0.0)._lr(0) == 1e-2


def test_training_learns_and_the_same_seed_gives_the_same_weights() -> None:
    first = trainer_of()
    history = first.run()
    assert [entry["epoch"] for entry in history] == [1, 2, 3]
    assert history[-1]["loss"] < history[0]["loss"] and history[-1]["dev_f1"] > history[0]["dev_f1"]
    second = trainer_of()
    assert second.run() == history
    assert_equal(weights(first.tagger), weights(second.tagger))
    assert trainer_of(seed=1).run() != history


def test_dev_f1_is_that_of_the_taggers_own_predictions() -> None:
    trainer = trainer_of(epochs=1)
    trainer.run()
    predicted = [p.tags for p in trainer.tagger.predict(trainer.data.dev, strategy="plain")]
    assert trainer.dev_scores().f1 == pytest.approx(scores(trainer.gold, predicted).f1)


def full_above(limit: int, model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """While evaluating, batches of more tokens than ``limit`` do not fit into memory; gives the sizes tried."""
    tried: list[int] = []
    real = model.forward

    def forward(batch, **more):
        if not model.training:
            tried.append(batch.input_ids.numel())
            if tried[-1] > limit:
                raise torch.OutOfMemoryError("CUDA out of memory")
        return real(batch, **more)

    monkeypatch.setattr(model, "forward", forward)
    return tried


def test_an_evaluation_that_does_not_fit_goes_on_in_smaller_batches(monkeypatch) -> None:
    whole = trainer_of().run()
    trainer = trainer_of()
    trainer.dev_tokens = 1024
    tried = full_above(256, trainer.tagger.model, monkeypatch)
    with pytest.warns(ZgulWarning, match="out of memory: going on with 256 tokens at a time"):
        assert trainer.run() == whole
    assert sum(tokens > 256 for tokens in tried) == 2, "later evaluations start with what fits"


def test_memory_too_small_to_evaluate_loses_no_step(tmp_path, monkeypatch) -> None:
    trainer = trainer_of(tmp_path)
    full_above(0, trainer.tagger.model, monkeypatch)
    with (
        pytest.warns(ZgulWarning),
        pytest.raises(ZgulError, match="out of memory even with one sentence at a time; use a device with more memory"),
    ):
        trainer.run()
    whole = trainer_of()
    history = whole.run()
    resumed, steps, real = trainer_of(tmp_path), itertools.count(), Stepper.step
    monkeypatch.setattr(Stepper, "step", lambda self, b: (next(steps), real(self, b))[1])
    assert resumed.run(resume=True) == history, "the evaluation is made up for"
    assert next(steps) == 12, "and the first epoch not trained again"
    assert_equal(weights(whole.tagger), weights(resumed.tagger))


@pytest.mark.parametrize("more", [{}, {"eval_every": 5}, {"epochs": 1}, {"eval_every": 5, "patience": 1}])
def test_stopped_in_any_evaluation_and_resumed_equals_uninterrupted(tmp_path, monkeypatch, more: dict) -> None:
    whole = trainer_of(**more)
    history = whole.run()
    real = Trainer.dev_scores
    for at in range(len(history)):
        folder, evaluations = tmp_path / str(at), itertools.count()

        def dev_scores(self, report=None, at=at, evaluations=evaluations):
            if next(evaluations) == at:
                raise Stop
            return real(self, report)

        monkeypatch.setattr(Trainer, "dev_scores", dev_scores)
        with pytest.raises(Stop):
            trainer_of(folder, **more).run()
        monkeypatch.setattr(Trainer, "dev_scores", real)
        resumed = trainer_of(folder, **more)
        assert resumed.run(resume=True) == history
        assert_equal(weights(whole.tagger), weights(resumed.tagger))


def scripted(monkeypatch: pytest.MonkeyPatch, f1: list[float]) -> None:
    """Let the dev sets say these F1s, one after the other."""
    values = iter(f1)

    class Said:
        def __init__(self) -> None:
            self.f1 = next(values)

    monkeypatch.setattr(Trainer, "dev_scores", lambda self, *_: Said())


def snapshots(trainer: Trainer) -> list[dict[str, torch.Tensor]]:
    """The weights at each evaluation, filled while training."""
    found: list[dict[str, torch.Tensor]] = []
    trainer_report = lambda entry: found.append(weights(trainer.tagger)) if "dev_f1" in entry else None  # noqa: E731
    trainer.run(report=trainer_report)
    return found


@pytest.mark.parametrize(("select", "kept"), [("best", 1), ("last", 3)])
def test_selection_keeps_the_best_or_the_last_weights(monkeypatch, select: str, kept: int) -> None:
    scripted(monkeypatch, [10, 30, 30, 20])
    trainer = trainer_of(epochs=4, select=select)
    found = snapshots(trainer)
    assert len(found) == 4
    assert_equal(found[kept], weights(trainer.tagger))
    assert (trainer.progress.best_f1, trainer.progress.best_step) == (30, 12)


def test_early_stopping_counts_evaluations_without_a_better_f1(monkeypatch) -> None:
    scripted(monkeypatch, [10, 9, 30, 30, 20, 50])
    trainer = trainer_of(epochs=6, patience=2)
    history = trainer.run()
    assert [entry["dev_f1"] for entry in history] == [10, 9, 30, 30, 20]


def test_evaluations_may_come_within_epochs(monkeypatch) -> None:
    scripted(monkeypatch, [1, 2, 3, 4, 5])
    assert [entry["step"] for entry in trainer_of(eval_every=4).run()] == [4, 8, 12, 16, 18], "and at the end"


def test_without_dev_data_the_last_weights_are_kept() -> None:
    trainer = trainer_of(dev=False, patience=1)
    found = snapshots(trainer)
    assert len(found) == 3, "nothing says that training should stop"
    assert_equal(found[-1], weights(trainer.tagger))


def test_a_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoint(tmp_path, monkeypatch) -> None:
    trainer = trainer_of(tmp_path)
    real, steps = Stepper.step, itertools.count()
    monkeypatch.setattr(Stepper, "step", lambda self, b: real(self, b) * (torch.nan if next(steps) == 8 else 1))
    with pytest.raises(ZgulError, match=r"the loss is no longer a number at step 12; lower --lr \(now 0.01\)"):
        trainer.run()
    again = trainer_of(tmp_path)
    monkeypatch.setattr(Stepper, "step", real)
    again.run(resume=True)
    whole = trainer_of()
    whole.run()
    assert_equal(weights(whole.tagger), weights(again.tagger))


class Stop(Exception):
    pass


@pytest.mark.parametrize("method", ["zgul", "sft-m", "madx-multi", "cpg"])
@pytest.mark.parametrize("at", [5, 6, 14])
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path, monkeypatch, method: str, at: int) -> None:
    """Killed after any step: the run goes on from its last checkpoint and ends in the same bits."""
    more = {"method": method, "eval_every": 5, "noise": NoiseConfig(sentences=0.5), "lr": 3e-3}
    whole = trainer_of(**more)
    history = whole.run()
    trainer = trainer_of(tmp_path, **more)
    real, steps = Stepper.step, itertools.count()

    def step(self, batch):
        if next(steps) == at:
            raise Stop
        return real(self, batch)

    monkeypatch.setattr(Stepper, "step", step)
    with pytest.raises(Stop):
        trainer.run()
    monkeypatch.setattr(Stepper, "step", real)
    resumed = trainer_of(tmp_path, **more)
    torch.manual_seed(12345)  # whatever happened since
    assert resumed.run(resume=True) == history
    assert_equal(weights(whole.tagger), weights(resumed.tagger))


@pytest.mark.parametrize("changed", [{"lr": 1e-3}, {"seed": 4}, {"epochs": 9}, {"noise": NoiseConfig(sentences=0.1)}])
def test_a_checkpoint_of_another_run_is_refused(tmp_path, changed: dict) -> None:
    trainer_of(tmp_path, epochs=1).run()
    with pytest.raises(ZgulError, match="belongs to a run with another configuration"):
        trainer_of(tmp_path, **{"epochs": 1} | changed).run(resume=True)


@pytest.mark.parametrize("part", ["train", "dev"])
@pytest.mark.parametrize("what", ["words", "tags"])
def test_a_checkpoint_of_other_sentences_is_refused(tmp_path, part: str, what: str) -> None:
    trainer_of(tmp_path, epochs=1).run()
    assert trainer_of(tmp_path, epochs=1).resume()
    other = trainer_of(tmp_path, epochs=1)
    values = getattr(getattr(other.data, part)[5], what)
    values[0] = next(label for label in other.data.labels if label != values[0])
    with pytest.raises(ZgulError, match="or other data; use another --output, or --overwrite it"):
        other.resume()


def test_the_fingerprint_of_many_sentences_is_quick() -> None:
    trainer = trainer_of()
    trainer.data.train = trainer.data.train * 1000  # 90,000: more than any group has
    started = time.monotonic()
    assert trainer._fingerprint and time.monotonic() - started < 10


def test_the_tagger_keeps_its_own_limit_of_pieces() -> None:
    trainer = trainer_of(max_pieces=10)
    assert trainer.pieces.max_pieces == 8 and trainer.tagger.pieces.max_pieces == 126
    assert trainer.steps_per_epoch > 6, "long sentences are cut into several"
    trainer.run()
    assert [len(p.tags) for p in trainer.tagger.predict(trainer.data.dev)] == [len(s) for s in trainer.data.dev]


def test_bf16_is_used_where_asked() -> None:
    exact, rough = trainer_of(epochs=1), trainer_of(epochs=1, precision="bfloat16")
    assert exact.run()[0]["loss"] == pytest.approx(rough.run()[0]["loss"], rel=0.1)
    assert not torch.equal(exact.tagger.model.head.weight, rough.tagger.model.head.weight)
    assert rough.tagger.model.head.weight.dtype == torch.float32

"""The training loop: batches, schedule, selection, early stopping, resuming, and a loss that is no number."""

import itertools
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from family import tiny_encoder
from small_tagger import MADE, WIDTH, small_tagger
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import Batch
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.methods import MethodOptions
from zgul.progress import Status
from zgul.tagger import Tagger
from zgul.tensors import load_tensors
from zgul.training import distributed
from zgul.training import trainer as trainer_module
from zgul.training.config import NoiseConfig, TrainingConfig
from zgul.training.labelled_data import LabelledData, labelled_data
from zgul.training.optimiser import Optimiser, Stepper
from zgul.training.trainer import CHECKPOINT, EMBEDDINGS, Trainer


def config_of(**more: Any) -> TrainingConfig:
    values: dict[str, Any] = {
        "sources": tuple(MADE.sources),
        "epochs": 3,
        "batch_size": 4,
        "accumulate": 2,
        "lr": 1e-2,
        "device": "cpu",
    }
    return TrainingConfig(**values | more)


def data_of(config: TrainingConfig, dev: bool = True) -> LabelledData:
    train = [s for source in MADE.sources for s in MADE.sentences(source, 16)]
    held = [s for source in MADE.sources for s in MADE.sentences(source, 5, 1)] if dev else []
    return labelled_data(train, held, config)


def trainer_of(folder: Path | None = None, method: str = "zgul", dev: bool = True, **more: Any) -> Trainer:
    """A run with dropout, so that the random state matters."""
    config = config_of(method=method, **more)
    torch.manual_seed(config.seed)
    data = data_of(config, dev)
    tagger = small_tagger(method, labels=data.labels, random=False, options=MethodOptions(dropout=0.1), depth=1)
    return Trainer(tagger, data, config, folder)


def resumed(trainer: Trainer) -> list[dict[str, Any]]:
    """Go on from the checkpoint."""
    assert trainer.resume()
    return trainer.run()


def weights(tagger: Tagger) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in tagger.model.named_parameters()}


def assert_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


# --- batches and rates


def batches_of(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[list[Batch]]:
    """The batches of each epoch. Nothing is learnt."""
    seen: list[Batch] = []

    def step(self: Stepper, batch: Batch) -> torch.Tensor:
        seen.append(batch)
        return torch.zeros(())

    monkeypatch.setattr(Stepper, "step", step)
    trainer.run()
    return [seen[at : at + trainer.steps_per_epoch] for at in range(0, len(seen), trainer.steps_per_epoch)]


def test_an_epoch_holds_every_sentence_once_in_batches_of_mixed_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of()
    epochs = batches_of(trainer, monkeypatch)
    assert len(epochs) == 3 and trainer.steps_per_epoch == 6 and trainer.total_steps == 18
    for batches in epochs:
        rows = torch.cat([batch.rows for batch in batches])
        assert sorted(rows.tolist()) == list(range(48))
        assert np.mean([len(set(batch.corpora.tolist())) for batch in batches]) > 2
        for batch in batches:
            length = batch.input_ids.shape[1]
            assert length % 16 == 0 and length - 16 < int(batch.mask.sum(dim=1).max()) <= length
    orders = [[batch.rows.tolist() for batch in batches] for batches in epochs]
    again = [[batch.rows.tolist() for batch in batches] for batches in batches_of(trainer_of(), monkeypatch)]
    assert orders == again and orders[0] != orders[1]


@pytest.mark.parametrize("pool", [2, 50])
def test_which_sentences_meet_in_a_batch_and_when_is_drawn_afresh(monkeypatch: pytest.MonkeyPatch, pool: int) -> None:
    monkeypatch.setattr("zgul.training.trainer.POOL", pool)
    epochs = batches_of(trainer_of(), monkeypatch)
    if pool == 2:
        together = [{frozenset(batch.rows.tolist()) for batch in batches} for batches in epochs]
        assert not together[0] & together[1] and not together[1] & together[2], "other sentences meet"
    # within a pool batches are sorted by length; their order must not follow it
    lengths = [[int(batch.mask.sum(dim=1).max()) for batch in batches] for batches in epochs]
    assert all(order != sorted(order) for order in lengths) and lengths[0] != lengths[1] != lengths[2]


def test_the_learning_rate_warms_up_and_decays_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    monkeypatch.setattr(Optimiser, "set_lr", lambda self, lr: rates.append(lr))
    trainer = trainer_of(epochs=10, warmup=0.1)
    batches_of(trainer, monkeypatch)
    warm = trainer.total_steps // 10
    assert len(rates) == 60 and rates[0] == pytest.approx(1e-2 / warm) and max(rates) == pytest.approx(1e-2)
    assert all(a < b for a, b in itertools.pairwise(rates[:warm]))
    assert all(a > b for a, b in itertools.pairwise(rates[warm:]))
    assert 0 < rates[-1] < 1e-2 / 50
    rates.clear()
    batches_of(trainer_of(warmup=0.0), monkeypatch)
    assert rates[0] == 1e-2


@pytest.mark.parametrize(("epochs", "warmup"), [(1, 0.01), (1, 0.25), (3, 0.07)])
def test_a_warm_up_of_a_few_steps_never_exceeds_the_learning_rate(
    monkeypatch: pytest.MonkeyPatch, epochs: int, warmup: float
) -> None:
    rates: list[float] = []
    monkeypatch.setattr(Optimiser, "set_lr", lambda self, lr: rates.append(lr))
    batches_of(trainer_of(epochs=epochs, warmup=warmup), monkeypatch)
    assert max(rates) <= 1e-2 and rates[-1] > 0


def test_weight_decay_pulls_towards_zero() -> None:
    norms = []
    for more in ({}, {"weight_decay": 5.0}):
        trainer = trainer_of(epochs=1, select="last", **more)
        before = float(trainer.tagger.model.head.weight.detach().norm())
        trainer.run()
        norms.append(float(trainer.tagger.model.head.weight.detach().norm()) / before)
    assert norms[1] < 0.95 * norms[0]


# --- learning


def test_training_learns_and_the_same_seed_gives_the_same_weights() -> None:
    first = trainer_of()
    history = first.run()
    assert [entry["epoch"] for entry in history] == [1, 2, 3]
    assert history[-1]["loss"] < history[0]["loss"] and history[-1]["dev_f1"] > history[0]["dev_f1"]
    second = trainer_of()
    assert second.run() == history
    assert_equal(weights(first.tagger), weights(second.tagger))
    assert trainer_of(seed=1).run() != history


def test_progress_is_reported() -> None:
    heard: list[Status] = []
    history = trainer_of(epochs=1).run(heard.append)
    training = [status for status in heard if status.stage == "training"]
    assert [status.done for status in training] == list(range(1, 7)) and {status.total for status in training} == {6}
    assert all("loss" in status.figures for status in training)
    assert training[-1].figures["dev F1"] == training[-1].figures["best"] == history[0]["dev_f1"]
    dev = [status for status in heard if status.stage == "dev sets"]
    assert dev[-1].done == dev[-1].total == 15


def test_a_head_start_is_kept() -> None:
    """What the model holds before training is where training starts."""
    trainer = trainer_of(epochs=1, lr=0.0)
    trainer.tagger.model.start_head_at(trainer.data.label_shares())
    before = weights(trainer.tagger)
    loss = trainer.run()[0]["loss"]
    assert_equal(before, weights(trainer.tagger))
    shares = trainer.data.label_shares()
    entropy = float(-(shares * shares.clamp(min=1e-9).log()).sum())
    assert loss == pytest.approx(entropy, rel=0.1), "a new head's weights are small: it knows the shares alone"


def test_dev_f1_is_that_of_the_taggers_own_predictions() -> None:
    trainer = trainer_of(epochs=1)
    trainer.run()
    predicted = [p.tags for p in trainer.tagger.predict(trainer.data.dev, strategy="plain")]
    assert trainer.dev_scores().f1 == pytest.approx(scores(trainer.gold, predicted).f1)


# --- memory


def full_above(limit: int, model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """While evaluating, batches of more tokens than ``limit`` do not fit into memory. Gives the sizes tried."""
    tried: list[int] = []
    real = model.forward

    def forward(batch: Batch, **more: Any) -> torch.Tensor:
        if not model.training:
            tried.append(batch.input_ids.numel())
            if tried[-1] > limit:
                raise torch.OutOfMemoryError("CUDA out of memory")
        return real(batch, **more)

    monkeypatch.setattr(model, "forward", forward)
    return tried


def test_an_evaluation_that_does_not_fit_goes_on_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trainer_of().run()
    trainer = trainer_of()
    trainer.dev_tokens = 1024
    tried = full_above(256, trainer.tagger.model, monkeypatch)
    with pytest.warns(ZgulWarning) as said:
        assert trainer.run() == whole
    assert str(said[-1].message) == "out of memory: continuing with 256 tokens at a time"
    assert sum(tokens > 256 for tokens in tried) == 2, "later evaluations start with what fits"


def test_memory_too_small_to_evaluate_loses_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(tmp_path)
    full_above(0, trainer.tagger.model, monkeypatch)
    with (
        pytest.warns(ZgulWarning),
        pytest.raises(
            ZgulError, match="out of memory even with one of the tokens at a time; use a device with more memory"
        ),
    ):
        trainer.run()
    whole = trainer_of()
    history = whole.run()
    again, steps, real = trainer_of(tmp_path), itertools.count(), Stepper.step
    monkeypatch.setattr(Stepper, "step", lambda self, b: (next(steps), real(self, b))[1])
    assert resumed(again) == history, "the evaluation is made up for"
    assert next(steps) == 12, "and the first epoch not trained again"
    assert_equal(weights(whole.tagger), weights(again.tagger))


# --- resuming


@pytest.mark.parametrize("more", [{}, {"eval_every": 5}, {"epochs": 1}, {"eval_every": 5, "patience": 1}])
def test_stopped_in_any_evaluation_and_resumed_equals_uninterrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    whole = trainer_of(**more)
    history = whole.run()
    real = Trainer.dev_scores
    for at in range(len(history)):
        folder, evaluations = tmp_path / str(at), itertools.count()

        def dev_scores(self: Trainer, report: Any, at: int = at, evaluations: Any = evaluations) -> Any:
            if next(evaluations) == at:
                raise Stop
            return real(self, report)

        monkeypatch.setattr(Trainer, "dev_scores", dev_scores)
        with pytest.raises(Stop):
            trainer_of(folder, **more).run()
        monkeypatch.setattr(Trainer, "dev_scores", real)
        again = trainer_of(folder, **more)
        assert resumed(again) == history
        assert_equal(weights(whole.tagger), weights(again.tagger))


# --- selection and early stopping


def scripted(monkeypatch: pytest.MonkeyPatch, f1: list[float]) -> None:
    """Let the dev sets give these F1s, one after the other."""
    values = iter(f1)

    class Scripted:
        def __init__(self) -> None:
            self.f1 = next(values)

    monkeypatch.setattr(Trainer, "dev_scores", lambda self, *_: Scripted())


def snapshots(trainer: Trainer) -> list[dict[str, torch.Tensor]]:
    """The weights at each evaluation, filled while training."""
    found: list[dict[str, torch.Tensor]] = []

    def report(status: Status) -> None:
        if len(trainer.progress.history) > len(found):
            found.append(weights(trainer.tagger))

    trainer.run(report)
    return found


@pytest.mark.parametrize(("select", "kept"), [("best", 1), ("last", 3)])
def test_selection_keeps_the_best_or_the_last_weights(monkeypatch: pytest.MonkeyPatch, select: str, kept: int) -> None:
    scripted(monkeypatch, [10, 30, 30, 20])
    trainer = trainer_of(epochs=4, select=select)
    found = snapshots(trainer)
    assert len(found) == 4
    assert_equal(found[kept], weights(trainer.tagger))
    assert trainer.progress.best_f1 == 30


def test_selection_averages_the_weights_of_the_second_half(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, epochs=5, select="average")
    found = snapshots(trainer)
    expected = {name: torch.stack([one[name].double() for one in found[2:]]).mean(dim=0) for name in found[0]}
    for name, value in weights(trainer.tagger).items():
        torch.testing.assert_close(value.double(), expected[name], rtol=1e-5, atol=1e-6)
    assert trainer.progress.best_f1 == trainer.dev_scores().f1, "the score is that of the mean"
    again = trainer_of(tmp_path, epochs=5, select="average")
    assert again.resume()
    again.run()
    assert_equal(weights(again.tagger), weights(trainer.tagger))


def test_early_stopping_counts_evaluations_without_a_better_f1(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, [10, 9, 30, 30, 20, 50])
    trainer = trainer_of(epochs=6, patience=2)
    history = trainer.run()
    assert [entry["dev_f1"] for entry in history] == [10, 9, 30, 30, 20]


def test_evaluations_may_come_within_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, [1, 2, 3, 4, 5])
    assert [entry["step"] for entry in trainer_of(eval_every=4).run()] == [4, 8, 12, 16, 18], "and at the end"


def test_without_dev_data_the_last_weights_are_kept() -> None:
    trainer = trainer_of(dev=False, patience=1)
    found = snapshots(trainer)
    assert len(found) == 3, "nothing says that training should stop"
    assert_equal(found[-1], weights(trainer.tagger))


def test_a_checkpoint_holds_what_is_trained(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, "sft-m")
    before = trainer.tagger.model.encoder.words.weight.detach().clone()
    trainer.run()
    used = trainer.optimiser.rows[EMBEDDINGS][1]
    assert 0 < len(used) < len(before)
    saved = load_tensors(tmp_path / CHECKPOINT)
    shapes = {tuple(value.shape) for name, value in saved.items() if name.startswith(("model.enc", "best.enc", "opt"))}
    assert tuple(before.shape) not in shapes and (len(used), before.shape[1]) in shapes
    after = trainer.tagger.model.encoder.words.weight.detach()
    changed = (before != after).any(dim=1).nonzero().flatten()
    assert len(changed) and set(changed.tolist()) <= set(used.tolist())
    assert not trainer_of(tmp_path / "noise", "sft-m", noise=NoiseConfig(sentences=0.5)).optimiser.rows


def test_checkpoints_take_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, written = trainer_module.save_checkpoint, []

    def slow(*arguments: Any) -> None:
        written.append(time.sleep(0.6))
        real(*arguments)

    monkeypatch.setattr(trainer_module, "save_checkpoint", slow)
    trainer_of(tmp_path).run()
    assert len(written) == 1, "the run takes less than twenty times as long as the first checkpoint"


def test_a_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(tmp_path)
    real, steps = Stepper.step, itertools.count()
    monkeypatch.setattr(Stepper, "step", lambda self, b: real(self, b) * (torch.nan if next(steps) == 8 else 1))
    with pytest.raises(ZgulError, match=r"The loss is no longer a number at step 12\. Lower --lr \(now 0\.01\)"):
        trainer.run()
    again = trainer_of(tmp_path)
    monkeypatch.setattr(Stepper, "step", real)
    resumed(again)
    whole = trainer_of()
    whole.run()
    assert_equal(weights(whole.tagger), weights(again.tagger))


class Stop(Exception):
    pass


def stop_at(at: int) -> Callable[[Stepper, Batch], torch.Tensor]:
    """A step that fails when it is taken for this time."""
    real, steps = Stepper.step, itertools.count()

    def step(self: Stepper, batch: Batch) -> torch.Tensor:
        if next(steps) == at:
            raise Stop
        return real(self, batch)

    return step


@pytest.mark.parametrize(
    ("method", "precision", "at"),
    [
        ("zgul", "float32", 5),
        ("zgul", "float32", 6),
        ("zgul", "float32", 14),
        ("sft-m", "float32", 6),
        ("madx-multi", "float32", 14),
        ("cpg", "float32", 14),
        ("zgul", "bfloat16", 14),
    ],
)
def test_interrupted_and_resumed_equals_uninterrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, precision: str, at: int
) -> None:
    """Killed after any step, the run goes on from its last checkpoint and ends in the same bits."""
    more = {"method": method, "eval_every": 5, "noise": NoiseConfig(sentences=0.5), "lr": 3e-3, "precision": precision}
    whole = trainer_of(**more)
    history = whole.run()
    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(Stepper, "step", stop_at(at))
        trainer_of(tmp_path, **more).run()
    again = trainer_of(tmp_path, **more)
    torch.manual_seed(12345)  # whatever happened since
    assert resumed(again) == history
    assert_equal(weights(whole.tagger), weights(again.tagger))


def test_a_stopped_process_waits_until_the_checkpoint_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else torchrun would end the process that writes it."""
    trainer = trainer_of(tmp_path)
    there: list[bool] = []
    monkeypatch.setattr(distributed, "wait", lambda: there.append((tmp_path / CHECKPOINT).is_file()))
    with pytest.raises(KeyboardInterrupt):
        trainer.run(lambda status: signal.raise_signal(signal.SIGINT))
    assert there == [True]


@pytest.mark.parametrize(("seconds", "times"), [(0.0, 3), (3600.0, 0)])
def test_checkpoints_may_be_rare(tmp_path: Path, seconds: float, times: int) -> None:
    config = config_of()
    tagger = small_tagger(labels=data_of(config).labels, random=False)
    trainer = Trainer(tagger, data_of(config), config, tmp_path, checkpoint_every=seconds)
    written: set[int] = set()

    def report(status: Status) -> None:
        if "dev F1" in status.figures and (tmp_path / "checkpoint.safetensors").is_file():
            written.add((tmp_path / "checkpoint.safetensors").stat().st_mtime_ns)

    trainer.run(report)
    assert len(written) == times


def test_without_a_checkpoint_there_is_nothing_to_resume(tmp_path: Path) -> None:
    assert not trainer_of().resume() and not trainer_of(tmp_path).resume()


@pytest.mark.parametrize("changed", [{"lr": 1e-3}, {"seed": 4}, {"epochs": 9}, {"noise": NoiseConfig(sentences=0.1)}])
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    trainer_of(tmp_path, epochs=1).run()
    with pytest.raises(ZgulError, match="belongs to a run with another configuration"):
        trainer_of(tmp_path, **{"epochs": 1} | changed).resume()
    assert trainer_of(tmp_path, epochs=1, data="elsewhere", em_sentences=7).resume(), "this may change"


@pytest.mark.parametrize("part", ["train", "dev"])
@pytest.mark.parametrize("what", ["words", "tags"])
def test_a_checkpoint_of_other_sentences_is_refused(tmp_path: Path, part: str, what: str) -> None:
    trainer_of(tmp_path, epochs=1).run()
    other = trainer_of(tmp_path, epochs=1)
    values = getattr(getattr(other.data, part)[5], what)
    values[0] = next(label for label in other.data.labels if label != values[0])
    with pytest.raises(ZgulError, match=r"or other data\. Use another --output, or replace it with --overwrite"):
        other.resume()


def test_comparing_many_sentences_is_quick(tmp_path: Path) -> None:
    trainer_of(tmp_path, epochs=1).run()
    trainer = trainer_of(tmp_path, epochs=1)
    trainer.data.train = trainer.data.train * 2000  # 96,000: more than any group has
    started = time.process_time()
    with pytest.raises(ZgulError, match="or other data"):
        trainer.resume()
    assert time.process_time() - started < 10


# --- precision and limits


def test_the_tagger_keeps_its_own_limit_of_pieces() -> None:
    trainer = trainer_of(max_pieces=10)
    assert trainer.pieces.max_pieces == 8 and trainer.tagger.pieces.max_pieces == 126
    assert trainer.steps_per_epoch > 6, "long sentences are cut into several"
    trainer.run()
    assert [len(p.tags) for p in trainer.tagger.predict(trainer.data.dev)] == [len(s) for s in trainer.data.dev]


def test_padding_stays_within_the_positions_of_the_encoder() -> None:
    """Batches are padded to a multiple of 16. An encoder of 100 positions reads no 112."""
    config = config_of(epochs=1)
    long = [Sentence(["ja"] * 300, ["PRON"] * 300, "s0")]
    data = labelled_data([*MADE.sentences("s0", 3), *long], long, config)
    encoder, tokenizer = tiny_encoder(MADE, width=WIDTH)
    short = replace(encoder.config, positions=100)
    encoder.positions, encoder.config = torch.nn.Embedding(100, WIDTH), short
    tagger = Tagger.new("sft-m", encoder=(encoder, tokenizer), task="pos", labels=data.labels, sources=["s0"])
    trainer = Trainer(tagger, data, config)
    trainer.run()
    assert len(tagger.predict(long)[0].tags) == 300
    assert {batch.input_ids.shape[1] for batch in trainer.dev.batches(8192, multiple=16)} == {100}


def test_bfloat16_is_used_where_asked_and_float32_is_left_behind() -> None:
    exact, rough = trainer_of(epochs=1), trainer_of(epochs=1, precision="bfloat16")
    assert exact.run()[0]["loss"] == pytest.approx(rough.run()[0]["loss"], rel=0.1)
    assert not torch.equal(exact.tagger.model.head.weight, rough.tagger.model.head.weight)
    assert {value.dtype for value in rough.tagger.model.parameters()} == {torch.float32}
    assert not rough.tagger.model.training

"""Configurations from plain values: in the declared types, unknown or senseless ones named."""

from pathlib import Path

import pytest

from zgul.errors import ZgulError
from zgul.methods import MethodOptions
from zgul.options import read_yaml
from zgul.training.config import NoiseConfig, TrainingConfig


def test_a_configuration_survives_yaml(tmp_path: Path) -> None:
    config = TrainingConfig(
        sources=("en", "is"),
        lr=3e-4,
        language_lr=0.1,
        unannotated=("X",),
        noise=NoiseConfig(0.5, 0.2, 2),
        options=MethodOptions(combine="max"),
    )
    path = tmp_path / "train.yaml"
    config.save(path)
    assert TrainingConfig.from_dict(read_yaml(path)) == config


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"lr": "1e-4"}, "lr", 1e-4),  # YAML reads this as text
        ({"lr": 1}, "lr", 1.0),
        ({"epochs": "3"}, "epochs", 3),
        ({"epochs": 3.0}, "epochs", 3),
        ({"sources": "en, is,de"}, "sources", ("en", "is", "de")),
        ({"sources": ["en"]}, "sources", ("en",)),
        ({"tensorboard": True}, "tensorboard", True),
        ({"noise": {"sentences": 1}}, "noise", NoiseConfig(1.0)),
        ({"options": {"reduction": "2"}}, "options", MethodOptions(reduction=2.0)),
    ],
)
def test_values_take_the_declared_type(given: dict, name: str, value: object) -> None:
    made = getattr(TrainingConfig.from_dict(given), name)
    assert made == value and type(made) is type(value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epoch": 3}, r"There is no option 'epoch'\. Did you mean 'epochs'"),
        ({"zzz": 3}, r"There is no option 'zzz'\. Known options: method"),
        ({"noise": {"word": 0.1}}, r"There is no option 'noise.word'\. Did you mean 'noise.words'"),
        ({"noise": 0.1}, "noise is a group of options, such as noise.sentences"),
        ({"epochs": 2.5}, "epochs must be a whole number, not 2.5"),
        ({"epochs": True}, "epochs must be a whole number, not True"),
        ({"lr": "fast"}, "lr must be a number, not 'fast'"),
        ({"options": {"reduction": []}}, "options.reduction must be a number"),
        ({"tensorboard": "yes"}, "tensorboard must be true or false"),
        ({"method": 3}, "method must be text"),
        ({"sources": 3}, "sources must be a list"),
        ({"task": "lemma"}, "task is one of pos, ner"),
        ({"select": "first"}, "select is one of best, last"),
        ({"precision": "int8"}, "precision is one of auto, float32, bfloat16"),
        ({"em_by": "guess"}, "em_by is one of source, loso, target"),
        ({"batch_size": 0}, "^batch_size must be at least 1, not 0"),
        ({"accumulate": 0}, "^accumulate must be at least 1"),
        ({"max_pieces": 2}, "^max_pieces must be at least 3"),
        ({"epochs": -1}, "^epochs must be at least 0, not -1"),
        ({"eval_every": -1}, "^eval_every must be at least 0"),
        ({"patience": -1}, "^patience must be at least 0"),
        ({"limit": -1}, "^limit must be at least 0"),
        ({"em_sentences": -1}, "^em_sentences must be at least 0"),
        ({"lr": -1}, "^lr must be at least 0, not -1"),
        ({"lr": ".nan"}, "lr must be a number, not '.nan'"),
        ({"lr": "nan"}, "^lr must be at least 0, not nan"),
        ({"lr": float("inf")}, "^lr must be at least 0, not inf"),
        ({"language_lr": -1}, "^language_lr must be at least 0"),
        ({"weight_decay": -0.1}, "^weight_decay must be at least 0"),
        ({"clip": -1}, "^clip must be above 0, not -1"),
        ({"clip": 0}, "^clip must be above 0"),
        ({"clip": "nan"}, "^clip must be above 0"),
        ({"seed": -1}, "^seed must be at least 0 and below 4294967296, not -1"),
        ({"seed": 2**32}, "^seed must be at least 0 and below"),
        ({"warmup": 1.5}, "^warmup must be at least 0 and at most 1, not 1.5"),
        ({"noise": {"sentences": -0.1}}, "^noise.sentences must be at least 0 and at most 1, not -0.1"),
        ({"noise": {"words": 2}}, "^noise.words must be at least 0 and at most 1"),
        ({"noise": {"words": "nan"}}, "^noise.words must be at least 0 and at most 1"),
        ({"noise": {"edits": 0}}, "^noise.edits must be at least 1"),
        ({"options": {"reduction": 0}}, "^options.reduction must be at least 0.25, not 0.0"),
        ({"options": {"reduction": float("inf")}}, "^options.reduction must be at least 0.25"),
        ({"options": {"dropout": 1}}, "^options.dropout must be at least 0 and below 1, not 1.0"),
        ({"options": {"dropout": -0.1}}, "^options.dropout must be at least 0 and below 1"),
        ({"options": {"reduction": 1e-300}}, "^options.reduction must be at least 0.25"),
        ({"options": {"encoder_rank": 10**9}}, "^options.encoder_rank must be at least 0 and at most 512"),
        ({"options": {"cpg_bottleneck": 10**400}}, "^options.cpg_bottleneck must be at least 1 and at most 512"),
        ({"options": {"encoder_rank": -1}}, "^options.encoder_rank must be at least 0"),
        ({"options": {"cpg_rank": 0}}, "^options.cpg_rank must be at least 1"),
        ({"options": {"cpg_bottleneck": 0}}, "^options.cpg_bottleneck must be at least 1"),
        ({"options": {"combine": "sum"}}, "combine is one of linear, max"),
    ],
)
def test_what_is_wrong_is_named(given: dict, message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        TrainingConfig.from_dict(given)


def test_the_papers_epochs() -> None:
    assert TrainingConfig(task="pos").rounds == 5 and TrainingConfig(task="ner").rounds == 10
    assert TrainingConfig(epochs=2).rounds == 2

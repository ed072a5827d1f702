"""Configurations from plain values: in the declared types, unknown or senseless ones named."""

from pathlib import Path

import pytest
import yaml

from zgul.errors import ZgulError
from zgul.methods.base import MethodOptions
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
    path.write_text(yaml.safe_dump({k: list(v) if isinstance(v, tuple) else v for k, v in config.to_dict().items()}))
    assert TrainingConfig.from_dict(TrainingConfig.from_yaml(path)) == config


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
        ({"epoch": 3}, "the configuration has no option 'epoch'; did you mean 'epochs'"),
        ({"zzz": 3}, "no option 'zzz'; known are: method"),
        ({"noise": {"word": 0.1}}, "noise has no option 'word'; did you mean 'words'"),
        ({"noise": 0.1}, "noise is a group of options, such as noise.sentences"),
        ({"epochs": 2.5}, "epochs must be a whole number, not 2.5"),
        ({"epochs": True}, "epochs must be a whole number, not True"),
        ({"lr": "fast"}, "lr must be a number, not 'fast'"),
        ({"options": {"reduction": []}}, "options.reduction must be a number"),
        ({"tensorboard": "yes"}, "tensorboard must be true or false"),
        ({"method": 3}, "method must be text"),
        ({"sources": 3}, "sources must be a list"),
        ({"task": "lemma"}, "task is pos or ner"),
        ({"select": "first"}, "select is best or last"),
        ({"precision": "int8"}, "precision is one of auto, float32, bfloat16"),
        ({"em_by": "guess"}, "em_by is source, loso or target"),
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
        ({"seed": -1}, "^seed must be between 0 and 4294967295, not -1"),
        ({"seed": 2**32}, "^seed must be between 0 and 4294967295"),
        ({"warmup": 1.5}, "^warmup must be between 0 and 1, not 1.5"),
        ({"noise": {"sentences": -0.1}}, "^noise.sentences must be between 0 and 1, not -0.1"),
        ({"noise": {"words": 2}}, "^noise.words must be between 0 and 1"),
        ({"noise": {"words": "nan"}}, "^noise.words must be between 0 and 1"),
        ({"noise": {"edits": 0}}, "^noise.edits must be at least 1"),
        ({"options": {"reduction": 0}}, "^options.reduction must be above 0, not 0.0"),
        ({"options": {"reduction": float("inf")}}, "^options.reduction must be above 0"),
        ({"options": {"dropout": 1}}, "^options.dropout must be at least 0 and below 1, not 1.0"),
        ({"options": {"dropout": -0.1}}, "^options.dropout must be at least 0 and below 1"),
        ({"options": {"encoder_rank": -1}}, "^options.encoder_rank must be at least 0"),
        ({"options": {"cpg_rank": 0}}, "^options.cpg_rank must be at least 1"),
        ({"options": {"cpg_bottleneck": 0}}, "^options.cpg_bottleneck must be at least 1"),
        ({"options": {"combine": "sum"}}, "combine is one of linear, max"),
    ],
)
def test_what_is_wrong_is_named(given: dict, message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        TrainingConfig.from_dict(given)


@pytest.mark.parametrize(
    ("content", "message"), [("a: [", "is not valid YAML"), ("- a", "must hold a mapping"), (b"\xff\xfe\xfa", "YAML")]
)
def test_files_that_are_no_configuration(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "train.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ZgulError, match=message):
        TrainingConfig.from_yaml(path)
    with pytest.raises(ZgulError, match="no such file"):
        TrainingConfig.from_yaml(tmp_path / "none.yaml")
    with pytest.raises(ZgulError, match="a YAML file with options is needed"):
        TrainingConfig.from_yaml(tmp_path)


def test_the_papers_epochs() -> None:
    assert TrainingConfig(task="pos").rounds == 5 and TrainingConfig(task="ner").rounds == 10
    assert TrainingConfig(epochs=2).rounds == 2

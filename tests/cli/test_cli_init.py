"""``zgul init``: what it writes is what ``zgul train`` reads."""

from pathlib import Path

import pytest
import yaml

from command_line import zgul
from tiny_group import write_group
from zgul.errors import ZgulError
from zgul.options import Options, read_yaml
from zgul.tagger import load_tagger
from zgul.training.config import TrainingConfig
from zgul.training.config_file import starting_config, write_config


def read(path: Path) -> TrainingConfig:
    return TrainingConfig.from_dict(read_yaml(path))


@pytest.mark.parametrize("names", [["germanic"], ["English", "de", "nl"]])
def test_what_is_written_is_read_back(tmp_path: Path, names: list[str]) -> None:
    config = starting_config(names)
    write_config(config, tmp_path / "my.yaml")
    assert read(tmp_path / "my.yaml") == config


def test_every_option_stands_there_with_its_help(tmp_path: Path) -> None:
    write_config(starting_config(["germanic"]), tmp_path / "my.yaml")
    text = (tmp_path / "my.yaml").read_text(encoding="utf-8")
    prose = " ".join(line.strip().lstrip("# ") for line in text.splitlines())
    groups: list[type[Options]] = [TrainingConfig, *TrainingConfig.option_groups().values()]
    for group in groups:
        for name, about, _ in group.declared():
            assert f"\n{name}: " in text or f"\n  {name}: " in text
            assert about.help in prose, name
    assert "[default: 0.0001]" in prose and "One of: best, last, average." in prose


def test_languages_are_filled_in_from_the_arguments(tmp_path: Path) -> None:
    output = tmp_path / "nordic.yaml"
    said = zgul("init", "English", "fi", "--targets", "Faroese, krl", "--task", "ner", "-o", output)
    config = read(output)
    assert (config.sources, config.targets, config.task) == (("en", "fi"), ("fo", "krl"), "ner")
    assert config.adapters == "shipped,adapters" and "zgul adapter train --lang fi" in said
    assert f"zgul train --config {output}" in said
    text = output.read_text(encoding="utf-8")
    assert "# Sources: English (en), Finnish (fi)." in text and "# Targets: Faroese (fo), Karelian (krl)." in text


def test_norwegian_is_no_truth_value(tmp_path: Path) -> None:
    write_config(starting_config(["no", "sv"]), tmp_path / "my.yaml")
    assert yaml.safe_load((tmp_path / "my.yaml").read_text())["sources"] == ["no", "sv"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "Name a group"),
        (["klingonnn"], "klingonnn"),
        (["germanic", "--task", "ner"], "is for pos"),
        (["en", "de", "--targets", "de"], "both a source and a target"),
        (["en", "--task", "lemma"], "task is one of pos, ner"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(tmp_path: Path, arguments: list[str], problem: str) -> None:
    with pytest.raises(ZgulError, match=problem):
        zgul("init", *arguments, "-o", tmp_path / "my.yaml")
    assert not list(tmp_path.iterdir())


def test_an_existing_file_stays_without_force(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("mine")
    with pytest.raises(ZgulError, match="--force"):
        zgul("init", "germanic", "-o", tmp_path / "my.yaml")
    assert (tmp_path / "my.yaml").read_text() == "mine"
    zgul("init", "germanic", "-o", tmp_path / "my.yaml", "--force")
    assert read(tmp_path / "my.yaml").group == "germanic"


def test_train_takes_the_file_as_it_is(tmp_path: Path) -> None:
    """A tagger for one's own group, with EM settings for its target."""
    place = write_group(tmp_path)
    zgul("init", "en", "is", "--targets", "fo", "--data", place / "data", "-o", tmp_path / "my.yaml")
    small = "--limit 8 --epochs 1 --batch-size 8 --accumulate 1 --em-sentences 2 --adapters new --device cpu"
    config = ["--config", tmp_path / "my.yaml", "--encoder", place / "encoder", *small.split()]
    zgul("train", *config, "--output", tmp_path / "out")
    tagger = load_tagger(tmp_path / "out")
    assert list(tagger.parts.sources) == ["en", "is"] and set(tagger.em) == {"fo", ""}

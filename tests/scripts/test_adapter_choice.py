"""The choice of language adapters, in small: a made-up family plays the sources, and there are two forms."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from family import Family, family, tiny_encoder
from zgul import encoders
from zgul.adapters.storage import load_adapters
from zgul.corpora import columns
from zgul.files import read_json
from zgul.languages import GROUPS, SOURCES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import adapter_choice
import embedded_adapters
from embedded_adapters import AdapterMaker, Settings

MADE: Family = family(0, n_languages=4)
SMALL = Settings(("shared", "mixed"), size=8, blocks=2, head_steps=2, shared_steps=2, steps=2, kinds=("open",))


def write_data(folder: Path) -> Path:
    for number, language in enumerate((*SOURCES, "fo")):
        actor = MADE.sources[number % 3]
        for kind in ("open", "research"):
            path = folder / "text" / f"{language}.{kind}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(line + "\n" for line in MADE.text(actor, 60, number)))
        for split in ("train", "dev"):
            path = folder / "pos" / language / f"{split}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            columns.write(path, MADE.sentences(actor, 12, number))
    return folder


def test_forms_are_judged_on_sources_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(adapter_choice, "GROUPS", {"germanic": GROUPS["germanic"]})
    data = write_data(tmp_path / "data")
    encoders.save(*tiny_encoder(MADE, width=16), tmp_path / "encoder")
    forms = {"small": SMALL, "blocks": replace(SMALL, variants=("mixed",), invertible=True, rounds=2)}
    changes = {"epochs": 1, "limit": 8, "batch_size": 4, "precision": "float32"}
    told = adapter_choice.choose(data, tmp_path / "run", str(tmp_path / "encoder"), 0, forms, changes)
    form, variant = told["best"].split("/")
    judged = ["none", "small/shared", "small/mixed", "blocks/mixed"]
    assert [name for name in told["f1"] if "research" not in name] == judged
    assert [name for name in told["f1"] if "research" in name] == [f"{form}-research/{variant}"]
    assert all(list(own) == ["is", "de"] for own in told["f1"].values())
    assert read_json(tmp_path / "run" / "choice.json") == told
    adapters = load_adapters(tmp_path / "run" / "blocks" / "adapters-mixed.safetensors")
    assert all(adapter.invertible is not None for adapter in adapters)
    report = read_json(tmp_path / "run" / "blocks" / "adapters.json")
    assert len(report["rounds"]["mixed"]) == 2 and "uniform" not in report["results"]["mixed"]["fo"]

    def fail(*_given, **_more):
        raise AssertionError("done already")

    monkeypatch.setattr(adapter_choice, "make_adapters", fail)
    assert adapter_choice.choose(data, tmp_path / "run", str(tmp_path / "encoder"), 0, forms, changes) == told


@pytest.mark.parametrize(
    ("accuracies", "rounds", "kept"), [([30.0, 31.0, 31.05], 3, 2), ([30.0, 29.0], 2, 0), ([30.0] * 9, 2, 1)]
)
def test_adapters_train_as_long_as_accuracy_rises(accuracies, rounds, kept, tmp_path, monkeypatch):
    data = write_data(tmp_path / "data")
    encoders.save(*tiny_encoder(MADE, width=16), tmp_path / "encoder")
    settings = replace(SMALL, rounds=6)
    blocks = embedded_adapters.all_blocks(SOURCES, str(tmp_path / "encoder"), data, settings, 0)
    maker = AdapterMaker(str(tmp_path / "encoder"), blocks, settings)
    measured, seen = iter(accuracies), []

    def accuracy(adapters):
        seen.append([value.clone() for value in adapters[0].layers[0].parameters()])
        return next(measured)

    monkeypatch.setattr(maker, "accuracy", accuracy)
    adapters = maker.train_variant("shared")
    assert len(seen) == rounds and maker.accuracies["shared"] == accuracies[:rounds]
    torch.testing.assert_close(list(adapters[0].layers[0].parameters()), seen[kept])


def test_research_text_is_read_only_when_asked_for(tmp_path):
    data = write_data(tmp_path)
    (data / "text" / "is.research.txt").write_text("only here\n")
    assert "only here" in embedded_adapters.sampled(data, "is", 10_000)
    assert "only here" not in embedded_adapters.sampled(data, "is", 10_000, ("open",))


def test_of_equals_the_smaller_form_is_taken():
    found = {"small/a": {"is": 70.0}, "small/b": {"is": 70.2}, "large/a": {"is": 70.25}}
    assert adapter_choice.best_form(found, list(found)) == "small/a"
    assert adapter_choice.best_form(found | {"large/a": {"is": 70.6}}, list(found)) == "large/a"

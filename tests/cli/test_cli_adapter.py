"""``zgul adapter train`` on a small text and a tiny encoder."""

from pathlib import Path

import pytest
import torch

from command_line import zgul
from tiny_group import MADE, write_group
from zgul import encoders
from zgul.adapters.adapterhub import read_adapter
from zgul.adapters.storage import find_adapters, load_adapters
from zgul.errors import ZgulError


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = write_group(tmp_path_factory.mktemp("adapter"))
    (folder / "is.txt").write_text("\n".join(MADE.text("s0", 400)) + "\n")
    return folder


def train(place: Path, *arguments: object, steps: int = 60) -> str:
    command = f"adapter train --lang is --steps {steps} --blocks 8 --block 24 --device cpu".split()
    command += ["--encoder", str(place / "encoder"), "--text", str(place / "is.txt"), *map(str, arguments)]
    return zgul(*command)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return encoders.load(folder)[0].state_dict()


def test_an_adapter_helps_on_held_out_text_and_leaves_the_encoder_alone(place, tmp_path):
    before = weights(place / "encoder")
    shown = train(place, "--output", tmp_path, "--adapterhub", "--size", "6", steps=150)
    assert "masked accuracy" in shown and "perplexity" in shown and "none" in shown
    (adapter,) = load_adapters(tmp_path / "is.safetensors")
    assert (adapter.language, adapter.sizes, adapter.invertible) == ("is", [6, 6], None)
    scores = adapter.about["scores"]
    assert scores["is"]["perplexity"] < scores["none"]["perplexity"]
    assert adapter.about["lines"] <= 400 and adapter.about["steps"] == 150
    other = read_adapter(tmp_path / "is")
    assert torch.equal(other.layers[0].down.weight, adapter.layers[0].down.weight)
    after = weights(place / "encoder")
    assert all(torch.equal(before[name], after[name]) for name in before)
    found = find_adapters(str(tmp_path), ["is"], encoders.load(place / "encoder")[0], "")
    assert found[0].sizes == [6, 6], "zgul train --adapters finds it, although a head lies beside it"


def test_the_head_is_trained_once_and_reused(place, tmp_path):
    train(place, "--output", tmp_path / "a", "--invertible")
    head = (tmp_path / "a" / "head.safetensors").read_bytes()
    (adapter,) = load_adapters(tmp_path / "a" / "is.safetensors")
    assert adapter.invertible is not None and adapter.sizes == [8, 8]
    train(place, "--output", tmp_path / "b", "--head", tmp_path / "a" / "head.safetensors")
    assert not (tmp_path / "b" / "head.safetensors").exists()
    assert (tmp_path / "a" / "head.safetensors").read_bytes() == head
    with pytest.raises(ZgulError, match=r"exists already\. Choose another --output, or replace it with --overwrite"):
        train(place, "--output", tmp_path / "a")
    train(place, "--output", tmp_path / "a", "--overwrite", steps=2)
    assert load_adapters(tmp_path / "a" / "is.safetensors")[0].invertible is None


def test_the_shortest_command_and_several_files(place, tmp_path, monkeypatch):
    """Without --output adapters lie in ./adapters; the second language is also read with the first one's."""
    monkeypatch.chdir(tmp_path)
    half = (place / "is.txt").read_text().splitlines(keepends=True)
    (tmp_path / "more.txt").write_text("".join(half[200:]))
    shown = train(place, tmp_path / "more.txt", steps=2)
    assert "Saved in adapters" in shown and (tmp_path / "adapters" / "head.safetensors").is_file()
    assert load_adapters(tmp_path / "adapters" / "is.safetensors")[0].about["lines"] > 400
    train(place, "--lang", "de", steps=2)
    scores = load_adapters(tmp_path / "adapters" / "de.safetensors")[0].about["scores"]
    assert list(scores) == ["none", "is", "de"]
    train(place, "--full", steps=1)
    assert (tmp_path / "encoder-is" / "config.json").is_file()


def test_the_same_seed_gives_the_same_adapter(place, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    for folder in (first, again):
        train(place, "--output", folder, steps=3)
    a, b = (load_adapters(folder / "is.safetensors")[0] for folder in (first, again))
    assert torch.equal(a.layers[1].up.weight, b.layers[1].up.weight)


def test_full_gives_an_encoder_that_loads(place, tmp_path):
    shown = train(place, "--full", "--output", tmp_path / "new", "--lr", "1e-3", steps=80)
    assert "before" in shown and "after" in shown and "zgul train --encoder" in shown
    before, after = weights(place / "encoder"), weights(tmp_path / "new")
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    train(place, "--encoder", tmp_path / "new", "--output", tmp_path / "adapters", steps=2)
    with pytest.raises(ZgulError, match="--full trains the encoder, not an adapter"):
        train(place, "--full", "--output", tmp_path / "x", "--size", "3")


def test_mistakes_are_named(place, tmp_path):
    little = tmp_path / "little"
    little.mkdir()
    (little / "encoder").symlink_to(place / "encoder")
    (little / "is.txt").write_text("pa ha .\n")
    with pytest.raises(ZgulError, match=r"too little text: .* smaller blocks with --block"):
        train(little, "--output", tmp_path / "out")
    with pytest.raises(ZgulError, match="qqxx"):
        train(place, "--lang", "qqxx", "--output", tmp_path / "out")
    with pytest.raises(ZgulError, match=r"little is a folder; files are needed here"):
        train(place, "--text", little, "--output", tmp_path / "out")
    with pytest.raises(ZgulError, match=r"absent.txt: no such file"):
        train(place, "--text", tmp_path / "absent.txt", "--output", tmp_path / "out")
    wide = write_group(tmp_path / "wide", width=32)
    train(wide_place := _with_text(wide, place), "--output", tmp_path / "wide-out", steps=1)
    with pytest.raises(ZgulError, match="was made for another encoder"):
        train(place, "--head", tmp_path / "wide-out" / "head.safetensors", "--output", tmp_path / "out")
    with pytest.raises(ZgulError, match="holds no masked-LM head"):
        train(wide_place, "--head", tmp_path / "wide-out" / "is.safetensors", "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _with_text(folder: Path, place: Path) -> Path:
    (folder / "is.txt").write_text((place / "is.txt").read_text())
    return folder

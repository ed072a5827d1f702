"""From text files to a saved language adapter, or to an encoder trained further."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from family import tiny_encoder
from small_tagger import MADE
from zgul import encoders
from zgul.adapters.adapterhub import read_adapter
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import load_adapters, save_adapters
from zgul.encoders.batches import PieceEncoder
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError
from zgul.progress import Status
from zgul.tensors import load_tensors, save_tensors
from zgul.training.adapter_training import (
    AdapterConfig,
    load_head,
    save_head,
    split_text,
    train_adapter,
    train_adapter_files,
)
from zgul.training.masked_lm import MLMHead

WIDTH = 16
SETTINGS = AdapterConfig(steps=12, blocks=8, block=16, lr=1e-2)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder folder and text of two languages."""
    folder = tmp_path_factory.mktemp("adapters")
    encoders.save(*tiny_encoder(MADE, width=WIDTH), folder / "encoder")
    for language, actor in (("is", "s0"), ("fo", "target")):
        lines = MADE.text(actor, 400)
        (folder / f"{language}.txt").write_text("\n".join([*lines, "", "   "]), encoding="utf-8")
    return folder


def run(place: Path, output: Path, config: AdapterConfig = SETTINGS, language: str = "is", **more: Any) -> Any:
    options: dict[str, Any] = {"encoder": str(place / "encoder"), "device": "cpu"} | more
    return train_adapter_files(language, [place / f"{language}.txt"], output, config, **options)


# --- text


def test_every_40th_line_is_held_out_unless_it_is_trained_on() -> None:
    encoder, tokenizer = tiny_encoder(MADE, width=WIDTH)
    pieces = PieceEncoder(tokenizer, encoder.max_pieces)
    lines = MADE.text("s0", 400)
    held = [line for line in lines[39::40] if line not in set(lines) - set(lines[39::40])]
    blocks = split_text([*lines[:7], "", "  ", *lines[7:]], pieces, 16)
    assert blocks.train.shape[1] == blocks.held_out.shape[1] == 16
    assert blocks.lines == 390 + len(held)
    first = [piece for cut in pieces.pieces(lines[39].split()) for piece in cut.tolist()]
    assert blocks.held_out[0, 1 : 1 + min(len(first), 14)].tolist() == first[:14]
    repeated = split_text([*lines, *[lines[0]] * 40, *MADE.text("s0", 400, seed=1)], pieces, 16)
    assert repeated.lines < 840, "a held-out line that is also trained on is dropped"


def test_too_little_text(place: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("paki jah\n" * 30, encoding="utf-8")
    with pytest.raises(ZgulError, match=r"too little text: 30 lines to train on and 0 held out .*--block"):
        train_adapter_files("is", [tmp_path / "short.txt"], tmp_path, SETTINGS, encoder=str(place / "encoder"))
    assert not list(tmp_path.glob("*.safetensors"))


# --- training


@pytest.fixture
def parts() -> tuple[Encoder, PieceEncoder]:
    encoder, tokenizer = tiny_encoder(MADE, width=WIDTH)
    return encoder, PieceEncoder(tokenizer, encoder.max_pieces)


def test_an_adapter_learns_its_language_and_the_encoder_stays(parts: tuple[Encoder, PieceEncoder]) -> None:
    encoder, pieces = parts
    before = [value.clone() for value in encoder.parameters()]
    blocks = split_text(MADE.text("s0", 1000), pieces, 16)
    other = LanguageAdapter.new("xx", WIDTH, 2)
    config = replace(SETTINGS, steps=150, blocks=16, size=6, activation="gelu", invertible=True)
    result = train_adapter("s0", blocks, encoder, pieces, config, others=[other])
    assert list(result.scores) == ["none", "xx", "s0"]
    assert result.scores["xx"] == pytest.approx(result.scores["none"]), "an adapter that changes nothing"
    assert result.scores["s0"][1] < result.scores["none"][1], "perplexity falls"
    assert result.adapter is not None and result.adapter.sizes == [6, 6] and result.adapter.activation == "gelu"
    assert result.adapter.invertible is not None and result.adapter.language == "s0"
    assert all(torch.equal(one, other) for one, other in zip(encoder.parameters(), before, strict=True))


def test_the_whole_encoder_may_be_trained(parts: tuple[Encoder, PieceEncoder]) -> None:
    encoder, pieces = parts
    before = encoder.words.weight.clone()
    blocks = split_text(MADE.text("s0", 400), pieces, 16)
    result = train_adapter("s0", blocks, encoder, pieces, replace(SETTINGS, full=True, steps=40))
    assert result.adapter is None and list(result.scores) == ["before", "after"]
    assert result.scores["after"][1] < result.scores["before"][1]
    assert not torch.equal(encoder.words.weight, before)
    assert not any(value.requires_grad for value in encoder.parameters())


def test_rates_by_default() -> None:
    assert AdapterConfig().rate == 1e-3 and AdapterConfig(full=True).rate == 5e-5 and AdapterConfig(lr=0.1).rate == 0.1


# --- files in, files out


def test_an_adapter_is_saved_beside_its_head_and_others(place: Path, tmp_path: Path) -> None:
    heard: list[Status] = []
    run(place, tmp_path, language="fo", report=heard.append)
    assert {status.stage for status in heard} == {"reading text", "masked-LM head", "adapter fo"}
    assert [status.done for status in heard if status.stage == "adapter fo"] == list(range(1, 13)), (
        "from the first step"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fo.safetensors", "head.safetensors"]
    head = (tmp_path / "head.safetensors").read_bytes()
    heard.clear()
    result = run(place, tmp_path, report=heard.append)
    assert {status.stage for status in heard} == {"reading text", "adapter is"}, "the head is there already"
    assert list(result.scores) == ["none", "fo", "is"], "read with the other language's adapter, too"
    assert (tmp_path / "head.safetensors").read_bytes() == head
    (adapter,) = load_adapters(tmp_path / "is.safetensors")
    assert adapter.language == "is" and torch.equal(adapter.layers[1].up.weight, result.adapter.layers[1].up.weight)
    about: Any = adapter.about
    assert about["steps"] == 12 and about["lines"] > 300 and set(about["scores"]) == {"none", "fo", "is"}
    assert about["scores"]["is"]["perplexity"] == pytest.approx(result.scores["is"][1])


def test_other_files_in_the_folder_do_no_harm(place: Path, tmp_path: Path) -> None:
    """An encoder, or an adapter for another one."""
    save_tensors(tmp_path / "model.safetensors", {"w": torch.zeros(2)})
    save_adapters(tmp_path / "wide.safetensors", [LanguageAdapter.new("de", 32, 2)])
    save_adapters(tmp_path / "deep.safetensors", [LanguageAdapter.new("sv", WIDTH, 5)])
    encoder = encoders.load(place / "encoder")[0]
    save_head(tmp_path / "head.safetensors", MLMHead(encoder.width, encoder.config.vocabulary), "embedded")
    assert list(run(place, tmp_path).scores) == ["none", "is"]


def test_a_language_may_be_called_by_its_name_and_a_head_may_lie_elsewhere(place: Path, tmp_path: Path) -> None:
    result = train_adapter_files(
        "Icelandic",
        [place / "is.txt", place / "fo.txt"],
        tmp_path / "out",
        SETTINGS,
        encoder=str(place / "encoder"),
        head=tmp_path / "elsewhere.safetensors",
        adapterhub=True,
        device="cpu",
    )
    assert result.adapter.language == "is" and (tmp_path / "elsewhere.safetensors").is_file()
    assert not (tmp_path / "out" / "head.safetensors").exists()
    there = read_adapter(tmp_path / "out" / "is", "is")
    torch.testing.assert_close(there.layers[0].down.weight, result.adapter.layers[0].down.weight)


def test_an_encoder_is_saved_with_the_head_that_was_trained_with_it(place: Path, tmp_path: Path) -> None:
    run(place, tmp_path, replace(SETTINGS, full=True, lr=1e-2))
    encoder, _ = encoders.load(tmp_path)
    assert not torch.equal(encoder.words.weight, encoders.load(place / "encoder")[0].words.weight)
    load_head(tmp_path / "head.safetensors", encoder)
    with pytest.raises(ZgulError, match=r"config\.json exists already"):
        run(place, tmp_path, replace(SETTINGS, full=True))


def stop_at(stage: str, step: int) -> Callable[[Status], None]:
    """A report that presses Ctrl-C in a step."""

    def report(status: Status) -> None:
        if (status.stage, status.done) == (stage, step):
            os.kill(os.getpid(), signal.SIGINT)

    return report


@pytest.mark.parametrize("stage", ["masked-LM head", "adapter is", "encoder"])
def test_a_run_that_was_stopped_continues_bit_for_bit(place: Path, tmp_path: Path, stage: str) -> None:
    config = replace(SETTINGS, full=stage == "encoder")
    made = "model.safetensors" if config.full else "is.safetensors"
    run(place, tmp_path / "whole", config)
    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        run(place, stopped, config, report=stop_at(stage, 5))
    with pytest.raises(ZgulError, match=r"holds an unfinished run\. Continue it with --resume, or replace it"):
        run(place, stopped, config)
    with pytest.raises(ZgulError, match="belongs to a run with another configuration"):
        run(place, stopped, replace(config, seed=1), resume=True)
    heard: list[Status] = []
    run(place, stopped, config, resume=True, report=heard.append)
    assert min(status.done for status in heard if status.stage == stage) == 6
    whole, again = (load_tensors(tmp_path / folder / made) for folder in ("whole", "stopped"))
    assert whole.keys() == again.keys() and all(torch.equal(whole[name], again[name]) for name in whole)
    assert not list(stopped.glob("checkpoint-*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": replace(SETTINGS, full=True, invertible=True)}, "leave out --invertible"),
        ({"config": replace(SETTINGS, full=True, size=4)}, "leave out --invertible, --adapterhub and --size"),
        ({"config": replace(SETTINGS, full=True), "adapterhub": True}, "leave out"),
        ({"encoder": "./no/such"}, "no such folder"),
        ({"device": "cuda:99"}, "There is no device 'cuda:99' here"),
    ],
)
def test_what_makes_no_sense_is_refused(place: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        run(place, tmp_path / "out", **change)
    assert not (tmp_path / "out").exists()


def test_files_that_are_not_there(place: Path, tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none.txt", "no such file"), (tmp_path, "is a folder; files are needed here")):
        with pytest.raises(ZgulError, match=message):
            train_adapter_files("is", [path], tmp_path / "out", SETTINGS, encoder=str(place / "encoder"))
    with pytest.raises(ZgulError, match="qqqq"):
        train_adapter_files("qqqq", [place / "is.txt"], tmp_path / "out", SETTINGS, encoder=str(place / "encoder"))


def test_a_finished_adapter_is_not_overwritten(place: Path, tmp_path: Path) -> None:
    (tmp_path / "is.safetensors").write_text("mine")
    with pytest.raises(ZgulError, match=r"is\.safetensors exists already\. Choose another --output, or replace it"):
        run(place, tmp_path)
    assert (tmp_path / "is.safetensors").read_text() == "mine"
    run(place, tmp_path, overwrite=True)
    assert load_adapters(tmp_path / "is.safetensors")


# --- heads


def test_heads(place: Path, tmp_path: Path) -> None:
    encoder = encoders.load(place / "encoder")[0]
    head = MLMHead(encoder.width, encoder.config.vocabulary)
    torch.nn.init.normal_(head.dense.weight)
    save_head(tmp_path / "head", head, "tiny")
    again = load_head(tmp_path / "head", encoder)
    x = torch.randn(3, WIDTH)
    embeddings = encoder.words.weight
    assert torch.equal(again.decode(again.transform(x), embeddings), head.decode(head.transform(x), embeddings))
    other = tiny_encoder(MADE, width=32)[0]
    with pytest.raises(ZgulError, match=r"made for another encoder \(tiny\): this one has width 32 and \d+ pieces"):
        load_head(tmp_path / "head", other)
    save_adapters(tmp_path / "adapter", [LanguageAdapter.new("is", WIDTH, 2)])
    with pytest.raises(ZgulError, match="holds no masked-LM head"):
        load_head(tmp_path / "adapter", encoder)

"""Training in two processes gives what one process gives with the same batches, up to rounding."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

from family import tiny_encoder
from small_tagger import MADE
from standin import stand_in_taggers, text, words
from tiny_group import write_group
from zgul import encoders
from zgul.adaptation import adapting
from zgul.corpora import Sentence, columns
from zgul.errors import ZgulError
from zgul.methods import MethodOptions
from zgul.progress import Status
from zgul.tensors import load_tensors
from zgul.training import distributed
from zgul.training.adapter_training import AdapterConfig, train_adapter_files
from zgul.training.config import TrainingConfig
from zgul.training.run import Saving, train


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_group(tmp_path_factory.mktemp("run"))
    encoders.save(*tiny_encoder(MADE, width=16), folder / "small")
    (folder / "is.txt").write_text("\n".join(MADE.text("s0", 400)), encoding="utf-8")
    return folder


def config(place: Path, **more: Any) -> TrainingConfig:
    """A short training without dropout, whose draws depend on the number of processes."""
    values = {"group": "germanic", "data": str(place / "data"), "encoder": str(place / "encoder"), "adapters": "new"}
    how = {"epochs": 2, "batch_size": 8, "accumulate": 2, "lr": 1e-2, "em_sentences": 10, "device": "cpu"}
    return TrainingConfig(**{**values, **how, "options": MethodOptions(dropout=0.0), **more})


def together(size: int, work: Callable[..., None], *arguments: Any) -> list[int]:
    """Call a function in so many processes, as torchrun would. Returns their exit codes."""
    context = multiprocessing.get_context("spawn")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    started = [context.Process(target=_process, args=(n, size, port, work, arguments)) for n in range(size)]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
        process.kill()
    return [process.exitcode or 0 for process in started]


def _process(number: int, size: int, port: int, work: Callable[..., None], arguments: Any) -> None:
    os.environ |= {"RANK": str(number), "WORLD_SIZE": str(size), "LOCAL_RANK": str(number)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    with distributed.processes("cpu"):
        assert distributed.count() == size
        work(*arguments)


def _train(settings: TrainingConfig, output: Path, stop: int = 0, resume: bool = False) -> None:
    def report(status: Status) -> None:
        if stop and status.stage == "training" and status.done == stop and distributed.is_first():
            os.kill(os.getpid(), signal.SIGINT)  # only one process hears it

    with suppress(KeyboardInterrupt):
        train(settings, output, report=report, saving=Saving(resume=resume))


def assert_same(one: Path, two: Path) -> None:
    first, second = load_tensors(one / "model.safetensors"), load_tensors(two / "model.safetensors")
    assert first.keys() == second.keys()
    for name in (name for name in first if not name.endswith(".key.bias")):  # whose gradient is rounding alone
        assert torch.allclose(first[name].float(), second[name].float(), rtol=1e-3, atol=1e-4), name
    losses = [[entry["loss"] for entry in json.loads((f / "history.json").read_text())] for f in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.slow
def test_two_processes_train_what_one_trains_and_go_on_as_another_number(place: Path, tmp_path: Path) -> None:
    settings, one, two, mixed = config(place), tmp_path / "one", tmp_path / "two", tmp_path / "mixed"
    _train(settings, one)
    assert together(2, _train, settings, two) == [0, 0]
    assert_same(one, two)
    assert sorted(file.name for file in one.iterdir()) == sorted(file.name for file in two.iterdir())
    assert together(2, _train, settings, mixed, 3) == [0, 0]
    assert (mixed / "checkpoint.safetensors").is_file() and not (mixed / "model.safetensors").exists()
    _train(settings, mixed, resume=True)
    assert_same(one, mixed)


def _read_other_data(place: Path) -> None:
    with pytest.raises(ZgulError, match="has other data or settings than the first"):
        train(config(place, seed=distributed.rank()))


@pytest.mark.slow
def test_two_processes_train_the_embeddings_that_one_trains(place: Path, tmp_path: Path) -> None:
    settings = config(place, method="sft-m", select="last")
    _train(settings, tmp_path / "one")
    assert together(2, _train, settings, tmp_path / "two") == [0, 0]
    assert_same(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_processes_with_other_settings_are_refused(place: Path) -> None:
    assert together(2, _read_other_data, place) == [0, 0]


def _train_adapter(place: Path, output: Path) -> None:
    settings = AdapterConfig(steps=12, blocks=5, block=16, lr=1e-2)
    train_adapter_files("is", [place / "is.txt"], output, settings, encoder=str(place / "small"), device="cpu")


@pytest.mark.slow
def test_two_processes_train_the_adapter_that_one_trains(place: Path, tmp_path: Path) -> None:
    _train_adapter(place, tmp_path / "one")
    assert together(2, _train_adapter, place, tmp_path / "two") == [0, 0]
    for name in ("is.safetensors", "head.safetensors"):
        first, second = (load_tensors(tmp_path / folder / name) for folder in ("one", "two"))
        for key, value in first.items():
            assert torch.allclose(value, second[key], rtol=1e-3, atol=1e-4), key


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a tagger without dropout to adapt, raw text and labelled sentences."""
    taggers = stand_in_taggers(tmp_path / "taggers", ("germanic-pos",))
    config = json.loads((taggers / "germanic-pos" / "config.json").read_text())
    config["options"]["dropout"] = 0.0
    (taggers / "germanic-pos" / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("ZGUL_TAGGERS", str(taggers))
    (tmp_path / "text.txt").write_text(text(90), encoding="utf-8")
    few = [Sentence(one.words, one.tags) for one in words().sentences("s0", 13, seed=3)]
    columns.write(tmp_path / "few.tsv", few)
    return tmp_path


def _adapt(place: Path, output: Path, stop: str = "", resume: bool = False) -> None:
    def report(status: Status) -> None:
        if stop and status.stage == stop and status.done == 2 and distributed.is_first():
            os.kill(os.getpid(), signal.SIGINT)  # only one process hears it

    settings = adapting.AdaptConfig(sentences=70, epochs=2, rounds=2, few_epochs=2, few_lr=5e-3, rank=2)
    given = {"text": place / "text.txt", "labelled": place / "few.tsv", "config": settings}
    with suppress(KeyboardInterrupt), pytest.MonkeyPatch.context() as change:
        change.setattr(adapting, "fastest_precision", lambda device: "float32")  # bfloat16 rounds too much to compare
        result = adapting.adapt("fo", output=output, **given, resume=resume, report=report)
        assert result.worth_it, result.steps


def assert_adapted_alike(one: Path, two: Path) -> None:
    """On average. AdamW makes a whole step of a gradient that is nothing but rounding, so single numbers may differ."""
    first, second = load_tensors(one / "delta.safetensors"), load_tensors(two / "delta.safetensors")
    assert first.keys() == second.keys() and any(float(value.abs().max()) > 1e-3 for value in first.values())
    apart = {name: float((value - second[name]).abs().mean() / value.abs().mean()) for name, value in first.items()}
    assert max(apart.values()) < 0.1, apart  # another seed makes it 2
    notes = [json.loads((folder / "delta.json").read_text()) for folder in (one, two)]
    steps = [[(step["name"], step["kept"]) for step in note["about"]["steps"]] for note in notes]
    assert steps[0] == steps[1]
    assert sorted(file.name for file in one.iterdir()) == sorted(file.name for file in two.iterdir())


@pytest.mark.slow
def test_two_processes_adapt_as_one_does_and_go_on_as_another_number(stand_ins: Path) -> None:
    one, two, fewer, more = (stand_ins / name for name in ("one", "two", "fewer", "more"))
    _adapt(stand_ins, one)
    assert together(2, _adapt, stand_ins, two) == [0, 0]
    assert_adapted_alike(one, two)
    assert together(2, _adapt, stand_ins, fewer, "round 1") == [0, 0]
    assert (fewer / "work").is_dir() and not (fewer / "delta.json").exists()
    _adapt(stand_ins, fewer, resume=True)
    assert_adapted_alike(one, fewer)
    _adapt(stand_ins, more, "fold 2")
    assert together(2, _adapt, stand_ins, more, "", True) == [0, 0]
    assert_adapted_alike(one, more)


def _adapt_where_another_does(place: Path, output: Path) -> None:
    with pytest.raises(ZgulError, match="Another run is adapting"):
        adapting.adapt("fo", text=place / "text.txt", output=output)


@pytest.mark.slow
def test_all_processes_are_refused_where_another_run_adapts(stand_ins: Path) -> None:
    (stand_ins / "out").mkdir()
    with FileLock(stand_ins / "out" / adapting.LOCK):
        assert together(2, _adapt_where_another_does, stand_ins, stand_ins / "out") == [0, 0]


@pytest.mark.slow
def test_torchrun_prints_once(place: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "zgul", "adapter", "train", "--lang", "is", "--text", str(place / "is.txt"), "--steps", "2"]
    command += ["--blocks", "4", "--block", "16", "--encoder", str(place / "small"), "--output", str(tmp_path / "out")]
    done = subprocess.run([*command, "--device", "cpu"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Saved in") == 1 and (tmp_path / "out" / "is.safetensors").is_file()


def test_alone_nothing_changes() -> None:
    loss = torch.tensor(2.0)
    with distributed.processes():
        assert (distributed.count(), distributed.rank(), distributed.is_first()) == (1, 0, True)
        assert distributed.own_part(7) == slice(0, 7)
        assert distributed.any_of(True, loss.device) and distributed.of_first(0.5) == 0.5
        distributed.sum_gradients([], loss)
    assert float(loss) == 2.0

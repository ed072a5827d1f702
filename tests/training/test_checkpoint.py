"""Checkpoints: everything comes back, and what is damaged or of another run changes nothing."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from zgul.errors import ZgulError
from zgul.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from zgul.training.optimiser import Optimiser

NAMES = ["0.weight", "0.bias", "1.weight"]  # 1.bias is frozen


def net(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model[1].bias.requires_grad_(False)
    return model


def train(model: nn.Module, optimiser: Optimiser, steps: int) -> None:
    for _ in range(steps):
        model.zero_grad()
        model(torch.randn(5, 3).to(model[0].weight.dtype)).square().sum().backward()
        optimiser.step(torch.zeros(()))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = net(0)
    optimiser = Optimiser(model, lr=0.1)
    train(model, optimiser, 3)
    best = {name: value.detach() + 1 for name, value in model.named_parameters() if name in NAMES}
    progress = Progress(epoch=1, batch=2, step=3, best_f1=0.1 + 0.2, loss=1 / 3, history=[{"dev_f1": 2 / 3}])
    save_checkpoint(tmp_path / "c.safetensors", optimiser, best, progress, "print")
    return tmp_path / "c.safetensors"


def test_a_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    first = net(0)
    optimiser = Optimiser(first, lr=0.1, shares={"1.": 0.5})
    torch.manual_seed(5)
    train(first, optimiser, 3)
    save_checkpoint(path, optimiser, {}, Progress(step=3), "print")
    train(first, optimiser, 4)
    second = net(1)
    second[1].bias.data = net(0)[1].bias.data.clone()  # frozen: not the checkpoint's business
    other = Optimiser(second, lr=0.1, shares={"1.": 0.5})
    torch.manual_seed(99)
    best, progress = load_checkpoint(path, other, "print")
    assert best == {} and progress.step == 3
    train(second, other, 4)
    for name, value in first.named_parameters():
        assert torch.equal(value, second.get_parameter(name)), name


def test_a_run_on_a_cpu_leaves_gpus_alone(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("get_rng_state", "set_rng_state"):
        monkeypatch.setattr(torch.cuda, name, lambda *given: pytest.fail("this run has its numbers from the CPU"))
    optimiser = Optimiser(net(1), lr=0.1)
    best, progress = load_checkpoint(saved, optimiser, "print")
    save_checkpoint(saved, optimiser, best, progress, "print")


def test_progress_and_best_weights_come_back_exactly(saved: Path) -> None:
    model = net(1)
    best, progress = load_checkpoint(saved, Optimiser(model, lr=0.1), "print")
    assert progress == Progress(1, 2, 3, 0.1 + 0.2, loss=1 / 3, history=[{"dev_f1": 2 / 3}])
    assert set(best) == set(NAMES)
    for name in NAMES:
        assert torch.equal(best[name], model.get_parameter(name) + 1)


def test_the_optimiser_keeps_its_own_learning_rate(saved: Path) -> None:
    """On a GPU the rate is a tensor that captured graphs read: a copy in its place would never change again."""
    optimiser = Optimiser(net(1), lr=0.25)
    rate = optimiser.adamw.param_groups[0]["lr"] = torch.tensor(0.25)
    load_checkpoint(saved, optimiser, "print")
    assert optimiser.adamw.param_groups[0]["lr"] is rate


def refused(path: Path, match: str, fingerprint: str = "print") -> None:
    model = net(1)
    before = {name: value.clone() for name, value in model.named_parameters()}
    state = torch.get_rng_state()
    with pytest.raises(ZgulError, match=match):
        load_checkpoint(path, Optimiser(model, lr=0.1), fingerprint)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters()), "nothing has changed"


def test_another_runs_checkpoint(saved: Path) -> None:
    match = r"belongs to a run with another configuration or other data\. Use another --output, or replace it with"
    refused(saved, match, "another")


def test_damaged_checkpoints(saved: Path) -> None:
    whole = saved.read_bytes()
    with safe_open(saved, "pt") as file:
        notes = file.metadata()
    tensors = load_file(saved)

    def rewrite(metadata: dict[str, str] = notes, **changed: torch.Tensor) -> None:
        save_file(tensors | changed, saved, metadata=metadata)

    for length in (0, 8, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:length])
        refused(saved, r"is not a complete safetensors file .*\. Start again with --overwrite\.$")
    rewrite(**{"model.0.bias": torch.full((4,), torch.nan)})
    refused(saved, r"model.0.bias holds numbers that are not finite\. Start again with --overwrite\.$")
    rewrite(**{"model.0.bias": torch.zeros(3)})
    refused(saved, r"is damaged: model.0.bias is missing or has another shape\. Start again with --overwrite\.$")
    rewrite(**{"best.0.bias": torch.zeros(3)})
    refused(saved, "best.0.bias is missing or has another shape")
    rewrite(**{"random.cpu": torch.zeros(3, dtype=torch.uint8)})
    refused(saved, "random.cpu is missing or has another shape")
    for lost in tensors:
        save_file({key: value for key, value in tensors.items() if key != lost}, saved, metadata=notes)
        refused(saved, f"{lost} is missing")
    saved.unlink()
    refused(saved, "no such file")


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"optimizer.0.exp_avg": torch.zeros(2, 2)}, "optimizer.0.exp_avg"),
        ({"optimizer.1.exp_avg_sq": torch.zeros(3)}, "optimizer.1.exp_avg_sq"),
        ({"optimizer.2.step": torch.zeros(2)}, "optimizer.2.step"),
        ({"optimizer.3.step": torch.zeros(())}, "optimizer.3.step"),
        ({"optimizer.x.step": torch.zeros(())}, "optimizer.x.step"),
        ({"optimizer": torch.zeros(())}, "optimizer"),
    ],
)
def test_an_optimizer_that_does_not_fit(saved: Path, changed: dict[str, torch.Tensor], name: str) -> None:
    with safe_open(saved, "pt") as file:
        notes = file.metadata()
    save_file(load_file(saved) | changed, saved, metadata=notes)
    refused(saved, rf"is damaged: {name} is missing or has another shape\. Start again with --overwrite\.$")


@pytest.mark.parametrize(
    "progress",
    [
        None,
        "{",
        "[1]",
        "3",
        "{}x",
        '{"speed": 3}',
        '{"epoch": "two"}',
        '{"best_f1": null}',
        '{"history": {}}',
        '{"history": [3]}',
        '{"history": [{"loss": 1}]}',
    ],
)
def test_progress_that_cannot_be_read(saved: Path, progress: str | None) -> None:
    with safe_open(saved, "pt") as file:
        notes = file.metadata()
    notes = {name: value for name, value in notes.items() if name != "progress"}
    save_file(load_file(saved), saved, metadata=notes | ({} if progress is None else {"progress": progress}))
    refused(saved, r"is damaged: it does not say how far the run was .*\. Start again with --overwrite\.$")


def test_a_checkpoint_says_what_it_holds(saved: Path) -> None:
    with safe_open(saved, "pt") as file:
        notes = file.metadata()
    for said in ({}, {"tensors": "["}, {"tensors": "3"}):
        rest = {name: value for name, value in notes.items() if name != "tensors"}
        save_file(load_file(saved), saved, metadata=rest | said)
        refused(saved, r"it does not say what it holds\. Start again with --overwrite\.$")


def test_parameters_that_were_never_moved_have_no_state(tmp_path: Path) -> None:
    """AdamW keeps none for what got no gradient: that is no damage."""
    path, model = tmp_path / "c.safetensors", net(0)
    optimiser = Optimiser(model, lr=0.1)
    model[0](torch.randn(5, 3)).square().sum().backward()
    optimiser.step(torch.zeros(()))
    save_checkpoint(path, optimiser, {}, Progress(step=1), "print")
    assert load_checkpoint(path, Optimiser(net(1), lr=0.1), "print")[1].step == 1


def test_a_checkpoint_is_never_half_written(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved.read_bytes()

    def full(*arguments: object, **options: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zgul.tensors.save", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(saved, Optimiser(net(0), lr=0.1), {}, Progress(), "print")
    assert saved.read_bytes() == whole and list(saved.parent.iterdir()) == [saved]

"""Checkpoints: everything a run needs to go on bit for bit, in one safetensors file that is moved into place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zgul.errors import ZgulError
from zgul.tensors import load_with_metadata, save_tensors


@dataclass
class Progress:
    """Where a run stands."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    step: int = 0  # optimiser steps
    best_f1: float = -1.0
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    loss: float = 0.0  # summed since the last evaluation
    counted: int = 0  # steps in it
    history: list[dict[str, Any]] = field(default_factory=list)


def save_checkpoint(
    path: Path,
    model: nn.Module,
    names: list[str],
    optimizer: torch.optim.Optimizer,
    best: dict[str, Tensor],
    progress: Progress,
    fingerprint: str,
) -> None:
    """Trained weights, the best ones so far, the optimiser and the random state."""
    own = dict(model.named_parameters())
    tensors: dict[str, Tensor] = {f"model.{name}": own[name] for name in names}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    notes = {"progress": json.dumps(vars(progress)), "fingerprint": fingerprint, "tensors": json.dumps(list(tensors))}
    save_tensors(path, tensors, metadata=notes)


def load_checkpoint(
    path: Path, model: nn.Module, names: list[str], optimizer: torch.optim.Optimizer, fingerprint: str
) -> tuple[dict[str, Tensor], Progress]:
    """Put a run back to where it stood; gives the best weights and the progress."""
    try:
        tensors, notes = load_with_metadata(path)
    except ZgulError as error:
        raise ZgulError(f"{str(error).partition(';')[0]}; {_ANEW}") from error  # its own advice is for models
    if notes.get("fingerprint") != fingerprint:
        raise ZgulError(
            f"{path} belongs to a run with another configuration or other data; use another --output, or --overwrite it"
        )
    own = dict(model.named_parameters())
    progress = _progress(path, notes)
    _check(path, tensors, notes, _shapes({name: own[name] for name in names}, optimizer))
    with torch.no_grad():
        for name in names:
            own[name].copy_(tensors[f"model.{name}"])
    best = {name: tensors[f"best.{name}"].to(own[name].device) for name in names if f"best.{name}" in tensors}
    state = optimizer.state_dict()
    state["state"] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            state["state"].setdefault(int(index), {})[name] = value
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate  # the caller's own object, which captured graphs read, not a copy of it
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random.cuda"])
    return best, progress


_ANEW = "start anew with --overwrite"


def _progress(path: Path, notes: dict[str, str]) -> Progress:
    try:
        progress = Progress(**json.loads(notes["progress"]))
        for name, default in vars(Progress()).items():
            if not isinstance(getattr(progress, name), int | float if isinstance(default, float) else type(default)):
                raise TypeError(name)
        if not all("dev_f1" in entry for entry in progress.history):
            raise TypeError("history")
    except (KeyError, ValueError, TypeError) as error:
        raise ZgulError(f"{path} is damaged: it does not say how far the run was ({error}); {_ANEW}") from error
    return progress


def _shapes(trained: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> dict[str, torch.Size]:
    """The shape of everything that a checkpoint may hold."""
    shapes = {f"{kind}.{name}": value.shape for name, value in trained.items() for kind in ("model", "best")}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, parameter in enumerate(parameters):
        shapes[f"optimizer.{index}.step"] = torch.Size()
        shapes |= {f"optimizer.{index}.{name}": parameter.shape for name in ("exp_avg", "exp_avg_sq")}
    shapes["random.cpu"] = torch.get_rng_state().shape
    if torch.cuda.is_available():
        shapes["random.cuda"] = torch.cuda.get_rng_state().shape
    return shapes


def _check(path: Path, tensors: dict[str, Tensor], notes: dict[str, str], shapes: dict[str, torch.Size]) -> None:
    """Refuse what is not whole before anything is changed."""
    try:
        saved = set(json.loads(notes["tensors"]))
    except (KeyError, ValueError, TypeError) as error:
        raise ZgulError(f"{path} is damaged: it does not say what it holds; {_ANEW}") from error
    saved |= {name for name in shapes if name.startswith("model.")} | {"random.cpu"}
    for name in sorted(saved | set(tensors)):
        if name == "random.cuda" and name not in shapes:
            continue  # written on a GPU, read without one
        if name not in tensors or name not in shapes or tensors[name].shape != shapes[name]:
            raise ZgulError(f"{path} is damaged: {name} is missing or has another shape; {_ANEW}")

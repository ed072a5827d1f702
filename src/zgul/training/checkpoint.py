"""Checkpoints: everything that a run needs to continue bit for bit, in one safetensors file, written atomically."""

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zgul.errors import ZgulError
from zgul.tensors import load_with_metadata, save_tensors
from zgul.training import distributed
from zgul.training.optimiser import Optimiser

START_ANEW = "Start again with --overwrite."


@dataclass
class Progress:
    """The progress of a run."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    step: int = 0  # optimiser steps
    best_f1: float = -1.0
    stale: int = 0  # evaluations since the best
    loss: float = 0.0  # sum since the last evaluation
    counted: int = 0  # steps in this sum
    history: list[dict[str, Any]] = field(default_factory=list)


def save_checkpoint(
    path: Path, optimiser: Optimiser, best: dict[str, Tensor], progress: Progress, fingerprint: str
) -> None:
    """Write the trained weights, the best ones so far, the optimiser's state and the random state."""
    tensors = {f"model.{name}": value for name, value in optimiser.weights.items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for index, state in optimiser.adamw.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    device = optimiser.optimised[0].device
    if device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(device)
    notes = {"progress": json.dumps(vars(progress)), "fingerprint": fingerprint, "tensors": json.dumps(list(tensors))}
    save_tensors(path, tensors, metadata=notes)


def load_checkpoint(path: Path, optimiser: Optimiser, fingerprint: str) -> tuple[dict[str, Tensor], Progress]:
    """Restore the state of a run. Returns the best weights and the progress."""
    try:
        tensors, notes = load_with_metadata(path)
    except ZgulError as error:
        raise ZgulError(f"{str(error).partition('. ')[0]}. {START_ANEW}") from error  # its own advice is for models
    if notes.get("fingerprint") != fingerprint:
        other = "belongs to a run with another configuration or other data"
        raise ZgulError(f"{path} {other}. Use another --output, or replace it with --overwrite.")
    try:
        progress = Progress(**json.loads(notes["progress"]))
        for name, default in vars(Progress()).items():
            if not isinstance(getattr(progress, name), int | float if isinstance(default, float) else type(default)):
                raise TypeError(name)
        if not all("dev_f1" in entry for entry in progress.history):
            raise TypeError("history")
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise ZgulError(f"{path} is damaged: it does not say how far the run was ({error}). {START_ANEW}") from error
    _check_tensors(path, tensors, notes, optimiser)
    optimiser.load({name: tensors[f"model.{name}"] for name in optimiser.weights})
    owners, adamw = optimiser.weights.items(), optimiser.adamw
    best = {name: tensors[f"best.{name}"].to(own.device) for name, own in owners if f"best.{name}" in tensors}
    state: dict[str, Any] = adamw.state_dict() | {"state": defaultdict(dict)}
    for key in (key for key in tensors if key.startswith("optimizer.")):
        _, index, name = key.split(".", 2)
        state["state"][int(index)][name] = tensors[key]
    rates = [group["lr"] for group in adamw.param_groups]
    adamw.load_state_dict(state)
    for group, rate in zip(adamw.param_groups, rates, strict=True):
        group["lr"] = rate  # the object that captured graphs read, not a copy of it
    torch.set_rng_state(tensors["random.cpu"])
    device = optimiser.optimised[0].device
    if "random.cuda" in tensors and device.type == "cuda":
        torch.cuda.set_rng_state(tensors["random.cuda"], device)
    return best, progress


class RunningCheckpoint:
    """The checkpoints of training in stages, such as a masked-LM head and then an adapter: a file for each stage.

    They are written when ``interrupt`` is set, and every ``EVERY`` seconds.
    """

    EVERY = 60.0

    def __init__(self, folder: Path, fingerprint: str, interrupt: threading.Event) -> None:
        self.folder, self.fingerprint, self.interrupt = folder, fingerprint, interrupt
        self._saved = time.monotonic()

    def path(self, stage: str) -> Path:
        return self.folder / f"checkpoint-{stage.replace(' ', '-')}.safetensors"

    def resume(self, optimiser: Optimiser, stage: str) -> Progress:
        """Restore the state of a stage, if there is a checkpoint of it."""
        path = self.path(stage)
        return load_checkpoint(path, optimiser, self.fingerprint)[1] if path.is_file() else Progress()

    def is_due(self, device: torch.device) -> bool:
        """Whether it is time to save, or the user asked to stop, in any process."""
        return distributed.any_of(self.interrupt.is_set() or time.monotonic() - self._saved >= self.EVERY, device)

    def save(self, optimiser: Optimiser, stage: str, progress: Progress) -> None:
        """Write the checkpoint of a stage. Stop if the user asked for it."""
        stop = distributed.any_of(self.interrupt.is_set(), optimiser.optimised[0].device)
        if distributed.is_first():
            save_checkpoint(self.path(stage), optimiser, {}, progress, self.fingerprint)
        self._saved = time.monotonic()
        if stop:
            distributed.wait()  # until the file is there
            raise KeyboardInterrupt


def _check_tensors(path: Path, tensors: dict[str, Tensor], notes: dict[str, str], optimiser: Optimiser) -> None:
    """Refuse a checkpoint that is not complete, before anything is changed."""
    shapes = {f"{kind}.{name}": value.shape for name, value in optimiser.weights.items() for kind in ("model", "best")}
    for index, value in enumerate(optimiser.optimised):
        shapes[f"optimizer.{index}.step"] = torch.Size()
        shapes |= {f"optimizer.{index}.{name}": value.shape for name in ("exp_avg", "exp_avg_sq")}
    shapes["random.cpu"] = torch.get_rng_state().shape
    if optimiser.optimised[0].device.type == "cuda":
        shapes["random.cuda"] = torch.cuda.get_rng_state().shape
    try:
        saved = set(json.loads(notes["tensors"]))
    except (KeyError, ValueError, TypeError) as error:
        raise ZgulError(f"{path} is damaged: it does not say what it holds. {START_ANEW}") from error
    saved |= {name for name in shapes if name.startswith("model.")} | {"random.cpu"}
    for name in sorted(saved | set(tensors)):
        if name == "random.cuda" and name not in shapes:
            continue  # written on a GPU, read without one
        if name not in tensors or name not in shapes or tensors[name].shape != shapes[name]:
            raise ZgulError(f"{path} is damaged: {name} is missing or has another shape. {START_ANEW}")

"""Load taggers: shipped ones by name, which are loaded once, and folders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from zgul.devices import find_device
from zgul.errors import ZgulError
from zgul.files import shipped_folder
from zgul.tagger import Tagger, load_tagger
from zgul.tagging.serving import shipped_names

SETTINGS = ("strategy", "em", "decode", "precision")  # what may differ from the tagger as it ships


@dataclass(frozen=True, eq=False)
class ShippedTagger(Tagger):
    """A tagger that comes with the package. A pickle of it holds its name and settings, not its weights."""

    name: str = ""

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        shipped = load_shipped(self.name)
        if not torch.equal(self.model.head.weight.cpu(), shipped.model.head.weight):  # it was trained further
            return super().__reduce_ex__(protocol)
        settings = {field: getattr(self, field) for field in SETTINGS}
        return _restore, (self.name, str(self.device), settings)


def _restore(name: str, device: str, settings: dict[str, Any]) -> Tagger:
    return replace(load_shipped(name, device), **settings)


def load_shipped(name: str, device: str = "cpu", precision: str = "float32") -> Tagger:
    """The shipped tagger of this name, on a device. Taggers do not change, so all users share what is loaded once."""
    path = shipped_folder() / name
    if not (path / "config.json").is_file():
        there = ", ".join(shipped_names()) or "none"
        raise ZgulError(
            f'The tagger "{name}" is missing: {path} has no config.json (installed: {there}). Install the package with '
            "its weights again, or use a folder of your own: zgul tag --model FOLDER, zgul.load(model=FOLDER)."
        )
    return _load(path, str(find_device(device)), precision)


@lru_cache(maxsize=16)
def _load(path: Path, device: str, precision: str) -> Tagger:
    if (device, precision) != ("cpu", "float32"):
        return replace(_load(path, "cpu", "float32").to(device), precision=precision)
    return ShippedTagger(**vars(load_tagger(path)), name=path.name)


def load_named(model: str, device: str = "cpu", precision: str = "float32") -> Tagger:
    """A tagger from a folder, or a shipped one by its name."""
    if (Path(model) / "config.json").is_file():
        return replace(load_tagger(model, device=device), precision=precision)
    if model in shipped_names():
        return load_shipped(model, device, precision)
    raise ZgulError(
        f"{model} is neither a tagger's folder (with config.json) nor one of the shipped taggers: "
        f"{', '.join(shipped_names()) or 'none are installed'}."
    )

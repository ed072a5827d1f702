"""Convert taggers that were saved before 0.1.0 was released (format 1) to the present format.

    python scripts/convert_taggers.py FOLDER OUTPUT            # one tagger
    python scripts/convert_taggers.py --all FOLDER OUTPUT      # a folder of taggers with adapters.safetensors
    python scripts/convert_taggers.py FILE OUTPUT              # a file of language adapters

Format 1 named modules as transformers does, kept folded matrices of all layers in one tensor, and had a second code for
8-bit numbers (``w = scale · int8``). Numbers keep their precision unless ``--bits`` asks for less.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import SHIPPED_ADAPTERS, checksum, load_adapters
from zgul.encoders.encoder import EMBEDDINGS, LAYER
from zgul.encoders.folder import WEIGHTS
from zgul.files import read_json, write_json
from zgul.tagger.saved import BANK, CONFIG, ENCODER, FORMAT, MODEL
from zgul.tensors import Coded, load_coded, save_tensors

STACKED = {
    "weighting.score": "weighting.fusion.{}.score",
    "weighting.score_bias": "weighting.fusion.{}.score_bias",
    "weighting.project": "weighting.combine.{}.weight",
    "weighting.mix_bias": "weighting.combine.{}.bias",
}
_OURS = {theirs: ours for names in (EMBEDDINGS, LAYER) for ours, theirs in names.items()}
DROPPED_EM = ("layers", "skip_below", "patience", "recompute")  # settings of EM that no longer exist


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="convert every tagger in FOLDER")
    parser.add_argument("--bits", type=int, default=32, help="bits a number; coded ones stay as they are [32]")
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    if given.folder.is_file():
        convert_adapters(given.folder, given.output, given.bits)
        return
    if not given.all:
        convert(given.folder, given.output, given.bits)
        return
    given.output.mkdir(parents=True, exist_ok=True)
    adapters = convert_adapters(given.folder / SHIPPED_ADAPTERS, given.output / SHIPPED_ADAPTERS, given.bits)
    for config in sorted(given.folder.glob(f"*/{CONFIG}")):
        convert(config.parent, given.output / config.parent.name, given.bits, adapters)


def convert_adapters(path: Path, output: Path, bits: int = 32) -> dict[str, LanguageAdapter]:
    """Write language adapters in the present code, and return them by language."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_tensors(output, _old_tensors(path), bits=bits, metadata=metadata)
    return {adapter.language: adapter for adapter in load_adapters(output)}


def convert(folder: Path, output: Path, bits: int = 32, adapters: dict[str, LanguageAdapter] | None = None) -> None:
    """Write the tagger in ``folder`` to ``output`` in the present format.

    ``adapters`` are the adapters that it will be used with, if they are not in the folder.
    """
    config: dict[str, Any] = read_json(folder / CONFIG)
    if config["format"] != 1:
        raise SystemExit(f"{folder} has format {config['format']}, not 1")
    state = {_renamed(name): value for name, value in _old_tensors(folder / MODEL).items()}
    output.mkdir(parents=True, exist_ok=True)
    save_tensors(output / MODEL, _unstacked(state) if config["folded"] else state, bits=bits)
    for name in ("README.md", BANK):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, output / name)
    if (folder / ENCODER).is_dir():
        shutil.copytree(folder / ENCODER, output / ENCODER, dirs_exist_ok=True)
        _remove_updates(output / ENCODER / WEIGHTS)
    config["related_letters"] = config.pop("kin_letters", False)
    config["merged"] = config.pop("folded")
    if adapters and config["bank"] == "shipped":
        config["bank_checksum"] = checksum([adapters[code] for code in config["sources"]])
    config["em"] = {code: _known(em) for code, em in config["em"].items()}
    write_json(output / CONFIG, {**config, "format": FORMAT})


def _remove_updates(path: Path) -> None:
    """Leave only the encoder itself in its file: low-rank updates, which format 1 saved there too, are the tagger's."""
    weights, metadata = load_coded(path)
    if any(".base." in name for name in weights):
        own = {name: value for name, value in weights.items() if not name.endswith((".a", ".b"))}
        save_tensors(path, {name.replace(".base.", "."): value for name, value in own.items()}, metadata=metadata)


def _known(em: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in em.items() if name not in DROPPED_EM}


def _old_tensors(path: Path) -> dict[str, Tensor | Coded]:
    """The tensors of a file as they are stored. 8-bit numbers with a scale become `Coded`."""
    raw, _ = load_coded(path)
    tensors: dict[str, Tensor | Coded] = {}
    for name, value in raw.items():
        if f"{name}.scale" in raw:
            scale = raw[f"{name}.scale"]  # [..., rows, 1]
            tensors[name] = Coded(value.to(torch.int32), scale.squeeze(-1), 6)
        elif not name.endswith(".scale"):
            tensors[name] = value
    return tensors


def _renamed(name: str) -> str:
    """Rename ``encoder.model.encoder.layer.3.attention.self.query.a`` to ``encoder.layers.3.query.a``."""
    if match := re.fullmatch(r"encoder\.model\.encoder\.layer\.(\d+)\.(.+)\.(\w+)", name):
        return f"encoder.layers.{match[1]}.{_OURS[match[2]]}.{match[3]}"
    if match := re.fullmatch(r"encoder\.model\.(embeddings\..+)\.(\w+)", name):
        return f"encoder.{_OURS[match[1]]}.{match[2]}"
    return name


def _layer(value: Tensor | Coded, layer: int) -> Tensor | Coded:
    """One layer of a tensor of all layers."""
    return Coded(value.codes[layer], value.step[layer], value.bits) if isinstance(value, Coded) else value[layer]


def _unstacked(state: dict[str, Tensor | Coded]) -> dict[str, Tensor | Coded]:
    """The folded matrices of each layer under their own names. Without fusion or C, W_v stays."""
    made = {name: value for name, value in state.items() if name not in STACKED}
    for name in [name for name in STACKED if name in state]:
        value = state[name]
        shape = value.codes.shape if isinstance(value, Coded) else value.shape
        joined = shape[-1] == 2 * shape[-2] if name == "weighting.project" else True
        for layer in range(shape[0]):
            new = STACKED[name] if joined else "weighting.value.{}.weight"
            if name != "weighting.mix_bias" or "weighting.combine.0.weight" in made:
                made[new.format(layer)] = _layer(value, layer)
    return made


if __name__ == "__main__":
    with torch.no_grad():
        main()

"""AdapterHub's file format: language adapters as ``adapters`` and adapter-transformers save and load them.

A folder holds ``adapter_config.json`` and ``adapter.safetensors`` or ``pytorch_adapter.bin``. Every version
of the format is read, and turned into the one thing the bank takes: a bottleneck after the feed-forward block
(Pfeiffer's placement) in each layer and, perhaps, a NICE block after the embeddings. Anything else is
refused, because it would be computed wrongly without a word.
"""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import zgul
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.bottleneck import ACTIVATIONS, Bottleneck, Invertible, reduction_factor
from zgul.errors import ZgulError
from zgul.files import atomic_write

CONFIG = "adapter_config.json"
SAFE = "adapter.safetensors"
PICKLED = "pytorch_adapter.bin"

# What a key of the configuration must say, and what `adapters` takes it to say when it is absent.
_PFEIFFER: dict[str, tuple[object, object]] = {
    "output_adapter": (True, None),
    "mh_adapter": (False, None),
    "cross_adapter": (False, False),
    "original_ln_before": (True, False),
    "original_ln_after": (True, True),
    "ln_after": (False, False),
    "residual_before_ln": (True, True),
    "is_parallel": (False, False),
    "use_gating": (False, False),
    "phm_layer": (False, False),
    "scaling": (1.0, 1.0),
    "leave_out": ([], []),
    "architecture": (None, None),
}
_OLD_ACTIVATIONS = {"gelu": "gelu_new", "gelu_orig": "gelu"}  # before files had a version
_PREFIXES = {"bert": "bert", "roberta": "roberta", "xlm-roberta": "roberta"}
_LAYER_KEY = re.compile(
    r"(?:\w+\.)?encoder\.layer\.(?P<layer>\d+)\.output\.(?:adapters|layer_text_(?:lang|task)_adapters)"
    r"\.(?P<name>[^.]+)\.(?P<part>.+)"
)
_INVERTIBLE_KEY = re.compile(r"(?:\w+\.)?invertible_(?:lang_)?adapters\.(?P<name>[^.]+)\.(?P<part>.+)")
_INVERTIBLE_PARTS = {"F.0": "f_down", "F.2": "f_up", "G.0": "g_down", "G.2": "g_up"}


def read_adapter(
    folder_or_name: str | Path,
    language: str | None = None,
    *,
    encoder: str | None = None,
    version: str | None = None,
) -> LanguageAdapter:
    """A language adapter from a folder, a Hugging Face repository or AdapterHub's index.

    read_adapter("adapters/en")
    read_adapter("AdapterHub/bert-base-multilingual-cased-en-wiki_pfeiffer")
    read_adapter("en/wiki@ukp", encoder="bert-base-multilingual-cased")

    ``language`` is what the bank will call it; the name in the file otherwise.
    """
    folder = Path(folder_or_name).expanduser()
    if not folder.is_dir():
        from zgul.adapters import fetch

        folder = fetch.fetch_adapter(str(folder_or_name), encoder=encoder, version=version)
    file = _weights_file(folder)
    config = _read_config(folder / CONFIG)
    tensors = _read_tensors(file)
    shape = _Shape(config, folder / CONFIG)
    adapter = _build(_parts(tensors, shape, file), shape, file)
    adapter.language = language or shape.name
    adapter.about = {
        "source": str(folder_or_name),
        "name": shape.name,
        **{key: config[key] for key in ("model_name", "model_type", "version") if config.get(key)},
    }
    return adapter


def write_adapter(
    adapter: LanguageAdapter,
    folder: str | Path,
    *,
    model_type: str = "bert",
    model_name: str | None = None,
    safe: bool = True,
) -> Path:
    """Write a folder that `adapters` loads with ``model.load_adapter(folder)``.

    ``model_type`` is the encoder's (``bert``, ``roberta``, ``xlm-roberta``). With ``safe=False`` the weights
    go to a ``pytorch_adapter.bin``, which is what older versions read.
    """
    if model_type not in _PREFIXES:
        known = ", ".join(_PREFIXES)
        raise ZgulError(f"AdapterHub files are written for {known}, not for the model type {model_type!r}")
    if not re.fullmatch(r"[^./\s]+", adapter.language):
        raise ZgulError(f"AdapterHub takes no adapter name with dots, slashes or spaces: {adapter.language!r}")
    folder = Path(folder)
    tensors = _state(adapter, _PREFIXES[model_type])
    config = {
        "config": _config(adapter),
        "hidden_size": adapter.width,
        "model_name": model_name or adapter.about.get("model_name"),
        "model_type": model_type,
        "name": adapter.language,
        "version": f"zgul.{zgul.__version__}",  # any version at all: without one, gelu would mean gelu_new
    }
    with atomic_write(folder / (SAFE if safe else PICKLED), "wb") as file:
        if safe:
            from safetensors.torch import save

            file.write(save(tensors))
        else:
            torch.save(tensors, file)
    with atomic_write(folder / CONFIG) as file:
        file.write(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (folder / (PICKLED if safe else SAFE)).unlink(missing_ok=True)  # a reader must not meet an older adapter
    return folder


# --- the configuration -----------------------------------------------------------------------------------


class _Shape:
    """What the configuration says about the adapter, checked."""

    def __init__(self, config: Mapping[str, Any], path: Path) -> None:
        self.path = path
        inner = config.get("config")
        if not isinstance(inner, Mapping):
            raise ZgulError(f'{path}: the adapter\'s architecture is missing (an object under "config")')
        for key, (wanted, default) in _PFEIFFER.items():
            given = default if inner.get(key) is None else inner[key]
            if given != wanted:
                raise self._refuse(key, given, wanted)
        self.name = str(config.get("name") or "")
        self.width = config.get("hidden_size")
        self.is_task = config.get("type") == "text_task"
        self.reduction: object = inner.get("reduction_factor")
        self.ln_before = bool(inner.get("ln_before"))
        self.activation = self._activation(inner, versioned="version" in config)
        self.inv_reduction = self._invertible(inner)

    def _refuse(self, key: str, given: object, wanted: object) -> ZgulError:
        return ZgulError(
            f"{self.path}: {key} is {json.dumps(given)}, which zgul does not compute (it needs "
            f"{json.dumps(wanted)}). Only Pfeiffer's placement is supported: one bottleneck after the "
            "feed-forward block, as in the AdapterHub adapters whose names end in _pfeiffer"
        )

    def _activation(self, inner: Mapping[str, Any], *, versioned: bool) -> str:
        name = str(inner.get("non_linearity")).lower()
        name = name if versioned else _OLD_ACTIVATIONS.get(name, name)
        if name not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ZgulError(f"{self.path}: the activation {name!r} is unknown; zgul has {known}")
        return name

    def _invertible(self, inner: Mapping[str, Any]) -> float | None:
        nested = inner.get("invertible_adapter") or {}
        kind = inner.get("inv_adapter") or nested.get("block_type")
        if not kind:
            return None
        if kind != "nice":
            raise ZgulError(f"{self.path}: the invertible block {kind!r} is not supported; 'nice' is")
        given = inner.get("inv_adapter_reduction_factor") or nested.get("reduction_factor")
        return self._factor(given, "inv_adapter_reduction_factor")

    def _factor(self, given: object, key: str) -> float:
        try:
            factor = float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            factor = math.nan
        if not (math.isfinite(factor) and factor > 0):
            raise ZgulError(f"{self.path}: {key} must be a number above 0, not {json.dumps(given)}")
        return factor

    def size(self, layer: int, width: int) -> int:
        """The bottleneck of a layer: d // reduction factor, which may be given layer by layer."""
        given = self.reduction
        if isinstance(given, Mapping):
            given = given.get(str(layer), given.get("default"))
        return max(1, int(width // self._factor(given, "reduction_factor")))


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ZgulError(f"{path.parent} has no {CONFIG}: is it a folder that AdapterHub saved?") from None
    except (OSError, ValueError) as error:
        raise ZgulError(f"{path}: not readable as JSON ({error}); fetch the folder again") from error
    if not isinstance(config, dict):
        raise ZgulError(f"{path}: not an adapter's configuration (an object is needed)")
    return config


def _config(adapter: LanguageAdapter) -> dict[str, object]:
    sizes = [layer.down.out_features for layer in adapter.layers]
    factors = [reduction_factor(adapter.width, size) for size in sizes]
    block = adapter.invertible
    return {
        **{key: wanted for key, (wanted, _) in _PFEIFFER.items() if key != "architecture"},
        "adapter_residual_before_ln": False,
        "ln_before": adapter.standardise,
        "non_linearity": adapter.activation,
        "reduction_factor": factors[0]
        if len(set(sizes)) == 1
        else {str(i): factor for i, factor in enumerate(factors)},
        "inv_adapter": "nice" if block else None,
        "inv_adapter_reduction_factor": (
            reduction_factor(block.f_down.in_features, block.f_down.out_features) if block else None
        ),
    }


# --- the weights -----------------------------------------------------------------------------------------


def _weights_file(folder: Path) -> Path:
    for name in (SAFE, PICKLED):
        if (folder / name).is_file():
            return folder / name
    raise ZgulError(f"{folder} has neither {SAFE} nor {PICKLED}: is it a folder that AdapterHub saved?")


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """The file's tensors in single precision; nothing in it is ever run."""
    try:
        if path.name == SAFE:
            from safetensors.torch import load_file

            loaded = load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ZgulError(
            f"{path}: holds more than tensors, or is damaged, and was not opened (a pickle can run code). "
            "Fetch it again from where it came; if that does not help, do not trust it"
        ) from error
    except Exception as error:  # every library below has its own ways to say that a file is broken
        raise ZgulError(f"{path}: damaged or not a file of weights ({error}); fetch it again") from error
    if not isinstance(loaded, Mapping) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise ZgulError(f"{path}: not a dictionary of tensors, so not an adapter")
    broken = [key for key, value in loaded.items() if not torch.isfinite(value).all()]
    if broken:
        raise ZgulError(f"{path}: {broken[0]} has values that are NaN or infinite; the adapter is unusable")
    return {key: value.detach().float() for key, value in loaded.items()}


Parts = dict[int | None, dict[str, Tensor]]


def _parts(tensors: Mapping[str, Tensor], shape: _Shape, path: Path) -> Parts:
    """Tensors by layer, old and new names alike; the invertible block's under None."""
    parts: Parts = {}
    names, strangers = set(), []
    for key, value in tensors.items():
        if match := _LAYER_KEY.fullmatch(key):
            parts.setdefault(int(match["layer"]), {})[match["part"]] = value
        elif match := _INVERTIBLE_KEY.fullmatch(key):
            parts.setdefault(None, {})[match["part"]] = value
        else:
            strangers.append(key)
            continue
        names.add(match["name"])
    if strangers:
        raise ZgulError(f"{path}: {_list(strangers)} are no part of a Pfeiffer adapter")
    if not shape.name and len(names) == 1:
        shape.name = names.copy().pop()
    if names != {shape.name}:
        held = _list(sorted(names)) or "none"
        raise ZgulError(f"{path}: the configuration is of the adapter {shape.name!r}, the weights of: {held}")
    return parts


def _build(parts: Parts, shape: _Shape, path: Path) -> LanguageAdapter:
    depth = max((layer for layer in parts if layer is not None), default=-1) + 1
    if not depth:
        raise ZgulError(f"{path}: no adapter layer in it")
    width = shape.width if isinstance(shape.width, int) else _width(parts, depth, path)
    layers = [_bottleneck(parts.pop(i, {}), i, shape, width, path) for i in range(depth)]
    block = None
    # old task adapters name an invertible block that they never had
    if shape.inv_reduction is not None and not (shape.is_task and None not in parts):
        block = Invertible(width, shape.inv_reduction, shape.activation)
        targets = {part: getattr(block, name) for part, name in _INVERTIBLE_PARTS.items()}
        _fill(targets, parts.pop(None, {}), "the invertible block", path)
    if parts:
        raise ZgulError(f"{path}: has an invertible block that {CONFIG} does not name")
    return LanguageAdapter(shape.name, layers, block)


def _bottleneck(given: dict[str, Tensor], layer: int, shape: _Shape, width: int, path: Path) -> Bottleneck:
    bottleneck = Bottleneck(width, shape.size(layer, width), shape.activation, shape.ln_before)
    targets: dict[str, nn.Module] = {"adapter_up": bottleneck.up}
    norm = nn.LayerNorm(width)
    if shape.ln_before:  # the norm comes first in the sequence, and a second time under its own name
        given = {key: value for key, value in given.items() if not key.startswith("adapter_norm_before.")}
        targets |= {"adapter_down.0": norm, "adapter_down.1": bottleneck.down}
    else:
        targets |= {"adapter_down.0": bottleneck.down}
    _fill(targets, given, f"layer {layer}", path)
    with torch.no_grad():  # D (g * n + b) + c = (D diag g) n + (D b + c)
        bottleneck.down.bias.add_(bottleneck.down.weight @ norm.bias)
        bottleneck.down.weight.mul_(norm.weight)
    return bottleneck


@torch.no_grad()
def _fill(targets: Mapping[str, nn.Module], given: Mapping[str, Tensor], where: str, path: Path) -> None:
    """Copy tensors into modules; every one must be there, of its shape, and none left over."""
    wanted = {f"{part}.{key}": value for part, to in targets.items() for key, value in to.named_parameters()}
    if missing := sorted(wanted.keys() - given.keys()):
        raise ZgulError(f"{path}: {where} lacks {_list(missing)}; the file is incomplete")
    if extra := sorted(given.keys() - wanted.keys()):
        raise ZgulError(f"{path}: {where} has {_list(extra)}, which {CONFIG} does not account for")
    for key, value in wanted.items():
        if given[key].shape != value.shape:
            raise ZgulError(
                f"{path}: {where}, {key} has the shape {list(given[key].shape)}; by {CONFIG} it is {list(value.shape)}"
            )
        value.copy_(given[key])


def _width(parts: Parts, depth: int, path: Path) -> int:
    """The hidden size, from the bias of an up-projection, where the configuration does not give it."""
    bias = parts.get(depth - 1, {}).get("adapter_up.bias")
    if bias is None or bias.dim() != 1:
        raise ZgulError(f"{path}: layer {depth - 1} lacks adapter_up.bias; the file is incomplete")
    return len(bias)


def _state(adapter: LanguageAdapter, prefix: str) -> dict[str, Tensor]:
    """The tensors under the names that `adapters` gives them."""
    state: dict[str, Tensor] = {}

    def put(stem: str, linear: nn.Linear) -> None:
        for key, value in linear.named_parameters():
            state[f"{stem}.{key}"] = value.detach().cpu().float().clone().contiguous()

    for i, layer in enumerate(adapter.layers):
        stem = f"{prefix}.encoder.layer.{i}.output.adapters.{adapter.language}"
        if layer.standardise:
            for name in ("adapter_norm_before", "adapter_down.0"):
                state[f"{stem}.{name}.weight"] = torch.ones(adapter.width)
                state[f"{stem}.{name}.bias"] = torch.zeros(adapter.width)
        put(f"{stem}.adapter_down.{int(layer.standardise)}", layer.down)
        put(f"{stem}.adapter_up", layer.up)
    if adapter.invertible is not None:
        for part, name in _INVERTIBLE_PARTS.items():
            put(f"{prefix}.invertible_adapters.{adapter.language}.{part}", getattr(adapter.invertible, name))
    return state


def _list(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

"""Language adapters on disk: read and write zgul's own files, load the shipped adapters, find the adapters of a bank.

zgul's own file is a safetensors file with several adapters. Its metadata describes them.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from zgul.adapters.adapterhub import CONFIG, read_adapter
from zgul.adapters.language_adapter import ACTIVATIONS, Bottleneck, Invertible, LanguageAdapter, select_adapters
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError
from zgul.files import shipped_folder
from zgul.tensors import load_with_metadata, map_tensors, save_tensors

SHIPPED_ADAPTERS = "adapters.safetensors"
_FIELDS = {"language": str, "width": int, "depth": int, "activation": str}
_FIELDS |= {"standardise": bool, "invertible": bool, "about": dict}


def save_adapters(path: Path, adapters: Sequence[LanguageAdapter], *, bits: int = 32) -> None:
    """Write several language adapters to one file."""
    tensors = {name: value for adapter in adapters for name, value in _tensors(adapter).items()}
    described = [
        {name: getattr(adapter, name) for name in _FIELDS if name not in ("depth", "invertible")}
        | {"depth": len(adapter.layers), "invertible": adapter.invertible is not None}
        for adapter in adapters
    ]
    save_tensors(path, tensors, bits=bits, metadata={"adapters": json.dumps(described)})


def load_adapters(path: Path) -> list[LanguageAdapter]:
    """Read a file written by `save_adapters`."""
    tensors, metadata = load_with_metadata(path)
    if "adapters" not in metadata:
        raise ZgulError(f"{path} holds no language adapters. Give a file that zgul adapter train wrote.")
    if any(name.endswith(".scale") for name in tensors):
        raise ZgulError(f"{path} is in an old form of 8 bits. Convert it with scripts/convert_taggers.py.")
    try:
        described = json.loads(metadata["adapters"])
        for info in described:
            for name, kind in _FIELDS.items():
                if not isinstance(info[name], kind):
                    raise TypeError(f"{name} is {info[name]!r}")
        adapters = [_restore(info, tensors) for info in described]
        if tensors:
            raise ValueError(f"{next(iter(tensors))} belongs to none of them")
        return adapters
    except (KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise ZgulError(f"{path} is damaged: its language adapters cannot be read ({error}). Save it again.") from error


def shipped_adapters(languages: Sequence[str] | None = None) -> list[LanguageAdapter]:
    """The language adapters that come with the package: all, or those of these languages in this order."""
    path = shipped_folder() / SHIPPED_ADAPTERS
    if not path.is_file():
        raise ZgulError(f"{path}: the shipped language adapters are missing. Install the package again.")
    return list(_load_once(path)) if languages is None else select_adapters(_load_once(path), languages)


_load_once = lru_cache(maxsize=2)(load_adapters)


def find_adapters(places: str, languages: Sequence[str], encoder: Encoder, encoder_name: str) -> list[LanguageAdapter]:
    """Find the adapters of these languages in one or, separated by commas, several places. The first place wins.

    A place is "shipped", "new" (adapters that change nothing yet), zgul's own file, a folder of such files and of
    AdapterHub's folders (or one such folder itself), or a hub name with {lang} in it, such as "{lang}/wiki@ukp".
    """
    held: dict[str, LanguageAdapter] = {}
    for place in places.split(","):
        missing = [language for language in languages if language not in held]
        for adapter in _adapters_at(place.strip(), missing, encoder, encoder_name) if missing else ():
            held.setdefault(adapter.language, adapter)
    return select_adapters(held.values(), languages)


def check_places(places: str) -> None:
    """Refuse places that do not exist, before anything is loaded. Hub names are not looked up."""
    for place in map(str.strip, places.split(",")):
        known = place in ("new", "shipped") or "{lang}" in place
        if not known and not os.path.exists(os.path.expanduser(place)):  # noqa: PTH110, PTH111
            advice = "Give shipped, new, a file or folder, or a {lang} name."
            raise ZgulError(f"No language adapters at {place!r}. {advice}")


def _adapters_at(place: str, languages: Sequence[str], encoder: Encoder, encoder_name: str) -> list[LanguageAdapter]:
    if place == "new":
        return [LanguageAdapter.new(language, encoder.width, encoder.depth) for language in languages]
    if place == "shipped":
        return shipped_adapters()
    if "{lang}" in place:
        return [read_adapter(place.replace("{lang}", code), code, encoder=encoder_name) for code in languages]
    path = Path(os.path.expanduser(place))  # noqa: PTH111
    if path.is_file():
        return load_adapters(path)
    check_places(place)
    if (path / CONFIG).is_file():
        return [read_adapter(path)]
    adapters = [read_adapter(path / code, code) for code in languages if (path / code / CONFIG).is_file()]
    adapters += adapters_in(path)
    if not adapters:
        codes = ", ".join(languages)
        raise ZgulError(f"{place} holds no language adapters of {codes}. Train one with: zgul adapter train")
    return adapters


def adapters_in(folder: Path) -> list[LanguageAdapter]:
    """The language adapters in the files of a folder, which may contain other files, too."""
    files = [path for path in sorted(folder.glob("*.safetensors")) if "adapters" in map_tensors(path)[1]]
    return [adapter for path in files for adapter in load_adapters(path)]


def checksum(adapters: Sequence[LanguageAdapter]) -> str:
    """SHA-256 of everything that adapters compute with, whatever their order and device."""
    digest = hashlib.sha256()
    for adapter in sorted(adapters, key=lambda adapter: adapter.language):
        digest.update(f"{adapter.language} {adapter.activation} {adapter.standardise}\n".encode())
        for name, value in _tensors(adapter).items():
            digest.update(f"{name} {list(value.shape)}\n".encode())
            digest.update(value.float().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _tensors(adapter: LanguageAdapter) -> dict[str, Tensor]:
    """An adapter's tensors under their names in the file."""
    parts = {str(index): layer.state_dict() for index, layer in enumerate(adapter.layers)}
    if adapter.invertible is not None:
        parts["invertible"] = adapter.invertible.state_dict()
    return {f"{adapter.language}.{part}.{name}": parts[part][name] for part in parts for name in parts[part]}


def _restore(info: dict[str, Any], tensors: dict[str, Tensor]) -> LanguageAdapter:
    """Build one adapter of the file. The sizes of its bottlenecks come from its tensors."""
    language, width, activation = info["language"], info["width"], info["activation"]
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation {activation!r}")
    if info["depth"] < 1:
        raise ValueError(f"{language} has no layers")
    layers = []
    for index in range(info["depth"]):
        state, size = _part(tensors, f"{language}.{index}.", ("down", "up"), width)
        layers.append(Bottleneck(width, size, activation, info["standardise"]))
        layers[-1].load_state_dict(state)
    block = None
    if info["invertible"]:
        state, size = _part(tensors, f"{language}.invertible.", ("f_down", "f_up", "g_down", "g_up"), width // 2)
        block = Invertible(width, size, activation)
        block.load_state_dict(state)
    return LanguageAdapter(language, layers, block, info["about"])


def _part(tensors: dict[str, Tensor], prefix: str, maps: Sequence[str], columns: int) -> tuple[dict[str, Tensor], int]:
    """The tensors of a module and the rows of its first map. The shape is checked before a module is allocated."""
    state = {f"{name}.{part}": tensors.pop(f"{prefix}{name}.{part}") for name in maps for part in ("weight", "bias")}
    rows, shape = len(state[f"{maps[0]}.bias"]), list(state[f"{maps[0]}.weight"].shape)
    if shape != [rows, columns]:
        raise ValueError(f"{maps[0]} has the shape {shape}, not {[rows, columns]}")
    return state, rows

"""A saved tagger: a folder with ``config.json`` and safetensors, never a pickle.

    config.json          task, method, labels, sources, options, EM settings, how it was made; see `_SCHEMA`
    model.safetensors    the trained weights
    bank.safetensors     the language adapters, unless they ship with the package
    encoder/             the encoder, on request; else config.json names it

A *merged* tagger is smaller: ``W_qᵀ W_k`` is saved in place of W_q and W_k, and ``C W_v`` in place of C and W_v. It
computes the same, up to rounding, and can be trained further.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zgul import __version__, encoders
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import checksum, load_adapters, save_adapters, shipped_adapters
from zgul.corpora.sentence import TASKS
from zgul.encoders.encoder import Encoder
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.ensemble.em import EMConfig
from zgul.ensemble.weighting import ZGULWeighting
from zgul.errors import ZgulError
from zgul.files import read_json, write_json
from zgul.methods import MethodOptions
from zgul.tagger.decoding import DECODINGS
from zgul.tagger.tagger import UNNAMED, Tagger
from zgul.tensors import load_tensors, save_tensors

FORMAT = 2
CONFIG, MODEL, BANK, ENCODER = "config.json", "model.safetensors", "bank.safetensors", "encoder"
INSIDE, SHIPPED, NONE = "inside", "shipped", "none"  # where the bank is
_SCHEMA: dict[str, type] = (
    dict.fromkeys(("task", "method", "strategy", "decode", "bank"), str)
    | dict.fromkeys(("sources", "labels"), list)
    | dict.fromkeys(("options", "encoder", "em", "features", "about"), dict)
    | dict.fromkeys(("merged", "related_letters", "strip_marks"), bool)
)
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "object"}


def save_tagger(
    tagger: Tagger,
    folder: Path | str,
    *,
    bits: int = 32,
    merged: bool = False,
    bank: bool = True,
    encoder: bool = False,
) -> None:
    """Save a tagger as a folder.

    Without ``bank``, the package's own adapters are used when it is loaded; a checksum makes sure that they are the
    same. With ``encoder``, the encoder is put into the folder.
    """
    folder = Path(folder)
    state: dict[str, Tensor] = {name: tagger.model.get_parameter(name) for name in tagger.trained_names}
    merged = merged and isinstance(tagger.model.weighting, ZGULWeighting)
    save_tensors(folder / MODEL, _merge(state) if merged else state, bits=bits)
    adapters = [tagger.model.bank.extract(code) for code in tagger.bank_languages] if tagger.model.bank else []
    if bank and adapters:
        save_adapters(folder / BANK, adapters)
    if encoder:
        # low-rank updates are saved with the trained weights
        encoders.save(tagger.model.encoder.without_updates(), tagger.pieces.tokenizer, folder / ENCODER)
    parts = tagger.parts
    name = ENCODER if encoder else tagger.encoder_name
    config = {
        "format": FORMAT,
        "zgul": __version__,
        "task": tagger.task,
        "method": tagger.method.name,
        "strategy": tagger.strategy,
        "decode": tagger.decode,
        "related_letters": tagger.pieces.related_letters,
        "strip_marks": tagger.strip_marks,
        "sources": parts.sources,
        "labels": tagger.labels,
        "options": parts.options.to_dict(),
        "encoder": {"name": name, "width": parts.encoder.width, "depth": parts.encoder.depth},
        "bank": NONE if not adapters else INSIDE if bank else SHIPPED,
        **({"bank_checksum": checksum(adapters)} if adapters and not bank else {}),
        "merged": merged,
        "em": {language: config.to_dict() for language, config in tagger.em.items()},
        "features": {code: np.asarray(value).tolist() for code, value in parts.features.items()},
        "about": dict(tagger.about),
    }
    write_json(folder / CONFIG, config)  # last: if it exists, the tagger is complete


def load_tagger(
    folder: Path | str, *, encoder: tuple[Encoder, PieceTokenizer] | str | None = None, device: str = "cpu"
) -> Tagger:
    """Load a folder written by `save_tagger`.

    ``encoder`` replaces the encoder that the folder names. It stays as it is, and untrained weights are shared with it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ZgulError(f"{folder}: no such folder. A tagger is a folder with {CONFIG} and {MODEL}.")
    config = read_json(folder / CONFIG)
    _check_config(config, folder)
    name, loaded = _encoder(folder, config["encoder"], encoder)
    same = ("method", "task", "labels", "sources", "strategy", "related_letters")
    tagger = Tagger.new(
        encoder=loaded,
        adapters=_load_bank(folder, config),
        options=_options(MethodOptions, config["options"], "options", folder),
        features={code: np.array(value, np.float32) for code, value in config["features"].items()},
        encoder_name=name,
        **{key: config[key] for key in same},
    )
    _load_state(tagger, load_tensors(folder / MODEL), config["merged"], folder)
    em = {code: _options(EMConfig, value, f"em.{code}", folder) for code, value in config["em"].items()}
    settings = {name: config[name] for name in ("decode", "about", "strip_marks")}
    return replace(tagger, em=em, **settings).to(device)


@torch.no_grad()
def _merge(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same model with ``W_qᵀ W_k`` in place of W_q and W_k, and ``C W_v`` in place of C and W_v."""
    merged = dict(state)
    for name in state:
        if match := re.fullmatch(r"(weighting\.fusion\.\d+)\.query\.weight", name):
            query, key = merged.pop(name), merged.pop(f"{match[1]}.key.weight")
            bias = merged.pop(f"{match[1]}.query.bias")
            merged.pop(f"{match[1]}.key.bias")
            merged[f"{match[1]}.score"], merged[f"{match[1]}.score_bias"] = query.t() @ key, bias @ key
        elif match := re.fullmatch(r"weighting\.combine\.(\d+)\.weight", name):
            value = merged.pop(f"weighting.value.{match[1]}.weight")
            merged[name] = torch.cat([half @ value for half in state[name].chunk(2, dim=1)], dim=1)
    return merged


def _unmerge(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo `_merge`: W_q is the product, W_k and W_v are the identity."""
    whole = dict(state)
    for name in state:
        if match := re.fullmatch(r"(weighting\.fusion\.\d+)\.score", name):
            score, bias = whole.pop(name), whole.pop(f"{name}_bias")
            whole |= {f"{match[1]}.query.weight": score.t(), f"{match[1]}.query.bias": bias}
            whole |= {f"{match[1]}.key.weight": torch.eye(len(score)), f"{match[1]}.key.bias": torch.zeros(len(score))}
        elif match := re.fullmatch(r"weighting\.combine\.(\d+)\.weight", name):
            whole[f"weighting.value.{match[1]}.weight"] = torch.eye(len(state[name]))
    return whole


def _damaged(folder: Path, problem: str) -> ZgulError:
    return ZgulError(f"{folder}/{CONFIG} is damaged: {problem}. Save the tagger again.")


def _check_config(config: dict[str, Any], folder: Path) -> None:
    """Refuse what this version cannot read. Name the field that is missing or wrong."""
    if config.get("format") != FORMAT:
        made = f"in format {config.get('format')!r} by zgul {config.get('zgul', '?')}"
        advice = "Convert it with scripts/convert_taggers.py, or train it again"
        this = f"This is zgul {__version__}, which reads format {FORMAT}"
        raise ZgulError(f"{folder} was saved {made}. {this}. {advice}.")
    config.setdefault("strip_marks", False)  # taggers that were saved before lack it
    for key, kind in _SCHEMA.items():
        _check(config.get(key), kind, key, folder)
    for key in ("sources", "labels"):
        for value in config[key]:
            _check(value, str, f"one of {key}", folder)
    for key, kind in {"name": str, "width": int, "depth": int}.items():
        _check(config["encoder"].get(key), kind, f"encoder.{key}", folder)
    for code, vector in config["features"].items():
        _check(vector, list, f"features.{code}", folder)
        for value in vector:
            _check(value, float, f"one of features.{code}", folder)
    vectors = config["features"].values()
    sizes = {len(vector) for vector in vectors}
    if len(sizes) > 1 or 0 in sizes or not all(abs(value) < 10**30 for vector in vectors for value in vector):
        raise _damaged(folder, "features must be finite numbers, equally many for each language")
    for key, choices in {"task": TASKS, "bank": (INSIDE, SHIPPED, NONE), "decode": DECODINGS}.items():
        if config[key] not in choices:
            raise _damaged(folder, f"{key} is {config[key]!r}, not one of {', '.join(choices)}")


def _check(value: object, kind: type, key: str, folder: Path) -> None:
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        shown = "missing" if value is None else repr(value)[:40]
        raise _damaged(folder, f"{key} is {shown}, not {_NAMES[kind]}")


def _options(kind: type[Any], values: object, key: str, folder: Path) -> Any:
    _check(values, dict, key, folder)
    try:
        return kind.from_dict(values)
    except ZgulError as error:
        reason = str(error).rstrip(".")
        raise ZgulError(f"{folder}/{CONFIG}, {key}: {reason}. Use the zgul version it was made with.") from error


def _encoder(
    folder: Path, info: dict[str, Any], given: tuple[Encoder, PieceTokenizer] | str | None
) -> tuple[str, tuple[Encoder, PieceTokenizer]]:
    name: str = info["name"]
    if given is None and name == UNNAMED:
        advice = "Give it (load_tagger(..., encoder=...)), or save the tagger with encoder=True"
        raise ZgulError(f"{folder} was saved without its encoder, which has no name. {advice}.")
    if given is None or isinstance(given, str):
        name = given or name
        body, tokenizer = encoders.load(folder / ENCODER if name == ENCODER else name)
    else:
        body, tokenizer = given
    if (body.width, body.depth) != (info["width"], info["depth"]):
        made = f"trained on an encoder of {info['depth']} layers of width {info['width']}"
        raise ZgulError(f"{folder} was {made}. The one given has {body.depth} of width {body.width}.")
    return (UNNAMED if name == ENCODER else name), (body, tokenizer)


def _load_bank(folder: Path, config: dict[str, Any]) -> Sequence[LanguageAdapter]:
    if config["bank"] == NONE:
        return []
    if config["bank"] == INSIDE:
        return load_adapters(folder / BANK)
    adapters = shipped_adapters(config["sources"])
    if config.get("bank_checksum") not in (None, checksum(adapters)):
        problem = "was saved without its language adapters, and the package has others, so it would tag wrongly"
        advice = "Save it with its adapters (bank=True), or set ZGUL_TAGGERS to the folder that has them"
        raise ZgulError(f"{folder} {problem}. {advice}.")
    return adapters


def _load_state(tagger: Tagger, state: dict[str, Tensor], merged: bool, folder: Path) -> None:
    """Load the saved weights into the model. All trained weights must be present, and no unknown ones."""
    own = dict(tagger.model.named_parameters())
    if strange := [name for name, value in state.items() if not 0 < value.dim() < (3 if merged else 5)]:
        raise ZgulError(f"{folder}/{MODEL} is damaged: {strange[0]} is no matrix or vector. Save the tagger again.")
    state = _unmerge(state) if merged else state
    missing, extra = set(tagger.trained_names) - set(state), set(state) - set(own)
    if missing or extra:
        named = ", ".join(sorted(missing | extra)[:3])
        counts = f"{len(missing)} tensors are missing and {len(extra)} unknown ({named}, …)"
        raise ZgulError(f"{folder}/{MODEL} does not fit its {CONFIG}: {counts}. Save the tagger again.")
    if (trained := len(state["head.bias"])) != len(tagger.labels):
        problem = f"{CONFIG} names {len(tagger.labels)} labels, but the weights were trained for {trained}"
        raise ZgulError(f"{folder}: {problem}. The two files do not belong together.")
    for name, value in state.items():
        if own[name].shape != value.shape:
            shapes = f"{list(value.shape)}, this model needs {list(own[name].shape)}"
            raise ZgulError(f"{folder}/{MODEL}: {name} has shape {shapes}")
        # not in place, because others may use the given encoder, too
        own[name].data = value.to(own[name], copy=True, memory_format=torch.contiguous_format)

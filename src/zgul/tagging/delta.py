"""A delta: what `zgul adapt` changed in a tagger, as a small folder. Loaded, it is a tagger like any other.

    delta.json           the tagger it starts from, with a checksum; the language; what was done and what it brought
    delta.safetensors    what changed, in few bits a number; no file if nothing changed

The names of the tensors:

    update.LAYER.MATRIX.a, .b    a low-rank update of a matrix of the encoder, ``W + B A``; the file holds ``Bᵀ``
    adapter.LAYER.down.weight …  the language's own adapter, as the difference to the adapter of the source ``like``
    task.…, head.…               the difference to the tagger's own parameter of this name

Low-rank updates join those that the tagger has (``[B₁ B₂] [A₁; A₂]``), and the engine multiplies all of them into the
encoder's matrices, so an adapted tagger is as fast as the one that it starts from.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zgul import __version__
from zgul.adapters.bank import Bank
from zgul.devices import moved_copy
from zgul.encoders.encoder import LowRankLinear
from zgul.ensemble.em import EMConfig
from zgul.ensemble.weighting import ZGULWeighting
from zgul.errors import ZgulError
from zgul.files import read_json, shipped_folder, write_json
from zgul.methods.model import Model
from zgul.tagger import Tagger, saved
from zgul.tensors import load_tensors, save_tensors

FORMAT = 2
NOTE, TENSORS = "delta.json", "delta.safetensors"
BITS = 7  # of a difference; its rounding error is a hundredth of it
SMALL = 1000  # a matrix of fewer numbers is not coded; those of an update are small, but there are many
UPDATE, ADAPTER = "update", "adapter"
_TEXTS = ("base", "checksum", "language", "task", "like")


@dataclass(frozen=True)
class Delta:
    """What changed in a tagger."""

    base: str  # a shipped tagger's name, or a folder
    checksum: str  # of the base's weights
    language: str
    task: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    like: str = ""  # the source whose adapter the language's own one started from
    about: Mapping[str, Any] = field(default_factory=dict)


def base_folder(name: str) -> Path:
    """The folder of a tagger that a delta starts from: a shipped one by its name, also an adapted one, or a folder."""
    return next((place for place in (shipped_folder() / name, Path(name)) if _weights(place)), Path(name))


def _weights(folder: Path) -> Path | None:
    """The weights of a tagger that a delta can start from. Of deltas, those that ship: another could name itself."""
    if (folder / saved.CONFIG).is_file():
        return folder / saved.MODEL
    return folder / TENSORS if is_delta(folder) and folder.parent == shipped_folder() else None


def base_checksum(folder: Path) -> str:
    """SHA-256 of a tagger's weights."""
    path = _weights(folder) or folder / saved.MODEL
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ZgulError(f"{path} cannot be read ({error.strerror or error}).") from error


def is_delta(folder: Path | str) -> bool:
    """Whether a folder holds a delta. A whole tagger that holds one, too, is no delta: it could be its own base."""
    return (Path(folder) / NOTE).is_file() and not (Path(folder) / saved.CONFIG).is_file()


def save_delta(folder: Path, delta: Delta, *, bits: int = BITS) -> None:
    """Write a delta. Differences that are zero are left out."""
    changed = {name: value for name, value in delta.tensors.items() if value.any()}
    (folder / TENSORS).unlink(missing_ok=True)
    if changed:
        save_tensors(folder / TENSORS, _turned(changed), bits=bits, small=SMALL)
    note: dict[str, Any] = {"format": FORMAT, "zgul": __version__, **{name: getattr(delta, name) for name in _TEXTS}}
    note |= {"tensors": sorted(changed), "about": dict(delta.about)}
    write_json(folder / NOTE, note)  # last: if it exists, the delta is complete


def load_delta(folder: Path | str) -> Delta:
    """Read a delta. Anything broken is refused."""
    folder = Path(folder)
    note = read_json(folder / NOTE)
    if note.get("format") != FORMAT:
        made = f"is in format {note.get('format')!r} of zgul {note.get('zgul', '?')}"
        raise ZgulError(f"{folder} {made}; this version reads format {FORMAT}. Adapt again.")
    kinds: dict[str, type] = dict.fromkeys(_TEXTS, str) | {"tensors": list, "about": dict}
    for name, kind in kinds.items():
        if not isinstance(note.get(name), kind):
            raise _damaged(folder, f"{name} is {note.get(name)!r:.40}")
    tensors = _turned(load_tensors(folder / TENSORS)) if note["tensors"] else {}
    if sorted(tensors) != note["tensors"]:
        raise _damaged(folder, f"{TENSORS} does not hold the tensors that {NOTE} names")
    return Delta(**{name: note[name] for name in _TEXTS}, tensors=tensors, about=note["about"])


def _turned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with ``B`` as ``Bᵀ``, or back: numbers are coded in rows, and a row of ``B`` is too short for that."""
    turn = {name for name in tensors if name.startswith(f"{UPDATE}.") and name.endswith(".b")}
    return {name: value.mT.contiguous() if name in turn else value for name, value in tensors.items()}


def check_base(delta: Delta, place: str) -> Path:
    """The folder of the tagger that a delta starts from. It must be there and unchanged."""
    folder = base_folder(delta.base)
    if _weights(folder) is None:
        raise ZgulError(f"{place} changes the tagger {delta.base!r}, which is not here. Install or copy it, too.")
    if base_checksum(folder) != delta.checksum:
        problem = f"{place} was made for another version of the tagger {delta.base!r}, so it would tag wrongly"
        raise ZgulError(f"{problem}. Adapt again with this version: zgul adapt --lang {delta.language} …")
    return folder


@torch.no_grad()
def apply_delta(base: Tagger, delta: Delta, place: str = "the delta") -> Tagger:
    """The tagger with what changed. The base stays as it is; weights that did not change are shared."""
    model = moved_copy(base.model, base.device)
    rest = {name: value.to(base.device) for name, value in delta.tensors.items()}
    try:
        rank = _add_updates(model, _take(rest, UPDATE))
        if own := _take(rest, ADAPTER):
            _add_adapter(model, base, delta, own)
        parameters = dict(model.named_parameters())
        for name, value in rest.items():
            if parameters[name].shape != value.shape:
                raise ValueError(f"{name} has the shape {list(value.shape)}")
            parameters[name].data = parameters[name].data + value
    except (KeyError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        problem = f"{place} does not fit the tagger {delta.base!r}"
        raise ZgulError(f"{problem} ({str(error).splitlines()[0]}). Its files are damaged; adapt again.") from error
    adapters = [model.bank.extract(code) for code in model.bank.languages] if model.bank is not None else ()
    options = replace(base.parts.options, encoder_rank=base.parts.options.encoder_rank + rank)
    parts = replace(base.parts, encoder=model.encoder, adapters=adapters, options=options)
    values = {item.name: getattr(base, item.name) for item in fields(Tagger)}
    # the adapted model was trained and judged without EM
    em = dict(base.em) | ({delta.language: EMConfig(steps=0)} if delta.tensors else {})
    keeps = base.about.get("int8") is True and delta.about.get("int8", True) is True  # F1 in int8
    about = dict(base.about) | {"adapted": dict(delta.about), "int8": keeps}
    strip = delta.about.get("strip_marks") is True  # as it read its language when it was made
    return Tagger(**values | {"model": model.eval(), "parts": parts, "em": em, "about": about, "strip_marks": strip})


def _take(tensors: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    """Take the tensors of one kind out of ``tensors``."""
    return {name.removeprefix(f"{kind}."): tensors.pop(name) for name in list(tensors) if name.startswith(f"{kind}.")}


def _add_updates(model: Model, tensors: dict[str, Tensor]) -> int:
    """Add low-rank updates to the encoder's matrices, and return their rank. Every matrix gets one of this rank."""
    if not tensors:
        return 0
    rank = next((len(value) for name, value in tensors.items() if name.endswith(".a")), 0)
    if {name[:-2] for name in tensors if name.endswith(".a")} != {name[:-2] for name in tensors}:
        raise KeyError("an update lacks one of its two parts")
    if rank > model.encoder.width:  # every matrix would take memory for it
        raise ValueError(f"updates of rank {rank:,} for an encoder of width {model.encoder.width}")
    for index, layer in enumerate(model.encoder.layers):
        for name, matrix in list(layer.named_children()):
            if not isinstance(matrix, nn.Linear | LowRankLinear):
                continue
            plain = matrix.base if isinstance(matrix, LowRankLinear) else matrix
            a = tensors.pop(f"{index}.{name}.a", plain.weight.new_zeros(rank, plain.in_features))
            b = tensors.pop(f"{index}.{name}.b", plain.weight.new_zeros(plain.out_features, rank))
            if a.shape != (rank, plain.in_features) or b.shape != (plain.out_features, rank):
                raise ValueError(f"the update of {name} in layer {index} has a wrong shape")
            if isinstance(matrix, LowRankLinear):
                a, b = torch.cat([matrix.a, a]), torch.cat([matrix.b, b], dim=1)
            joined = LowRankLinear(plain, 1)
            joined.a, joined.b = nn.Parameter(a.clone()), nn.Parameter(b.clone())
            setattr(layer, name, joined)
    if tensors:
        raise KeyError(f"there is no matrix {next(iter(tensors))}")
    return rank


def _add_adapter(model: Model, base: Tagger, delta: Delta, tensors: dict[str, Tensor]) -> None:
    """Let the language's own adapter join the bank."""
    add_to_bank(model, base, delta.language, delta.like)
    assert model.bank is not None
    adapter = model.bank.extract(delta.language)
    for index, layer in enumerate(adapter.layers):
        for name, value in layer.named_parameters():
            change = tensors.pop(f"{index}.{name}", torch.zeros_like(value)).cpu()
            if change.shape != value.shape:
                raise ValueError(f"the adapter's {name} has the shape {list(change.shape)}")
            value.add_(change)
    if tensors:
        raise KeyError(f"the adapter has no {next(iter(tensors))}")
    others = [model.bank.extract(code) for code in model.bank.languages[:-1]]
    model.bank = Bank([*others, adapter], width=adapter.width, depth=len(adapter.layers)).to(base.device)


def add_to_bank(model: Model, base: Tagger, language: str, like: str) -> None:
    """Add a copy of the adapter of the source ``like`` to a model's bank, as the adapter of another language."""
    assert model.bank is not None
    if not isinstance(model.weighting, ZGULWeighting):
        raise ValueError("this tagger's method cannot weight a further adapter")
    adapters = [model.bank.extract(code) for code in model.bank.languages]
    own = replace(model.bank.extract(like), language=language)
    model.bank = Bank([*adapters, own], width=own.width, depth=len(own.layers)).to(base.device)
    vectors = model.weighting.vectors
    vectors.bank_features = base.parts.language_features(model.bank.languages).to(vectors.bank_features)


def _damaged(folder: Path, problem: str) -> ZgulError:
    return ZgulError(f"{folder} is damaged: {problem}. Adapt again, or copy the whole folder again.")

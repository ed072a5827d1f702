"""Everything a training run can be told; read from YAML or the command line, saved beside the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from zgul.errors import ZgulError
from zgul.methods.base import MethodOptions
from zgul.methods.decode import check_decoding
from zgul.precision import check_precision


@dataclass(frozen=True)
class NoiseConfig:
    """Character noise; off by default, as in the paper."""

    sentences: float = 0.0  # share of the sentences that are noised in an epoch
    words: float = 0.3  # share of their words that are edited
    edits: int = 1  # edits in each such word

    def __post_init__(self) -> None:
        _check_number(self.edits >= 1, "noise.edits", "at least 1", self.edits)
        for name in ("sentences", "words"):
            share = getattr(self, name)
            _check_number(0 <= share <= 1, f"noise.{name}", "between 0 and 1", share)


@dataclass(frozen=True)
class TrainingConfig:
    """One training run. The defaults are the paper's."""

    method: str = "zgul"
    task: str = "pos"
    sources: tuple[str, ...] = ()
    group: str = ""  # instead of task and sources
    leave_out: tuple[str, ...] = ()  # sources to train without: leave-one-source-out
    data: str = ""
    encoder: str = "embedded"
    adapters: str = "shipped"  # "shipped", "new" (they change nothing), a file, a folder, or "{lang}/wiki@ukp"
    extra_adapters: tuple[str, ...] = ()  # languages beside the sources whose adapter joins the bank (ZGUL++)
    epochs: int = 0  # 0: 5 for POS, 10 for NER
    batch_size: int = 32
    accumulate: int = 4
    lr: float = 1e-4
    language_lr: float = 1.0  # learning rate of lang2vec (language vectors and W_L), as a share of lr
    warmup: float = 0.1
    weight_decay: float = 0.0
    clip: float = 1.0
    seed: int = 0
    eval_every: int = 0  # optimiser steps between evaluations on the source dev sets; 0: once an epoch
    patience: int = 0  # evaluations without a better F1 before stopping; 0: never stop early
    select: str = "best"  # keep the weights with the best dev F1, or the "last" ones
    max_pieces: int = 128
    limit: int = 0  # at most this many training sentences per language; 0: all
    unannotated: tuple[str, ...] = ()  # labels that mark an absence of annotation (UPOS X)
    label_set_per_corpus: bool = False  # a label that a corpus never uses is unknown there, not absent
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    options: MethodOptions = field(default_factory=MethodOptions)
    decode: str = "words"  # how the tagger decodes: each word's best label, or the best "sequence" that IOB2 allows
    kin_letters: bool = False  # read letters that the encoder does not know as their kin (corpora.letters)
    precision: str = "auto"  # "auto": bf16 on a GPU, float32 elsewhere; "float32", "bfloat16"
    device: str = "auto"
    tensorboard: bool = False
    em_by: str = "source"  # EM settings by the dev set of the most related source, by "loso" or by the "target"'s own
    em_sentences: int = 300  # sentences of the dev set that they are chosen on; 0: EM keeps its defaults

    def __post_init__(self) -> None:
        if self.task not in ("pos", "ner"):
            raise ZgulError(f"task is pos or ner, not {self.task!r}")
        if self.select not in ("best", "last"):
            raise ZgulError(f"select is best or last, not {self.select!r}")
        check_precision(self.precision)
        check_decoding(self.decode)
        if self.em_by not in ("source", "loso", "target"):
            raise ZgulError(f"em_by is source, loso or target, not {self.em_by!r}")
        for name, least in _AT_LEAST.items():
            value = getattr(self, name)
            _check_number(least <= value < math.inf, name, f"at least {least}", value)
        _check_number(0 < self.clip < math.inf, "clip", "above 0", self.clip)
        _check_number(0 <= self.warmup <= 1, "warmup", "between 0 and 1", self.warmup)
        _check_number(0 <= self.seed < 2**32, "seed", f"between 0 and {2**32 - 1}", self.seed)

    @property
    def rounds(self) -> int:
        """Epochs, with the paper's default for the task."""
        return self.epochs or (5 if self.task == "pos" else 10)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """Build from plain values; an unknown key is an error that names the known ones."""
        values = dict(values)
        _check_keys(cls, values, "the configuration")
        for name, kind in (("noise", NoiseConfig), ("options", MethodOptions)):
            if name in values and not isinstance(values[name], kind):
                if not isinstance(values[name], Mapping):
                    raise ZgulError(f"{name} is a group of options, such as {name}.{fields(kind)[0].name}")
                _check_keys(kind, values[name], name)
                values[name] = kind(**_as_declared(kind(), values[name], f"{name}."))
        return cls(**_as_declared(cls(), values))

    @classmethod
    def from_yaml(cls, path: Path) -> dict[str, Any]:
        """The plain values in a YAML file."""
        import yaml

        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ZgulError(f"{path}: no such file") from None
        except OSError as error:  # a folder, say
            raise ZgulError(f"{path} cannot be read ({error.strerror}); a YAML file with options is needed") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ZgulError(f"{path} is not valid YAML: {error}") from error
        if not isinstance(values, dict):
            raise ZgulError(f"{path} must hold a mapping of option: value")
        return values


_AT_LEAST = dict.fromkeys(("epochs", "lr", "language_lr", "weight_decay"), 0)
_AT_LEAST |= dict.fromkeys(("eval_every", "patience", "limit", "em_sentences"), 0)
_AT_LEAST |= {"batch_size": 1, "accumulate": 1, "max_pieces": 3}  # a piece between two specials


def _check_number(fine: bool, name: str, allowed: str, value: float) -> None:
    if not fine:
        raise ZgulError(f"{name} must be {allowed}, not {value}")


def _check_keys(kind: type[Any], values: Mapping[str, Any], where: str) -> None:
    known = [item.name for item in fields(kind)]
    unknown = [name for name in values if name not in known]
    if unknown:
        import difflib

        close = difflib.get_close_matches(str(unknown[0]), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known are: {', '.join(known)}"
        raise ZgulError(f"{where} has no option {unknown[0]!r}{hint}")


def _as_declared(defaults: Any, values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values in the type that each option has: YAML reads 1e-4 as text, and a list may be written with commas."""
    return {name: _convert(getattr(defaults, name), value, prefix + name) for name, value in values.items()}


def _convert(default: Any, value: Any, name: str) -> Any:
    kind = type(default)
    if kind is tuple and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if kind is tuple and isinstance(value, list | tuple):
        return tuple(map(str, value))
    whole = not isinstance(value, float) or value.is_integer()
    if kind in (int, float) and not isinstance(value, bool) and (kind is float or whole):
        try:
            return kind(value)
        except (TypeError, ValueError):
            pass
    elif kind not in (int, float) and isinstance(value, kind):  # true is not a number
        return value
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list"}
    raise ZgulError(f"{name} must be {kinds[kind]}, not {value!r}")

"""A description of every method: what it trains and freezes, how it infers, and which rows of the paper it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zgul.methods import METHODS
from zgul.methods.sizes import RELEASE_FORMS, count_parameters


@dataclass(frozen=True)
class RowDescription:
    """A row of the paper's tables: its title, its way to infer and what must be trained on the target's text."""

    title: str
    strategy: str
    needs: tuple[str, ...]


@dataclass(frozen=True)
class MethodDescription:
    """What one method trains and how it infers. Parameters are counted at the size of mBERT, with 17 labels."""

    name: str
    title: str
    trained_on: str
    trained: tuple[str, ...]
    frozen: tuple[str, ...]
    strategies: tuple[str, ...]  # the first is the default
    rows: tuple[RowDescription, ...]
    trainable_parameters: int
    in_the_release: dict[str, int]  # trainable parameters of the forms that the authors' release has, by group


def describe_methods() -> list[MethodDescription]:
    """Describe every method. The numbers are counted on the methods' own modules."""
    descriptions = []
    for method in METHODS.values():
        counted = count_parameters(method)
        rows = [RowDescription(row.title, row.strategy, row.needs) for row in _rows() if row.method == method.name]
        forms = RELEASE_FORMS if method.name == "zgul" else {}
        descriptions.append(
            MethodDescription(
                method.name,
                method.title,
                "English" if method.english_only else "all sources",
                tuple(counted.trained),
                tuple(counted.frozen),
                method.strategies,
                tuple(rows),
                counted.trainable,
                {group: count_parameters(method, options).trainable for group, (options, _) in forms.items()},
            )
        )
    return descriptions


class _Row(NamedTuple):
    title: str
    method: str
    strategy: str
    needs: tuple[str, ...] = ()


TARGET_ENCODER = "an encoder trained on the target's text"  # the paper's mBERT^tgt
TARGET_ADAPTER = "the target's adapter"  # in the bank, beside those of the sources
_ROWS = (
    _Row("SFT-En", "sft-en", "plain"),
    _Row("MADX-En", "madx", "en"),
    _Row("MADX-Rel", "madx", "rel"),
    _Row("MADX-EMEA", "madx", "emea"),
    _Row("MADX^multi-En", "madx-multi", "en"),
    _Row("MADX^multi-Rel", "madx-multi", "rel"),
    _Row("MADX^multi-Uniform", "madx-multi", "uniform"),
    _Row("MADX^multi-EMEA", "madx-multi", "emea"),
    _Row("SFT-M", "sft-m", "plain"),
    _Row("CPG", "cpg", "plain"),
    _Row("ZGUL", "zgul", "em"),
    _Row("ZGUL w/o EM", "zgul", "plain"),
    _Row("ZGUL w/o L", "zgul-no-l", "em"),
    _Row("ZGUL w/o F", "zgul-no-f", "em"),
    _Row("ZGUL, EM tied by layer", "zgul", "em-tied"),
    _Row("MADX^multi-Tgt", "madx-multi", "tgt", (TARGET_ADAPTER,)),
    _Row("SFT++", "sft-m", "plain", (TARGET_ENCODER,)),
    _Row("ZGUL++", "zgul", "em", (TARGET_ENCODER, TARGET_ADAPTER)),
    _Row("ZGUL++ w/o Tgt. LA", "zgul", "em", (TARGET_ENCODER,)),
    _Row("ZGUL++ w/o mBERT^tgt", "zgul", "em", (TARGET_ADAPTER,)),
)


def _rows() -> Sequence[_Row]:
    """The paper's rows. `zgul.methods.rows` will replace this list."""
    return _ROWS

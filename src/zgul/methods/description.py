"""A description of every method: what it trains and freezes, how it infers, and which rows of the paper it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zgul.methods import METHODS
from zgul.methods.sizes import RELEASE_FORMS, count_parameters


@dataclass(frozen=True)
class Row:
    """A row of the paper's tables: a trained method and a way to infer with it."""

    title: str
    method: str
    strategy: str
    needs: tuple[str, ...] = ()  # what must be trained on the target's text


@dataclass(frozen=True)
class MethodDescription:
    """What one method trains and how it infers. Parameters are counted at the size of mBERT, with 17 labels."""

    name: str
    title: str
    trained_on: str
    trained: tuple[str, ...]
    frozen: tuple[str, ...]
    strategies: tuple[str, ...]  # the first is the default
    rows: tuple[Row, ...]
    trainable_parameters: int
    in_the_release: dict[str, int]  # trainable parameters of the forms that the authors' release has, by group


def describe_methods() -> list[MethodDescription]:
    """Describe every method. The numbers are counted on the methods' own modules."""
    descriptions = []
    for method in METHODS.values():
        counted = count_parameters(method)
        forms = RELEASE_FORMS if method.name == "zgul" else {}
        descriptions.append(
            MethodDescription(
                method.name,
                method.title,
                "English" if method.english_only else "all sources",
                tuple(counted.trained),
                tuple(counted.frozen),
                method.strategies,
                tuple(row for row in _rows() if row.method == method.name),
                counted.trainable,
                {group: count_parameters(method, options).trainable for group, (options, _) in forms.items()},
            )
        )
    return descriptions


TARGET_ENCODER = "an encoder trained on the target's text"  # the paper's mBERT^tgt
TARGET_ADAPTER = "the target's adapter"  # in the bank, beside those of the sources
_ROWS = (
    Row("SFT-En", "sft-en", "plain"),
    Row("MADX-En", "madx", "en"),
    Row("MADX-Rel", "madx", "rel"),
    Row("MADX-EMEA", "madx", "emea"),
    Row("MADX^multi-En", "madx-multi", "en"),
    Row("MADX^multi-Rel", "madx-multi", "rel"),
    Row("MADX^multi-Uniform", "madx-multi", "uniform"),
    Row("MADX^multi-EMEA", "madx-multi", "emea"),
    Row("SFT-M", "sft-m", "plain"),
    Row("CPG", "cpg", "plain"),
    Row("ZGUL", "zgul", "em"),
    Row("ZGUL w/o EM", "zgul", "plain"),
    Row("ZGUL w/o L", "zgul-no-l", "em"),
    Row("ZGUL w/o F", "zgul-no-f", "em"),
    Row("ZGUL, EM tied by layer", "zgul", "em-tied"),
    Row("MADX^multi-Tgt", "madx-multi", "tgt", (TARGET_ADAPTER,)),
    Row("SFT++", "sft-m", "plain", (TARGET_ENCODER,)),
    Row("ZGUL++", "zgul", "em", (TARGET_ENCODER, TARGET_ADAPTER)),
    Row("ZGUL++ w/o Tgt. LA", "zgul", "em", (TARGET_ENCODER,)),
    Row("ZGUL++ w/o mBERT^tgt", "zgul", "em", (TARGET_ADAPTER,)),
)


def _rows() -> Sequence[Row]:
    """The paper's rows. `zgul.methods.rows` will replace this list."""
    return _ROWS

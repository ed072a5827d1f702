"""Every method of the paper, by name. ``METHODS`` holds the ways to train, ``ROWS`` the paper's rows."""

from __future__ import annotations

from dataclasses import dataclass

from zgul.errors import ZgulError
from zgul.methods import cpg, madx, sft, zgul
from zgul.methods.base import Method, MethodOptions, Parts

__all__ = ["METHODS", "ROWS", "TARGET_ADAPTER", "TARGET_ENCODER", "Method", "MethodOptions", "Parts", "Row", "method"]

METHODS: dict[str, Method] = {method.name: method for module in (sft, madx, cpg, zgul) for method in module.METHODS}


TARGET_ENCODER = "an encoder trained on the target's text"  # the paper's mBERT^tgt
TARGET_ADAPTER = "the target's adapter"  # in the bank, beside those of the sources


@dataclass(frozen=True)
class Row:
    """A row of the paper's tables: a trained method and a way to infer with it.

    The last ones (the paper's "Leveraging Unlabeled Target Data") need something trained on text of the target.
    """

    title: str
    method: str
    strategy: str
    needs: tuple[str, ...] = ()  # TARGET_ENCODER, TARGET_ADAPTER


ROWS: list[Row] = [
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
]


def method(name: str) -> Method:
    """The method of this name."""
    if name not in METHODS:
        raise ZgulError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]

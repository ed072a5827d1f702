"""The rows of the paper's tables and of ours, from ``rows.toml``: a trained method and a way to infer with it."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET_ENCODER = "an encoder trained on the target's text"  # the paper's mBERT^tgt
TARGET_ADAPTER = "the target's adapter"  # in the bank, beside the adapters of the sources


@dataclass(frozen=True)
class Row:
    """One row: what is trained, how it infers and where it is printed."""

    title: str  # the paper's, where it has one
    method: str  # a name of `zgul.methods.METHODS`
    strategy: str  # of that method
    kind: str  # English baseline, multi-source baseline, ZGUL, ablation, EM variant, target text
    em: Any = None  # "source" or "target": whose dev set chooses T and lr; or [T, lr]
    start: str = "scores"  # where EM starts: the paper's scores or the release's probabilities
    weights: bool = False  # whether the weights of the adapters are recorded
    needs: Sequence[str] = ()  # TARGET_ENCODER, TARGET_ADAPTER

    def inference(self) -> dict[str, Any]:
        """The row as a run of the experiments records it."""
        em = {"steps": self.em[0], "lr": self.em[1]} if isinstance(self.em, list) else self.em
        return {"row": self.title, "strategy": self.strategy, "em": em, "start": self.start, "weights": self.weights}


_FILE = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
ROWS = tuple(Row(**row) for row in tomllib.loads(_FILE)["rows"])


def rows_of(method: str, *tables: str) -> list[Row]:
    """The rows that a trained method gives, of all tables or of those named: zero-shot, em, unlabelled."""
    table_of = {"EM variant": "em", "target text": "unlabelled"}
    rows = [row for row in ROWS if row.method == method]
    return [row for row in rows if not tables or table_of.get(row.kind, "zero-shot") in tables]


def titles(*kinds: str) -> tuple[str, ...]:
    """The titles of all rows of these kinds, in the paper's order."""
    return tuple(row.title for row in ROWS if row.kind in kinds)


ZGUL = "ZGUL"
COMPARED = (ZGUL, "CPG", "SFT-M")  # the rows of the paper's class tables, few-shot curves and examples
ABLATIONS = titles("ablation")
MULTI_SOURCE = titles("multi-source baseline")
BASELINES = titles("English baseline") + MULTI_SOURCE
ZERO_SHOT = (*BASELINES, ZGUL, *ABLATIONS)
TARGET_TEXT = titles("target text")
TRAINED = tuple(dict.fromkeys(row.method for row in ROWS))  # the methods that are trained
FEW_SHOT = tuple(row.method for row in ROWS if row.title in COMPARED)  # the methods that few-shot runs start from

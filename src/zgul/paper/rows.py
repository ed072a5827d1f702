"""The rows of the paper's tables and of ours. A row is a trained method and a way to infer with it.

The plan of the runs, the report and ``zgul methods`` all read this registry.
"""

from dataclasses import dataclass
from typing import Any, Literal

TARGET_ENCODER = "an encoder trained on the target's text"  # the paper's mBERT^tgt
TARGET_ADAPTER = "the target's adapter"  # in the bank, beside the adapters of the sources

Kind = Literal["English baseline", "multi-source baseline", "ZGUL", "ablation", "EM variant", "target text"]


@dataclass(frozen=True)
class Row:
    """One row: what is trained, how it infers and where it is printed."""

    title: str  # the paper's, where it has one
    method: str  # a name of `zgul.methods.METHODS`
    strategy: str  # of that method
    kind: Kind
    em: Literal["source", "target"] | tuple[int, float] | None = None  # whose dev set chooses T and lr, or both given
    start: str = "scores"  # where EM starts: the paper's scores or the release's probabilities
    weights: bool = False  # whether the weights of the adapters are recorded
    needs: tuple[str, ...] = ()  # TARGET_ENCODER, TARGET_ADAPTER

    @property
    def table(self) -> str:
        """The table that the row belongs to."""
        return {"EM variant": "em", "target text": "unlabelled"}.get(self.kind, "zero-shot")

    def inference(self) -> dict[str, Any]:
        """The row as a run of the experiments records it."""
        em = {"steps": self.em[0], "lr": self.em[1]} if isinstance(self.em, tuple) else self.em
        return {"row": self.title, "strategy": self.strategy, "em": em, "start": self.start, "weights": self.weights}


ROWS: tuple[Row, ...] = (
    Row("SFT-En", "sft-en", "plain", "English baseline"),
    Row("MADX-En", "madx", "en", "English baseline"),
    Row("MADX-Rel", "madx", "rel", "English baseline"),
    Row("MADX-EMEA", "madx", "emea", "English baseline", em="source"),
    Row("MADX^multi-En", "madx-multi", "en", "multi-source baseline"),  # named in the paper's text, not in its tables
    Row("MADX^multi-Rel", "madx-multi", "rel", "multi-source baseline"),
    Row("MADX^multi-Uniform", "madx-multi", "uniform", "multi-source baseline"),
    Row("MADX^multi-EMEA", "madx-multi", "emea", "multi-source baseline", em="source", weights=True),
    Row("MADX^multi-EMEA, EM on target dev", "madx-multi", "emea", "EM variant", em="target"),
    Row("SFT-M", "sft-m", "plain", "multi-source baseline"),
    Row("CPG", "cpg", "plain", "multi-source baseline"),
    Row("ZGUL", "zgul", "em", "ZGUL", em="source", weights=True),
    Row("ZGUL w/o EM", "zgul", "plain", "ablation"),
    Row("ZGUL, EM tied by layer", "zgul", "em-tied", "EM variant", em="source"),
    Row("ZGUL, EM on target dev", "zgul", "em", "EM variant", em="target"),
    Row("ZGUL, EM from probabilities", "zgul", "em", "EM variant", em="source", start="probabilities"),
    Row("ZGUL, EM T=1 lr=0 from probabilities", "zgul", "em", "EM variant", em=(1, 0.0), start="probabilities"),
    Row("ZGUL w/o L", "zgul-no-l", "em", "ablation", em="source"),
    Row("ZGUL w/o F", "zgul-no-f", "em", "ablation", em="source"),
    Row("MADX^multi-Tgt", "madx-multi", "tgt", "target text", needs=(TARGET_ADAPTER,)),
    Row("SFT++", "sft-m", "plain", "target text", needs=(TARGET_ENCODER,)),
    Row("ZGUL++", "zgul", "em", "target text", em="source", needs=(TARGET_ENCODER, TARGET_ADAPTER)),
    Row("ZGUL++ w/o target adapter", "zgul", "em", "target text", em="source", needs=(TARGET_ENCODER,)),
    Row("ZGUL++ w/o adapted encoder", "zgul", "em", "target text", em="source", needs=(TARGET_ADAPTER,)),
)


def rows_of(method: str, *tables: str) -> list[Row]:
    """The rows that a trained method gives, of all tables or of those named."""
    return [row for row in ROWS if row.method == method and (not tables or row.table in tables)]


def titles(*kinds: Kind) -> tuple[str, ...]:
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

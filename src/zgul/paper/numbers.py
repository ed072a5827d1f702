"""The paper's own numbers: its tables, hyperparameter grid and qualitative examples, each typed once.

They are in ``numbers.toml``. Languages have zgul's codes, and groups have zgul's names. The sizes of the paper's
datasets are in `zgul.corpora.stats`, which needs them and may not import this module.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ALPHA = 0.005  # the level of significance
AVERAGE = "avg"
TEXT_SIZE = "thousand sentences"  # the row of UNLABELLED with the size of each Wikipedia
SIGNIFICANT = ("germanic", "african", "indo-aryan")  # the groups whose ZGUL average has the paper's star


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, or the part of it that belongs to one group or task."""

    label: str  # in the paper's source
    values: dict[str, dict[str, float]]  # row -> column -> number

    def get(self, row: str, column: str) -> float | None:
        return self.values.get(row, {}).get(column)


@dataclass(frozen=True)
class PaperExample:
    """A sentence of the paper's appendix. "…" marks words that the paper leaves out."""

    label: str
    language: str
    words: str
    tags: dict[str, str]  # of "gold" and the systems

    def stands_in(self, words: list[str]) -> bool:
        """Whether a sentence has these words in this order, with any words in the gaps."""
        sides = (self.words.split(), words)
        own, other = ("".join(f" {word} " for word in side).replace("’", "'") for side in sides)
        return re.search(re.escape(own).replace(re.escape(" … "), ".*"), other) is not None


_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _tables(name: str) -> dict[str, PaperTable]:
    """A table by group or task."""
    tables = {}
    for group, rows in _DATA[name].items():
        label, columns = rows.pop("label"), rows.pop("columns")
        values = {title: dict(zip(columns, map(float, row), strict=False)) for title, row in rows.items()}
        tables[group] = PaperTable(label, values)
    return tables


ZERO_SHOT = _tables("zero-shot")  # by group
DEVIATIONS = _tables("deviation")  # by group: standard deviations over three seeds
TARGET_DEV = _tables("target-dev")  # by group: EM's settings chosen on the target's own dev set
XLMR = _tables("xlm-r")  # by group: the second encoder
CLASSES = _tables("classes")  # by task
_WHOLE = ("em-tied", "correlation", "unlabelled", "cost")
EM_TIED, CORRELATION, UNLABELLED, COST = (_tables(name)["all"] for name in _WHOLE)
GRID = {name: tuple(map(float, values)) for name, values in _DATA["grid"].items()}  # what the paper tried
EXAMPLES = [PaperExample(**example) for example in _DATA["example"]]


def printed_average(group: str, row: str) -> float:
    """A row's printed average in the zero-shot table of a group."""
    return ZERO_SHOT[group].values[row][AVERAGE]


def lead(group: str) -> tuple[str, float]:
    """The closest baseline in the paper and ZGUL's lead over it."""
    baselines = [row for row in ZERO_SHOT[group].values if not row.startswith("ZGUL")]
    nearest = max(baselines, key=lambda row: printed_average(group, row))
    return nearest, printed_average(group, "ZGUL") - printed_average(group, nearest)

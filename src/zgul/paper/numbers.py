"""The paper's own numbers: its tables, hyperparameter grid and qualitative examples, each typed once.

They stand in ``numbers.txt``. Languages are named by our codes and groups by our names. The sizes of the paper's data
sets stand in `zgul.corpora.stats`, which needs them and may not import this module.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ALPHA = 0.005  # the level of significance
AVERAGE = "avg"
TEXT_SIZE = "thousand sentences"  # the row of UNLABELLED with the size of each Wikipedia
SIGNIFICANT = ("germanic", "african", "indo-aryan")  # the groups whose ZGUL average has the paper's star


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, or the part of it that belongs to one group or task."""

    label: str  # in the paper's source
    values: dict[str, dict[str, float]] = field(default_factory=dict)  # row -> column -> number

    def get(self, row: str, column: str) -> float | None:
        return self.values.get(row, {}).get(column)


@dataclass(frozen=True)
class PaperExample:
    """A sentence of the paper's appendix. "…" stands where the paper leaves words out."""

    label: str
    language: str
    words: list[str]
    tags: dict[str, list[str]]  # "gold" and the systems

    def stands_in(self, words: list[str]) -> bool:
        """Whether a sentence has these words in this order, with any words in the gaps."""
        own, other = ("".join(f" {word} " for word in side).replace("’", "'") for side in (self.words, words))
        return re.search(re.escape(own).replace(re.escape(" … "), ".*"), other) is not None


_TABLES: dict[str, dict[str, PaperTable]] = defaultdict(dict)  # name -> group, or "" -> table
GRID: dict[str, tuple[float, ...]] = {}  # hyperparameter -> what the paper tried
EXAMPLES: list[PaperExample] = []


def _read_numbers(text: str) -> None:
    for paragraph in text.split("\n\n"):
        head, *lines = [line for line in paragraph.splitlines() if line and not line.startswith("#")] or [""]
        name, *fields = (part.strip() for part in head.split("|"))
        titled = {title: values.split() for title, colon, values in (line.partition(":") for line in lines) if colon}
        if name == "grid":
            GRID.update({title: tuple(map(float, values)) for title, values in titled.items()})
        elif name.startswith("example"):
            EXAMPLES.append(PaperExample(fields[0], name.split()[1], titled.pop("words"), titled))
        elif name:
            _read_table(name, fields[0], fields[1:], lines)


def _read_table(name: str, label: str, columns: list[str], lines: list[str]) -> None:
    parts: list[tuple[PaperTable, str]] = []  # the table and column of each number of a line
    for group, _, titles in (column.rpartition(":") for column in columns):
        table = _TABLES[name][group] = PaperTable(label)
        parts += [(table, title) for title in titles.split()]
    for line in lines:
        title, *numbers = line.rsplit(maxsplit=len(parts))
        for (table, column), number in zip(parts, numbers, strict=True):
            if number != "-":
                table.values.setdefault(title.strip(), {})[column] = float(number)


_read_numbers(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))

ZERO_SHOT = _TABLES["zero-shot"]  # by group
DEVIATIONS = _TABLES["deviation"]  # by group: standard deviations over three seeds
TARGET_DEV = _TABLES["target-dev"]  # by group: EM's settings chosen on the target's own dev set
XLMR = _TABLES["xlm-r"]  # by group: the second encoder
CLASSES = _TABLES["classes"]  # by task
EM_TIED, CORRELATION = _TABLES["em-tied"][""], _TABLES["correlation"][""]
UNLABELLED, COST = _TABLES["unlabelled"][""], _TABLES["cost"][""]


def average(group: str, row: str) -> float:
    """A row's printed average in the zero-shot table of a group."""
    return ZERO_SHOT[group].values[row][AVERAGE]


def lead(group: str) -> tuple[str, float]:
    """The closest baseline in the paper and ZGUL's lead over it."""
    baselines = [row for row in ZERO_SHOT[group].values if not row.startswith("ZGUL")]
    nearest = max(baselines, key=lambda row: average(group, row))
    return nearest, average(group, "ZGUL") - average(group, nearest)

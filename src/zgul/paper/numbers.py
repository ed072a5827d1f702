"""The paper's own numbers: its tables, hyperparameter grid and qualitative examples, each typed once.

The tables stand in ``numbers.txt``. Languages are named by our codes and groups by our names. The sizes of the
paper's data sets stand in `zgul.corpora.stats`, which needs them and may not import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

AVERAGE = "avg"


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, or the part of it that belongs to one group."""

    label: str  # in the paper's source
    values: dict[str, dict[str, float]] = field(default_factory=dict)  # row -> column -> number

    def get(self, row: str, column: str) -> float | None:
        return self.values.get(row, {}).get(column)


@dataclass(frozen=True)
class PaperExample:
    """A sentence of the paper's appendix. "…" stands where the paper leaves words out."""

    label: str
    language: str
    words: tuple[str, ...]
    gold: tuple[str, ...]
    tags: Mapping[str, tuple[str, ...]]  # system -> what it says

    def pieces(self) -> list[list[str]]:
        """The stretches of words between the gaps, with plain apostrophes."""
        joined = " ".join(self.words).replace("’", "'")
        return [piece.split() for piece in joined.split("…") if piece.strip()]


def _read_tables(lines: Iterable[str]) -> dict[str, dict[str, PaperTable]]:
    """All tables by name and group. A table without groups has the group ""."""
    tables: dict[str, dict[str, PaperTable]] = {}
    parts: list[tuple[PaperTable, str]] = []  # of the table that is being read: one part and column for each number
    for line in (line.strip() for line in lines):
        if "|" in line:
            name, label, *columns = (part.strip() for part in line.split("|"))
            parts = []
            for group, _, names in (part.rpartition(":") for part in columns):
                table = tables.setdefault(name, {})[group] = PaperTable(label)
                parts += [(table, column) for column in names.split()]
        elif line and not line.startswith("#"):
            title, *numbers = line.rsplit(maxsplit=len(parts))
            for (table, column), number in zip(parts, numbers, strict=True):
                if number != "-":
                    table.values.setdefault(title.strip(), {})[column] = float(number)
    return tables


_TABLES = _read_tables(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines())

ZERO_SHOT = _TABLES["zero-shot"]  # by group
DEVIATIONS = _TABLES["deviation"]  # by group: standard deviations over three seeds
TARGET_DEV = _TABLES["target-dev"]  # by group: EM's settings chosen on the target's own dev set
XLMR = _TABLES["xlm-r"]  # by group: the second encoder
CLASSES = _TABLES["classes"]  # by task
EM_TIED = _TABLES["em-tied"][""]
CORRELATION = _TABLES["correlation"][""]
UNLABELLED = _TABLES["unlabelled"][""]
COST = _TABLES["cost"][""]
TEXT_SIZE = "thousand sentences"  # the row of UNLABELLED with the size of each Wikipedia

SIGNIFICANT = ("germanic", "african", "indo-aryan")  # the groups whose ZGUL average has the paper's star
EPOCHS = {"pos": 5, "ner": 10}
GRID: dict[str, tuple[float, ...]] = {  # table tab:hparam: first the rates of SFT, then of the adapter methods
    "SFT Learning Rate": (2e-5, 3e-5, 5e-5),
    "Learning Rate": (5e-5, 1e-4),
    "Reduction Factor": (3, 4),
    "Batch Size": (16, 32),
    "EM Steps": (1, 5, 10),
    "EM LR": (0.05, 0.1, 0.5, 1.0),
    "Few-shot LR": (1e-5, 5e-5, 1e-4),
    "Few-shot epochs": (1, 5, 10),
    "Few-shot Batch Size": (1, 4, 8),
}


def _example(label: str, language: str, words: str, gold: str, **tags: str) -> PaperExample:
    said = {name.replace("_", "-"): tuple(line.split()) for name, line in tags.items()}
    return PaperExample(label, language, tuple(words.split()), tuple(gold.split()), said)


EXAMPLES = (  # the paper's fourth example, Old East Slavic, is a picture
    _example(
        *("exam:POS+", "gsw", "Daas Buech laufft besser als jede vo sine Krimi ."),
        gold="DET NOUN VERB ADV CONJ PRON ADP DET NOUN PUNCT",
        ZGUL="DET NOUN VERB ADV CONJ PRON ADP DET NOUN PUNCT",
        CPG="DET PROPN VERB ADV ADP DET ADP DET NOUN PUNCT",
    ),
    _example(
        *("NER+", "ha", "Jami’an tsaron Lebanon … Jakadancin Amurka da ke birnin Beirut"),
        gold="O O LOC … O LOC O O O LOC",
        ZGUL="O O LOC … O LOC O O O LOC",
        SFT_M="O O LOC … PER PER O O O LOC",
    ),
    _example(
        *("NER-", "luo", "Doho … pachoka David Maraga chiwo … jii 11 matiyo …"),
        gold="O … O PER PER O … O O O …",
        ZGUL="O … O PER PER O … O DATE DATE …",
        SFT_M="O … O PER PER O … O O O …",
    ),
)


def average(group: str, row: str) -> float:
    """A row's printed average in the zero-shot table of a group."""
    return ZERO_SHOT[group].values[row][AVERAGE]


def lead(group: str) -> tuple[str, float]:
    """The closest baseline in the paper and ZGUL's lead over it."""
    baselines = [row for row in ZERO_SHOT[group].values if not row.startswith("ZGUL")]
    nearest = max(baselines, key=lambda row: average(group, row))
    return nearest, average(group, "ZGUL") - average(group, nearest)

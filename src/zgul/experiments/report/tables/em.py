"""Entropy minimisation in its forms, and what of its gain is entropy."""

from __future__ import annotations

from collections.abc import Callable

from zgul.evaluation.compare import MeanStd, mean_std
from zgul.experiments.report import paper
from zgul.experiments.report.document import Column, Row, Table
from zgul.experiments.report.frame import (
    Frame,
    averages,
)
from zgul.experiments.report.tables.common import BESIDE, cell, embolden, f1_row, group_title, language_columns

EM_ROWS = {  # row -> how it is called here
    "ZGUL w/o EM": "without EM",
    "ZGUL": "EM, token-wise (the method)",
    "ZGUL, EM tied by layer": "EM, tied by layer",
    "ZGUL, EM T=1 lr=0 from probabilities": "control: T = 1, lr = 0 from probabilities",
    "ZGUL, EM from probabilities": "EM from probabilities (the release)",
    "ZGUL, EM on target dev": "EM tuned on target dev (uses target labels)",
    "MADX^multi-EMEA": "MADX^multi-EMEA",
    "MADX^multi-EMEA, EM on target dev": "MADX^multi-EMEA tuned on target dev (uses target labels)",
}


def em_table(frame: Frame, group: str) -> Table | None:
    """What EM does in each of its forms."""
    languages = frame.languages("zero-shot", group)
    there = frame.rows("zero-shot", group)
    if not any(row in there for row in EM_ROWS if row.startswith("ZGUL, EM")):
        return None
    rows = []
    for row, title in EM_ROWS.items():
        if row not in there or (row == "MADX^multi-EMEA" and f"{row}, EM on target dev" not in there):
            continue
        cells = f1_row(frame.entries("zero-shot", group, row), languages, published_em(group, row))
        rows.append(Row(title, tuple(cells), rule=row in ("ZGUL, EM on target dev", "MADX^multi-EMEA")))
    caption = (
        f"{group_title(group)}: ZGUL's weights moved by EM in different ways, F1: {BESIDE}. Rows tuned on target dev "
        "use labels of the target language and are not zero-shot; a target without a dev set has no number there"
    )
    return Table(f"em-{group}", caption, language_columns(languages), embolden(rows), "EM")


def published_em(group: str, row: str) -> Callable[[str], float | None]:
    if row.endswith("EM on target dev"):
        return lambda code: paper.TARGET_DEV[group].get(row.split(",")[0], code)
    if row == "ZGUL, EM tied by layer":
        return lambda code: paper.EM_TIED.get("tied", code) if code != paper.AVERAGE else None
    return lambda code: paper.ZERO_SHOT[group].get(row, code)


def em_gains(frame: Frame) -> Table | None:
    """How much of EM's gain is entropy and how much is flattening."""
    rows = []
    control, release = "ZGUL, EM T=1 lr=0 from probabilities", "ZGUL, EM from probabilities"
    pairs = (
        ("ZGUL", "ZGUL w/o EM"),
        ("ZGUL, EM tied by layer", "ZGUL w/o EM"),
        (release, "ZGUL w/o EM"),
        (control, "ZGUL w/o EM"),
        (release, control),
    )
    for group in frame.groups("zero-shot"):
        gains = [row_difference(frame, "zero-shot", group, *pair) for pair in pairs]
        if any(gain is not None for gain in gains[1:]):
            rows.append(Row(group_title(group), tuple(map(cell, gains))))
    if not rows:
        return None
    columns = ("token-wise EM", "tied by layer", "release's EM", "of it: flattening", "of it: entropy")
    caption = (
        "Gains over ZGUL without EM, average F1. The release starts EM from probabilities in the place of scores, "
        "which flattens the weights before the first step: the control (T = 1, lr = 0) flattens and does nothing else; "
        "what is left over it is entropy's part"
    )
    return Table("em-gains", caption, tuple(map(Column, columns)), tuple(rows), "Group")


def row_difference(frame: Frame, part: str, group: str, row: str, other: str) -> MeanStd | None:
    """Difference of the average F1 of two rows, seed by seed, over the languages that both have."""
    scored = [{e.score.language for e in frame.entries(part, group, title)} for title in (row, other)]
    languages = [code for code in frame.languages(part, group) if all(code in codes for codes in scored)]
    first, second = (averages(frame.entries(part, group, title), languages) for title in (row, other))
    values = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    return mean_std(values) if values else None

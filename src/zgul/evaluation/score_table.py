"""Scores as a table for people and as JSON for other programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rich.table import Table

from zgul.evaluation.scoring import Scores


def format_scores(scores: Scores, title: str | None = None) -> Table:
    """A table of the classes with the totals in the last row. Print it with ``rich``."""
    caption = f"{scores.sentences:,} sentences, {scores.words:,} words, accuracy {scores.accuracy:.1f}"
    table = Table(title=title, caption=caption)
    table.add_column("class")
    for name in ("F1", "precision", "recall", "support"):
        table.add_column(name, justify="right")
    for label, row in scores.per_class.items():
        table.add_row(label, *_cells(row["f1"], row["precision"], row["recall"], row["support"]))
    table.add_section()
    support = sum(row["support"] for row in scores.per_class.values())
    table.add_row("all (micro)", *_cells(scores.f1, scores.precision, scores.recall, support), style="bold")
    return table


def to_json(scores: Scores, **more: Any) -> str:
    """The scores as a JSON object. Other fields, such as seconds or the model, may be added with ``more``."""
    own = asdict(scores)
    if taken := own.keys() & more.keys():
        raise ValueError(f"scores have these names already: {', '.join(sorted(taken))}")
    return json.dumps({**own, **more}, ensure_ascii=False, indent=2)


def _cells(f1: float, precision: float, recall: float, support: int) -> tuple[str, ...]:
    return f"{f1:.1f}", f"{precision:.1f}", f"{recall:.1f}", f"{support:,}"

"""The weights of the sources' adapters against the relatedness of the languages."""

from __future__ import annotations

from zgul.evaluation.compare import MeanStd, mean_std
from zgul.experiments.report import paper
from zgul.experiments.report.document import Cell, Column, Row, Table
from zgul.experiments.report.frame import (
    Frame,
)
from zgul.experiments.report.tables.common import cell, group_title
from zgul.languages import GROUPS, find

WEIGHTS = {"lang2vec": "Lang2Vec", "fusion": "Fusion", "emea": "MADX^multi-EMEA"}


def weights(frame: Frame, kind: str, group: str) -> list[dict[str, dict[str, float]]]:
    """Mean weights by target and source, for each seed that has them."""
    found = []
    for run in sorted(frame.runs_of("zero-shot", group), key=lambda run: run.seed):
        table = run.facts.get("weights", {}).get(kind)
        if table and run.method in ("zgul", "madx-multi"):
            found.append({target: table[target] for target in GROUPS[group].targets if target in table})
    return found


def correlation(table: dict[str, dict[str, float]]) -> float | None:
    """Pearson's correlation of weight and average similarity over all pairs of target and source."""
    import numpy as np

    from zgul.languages import similarity

    pairs = [(weight, similarity(target, source)) for target, row in table.items() for source, weight in row.items()]
    if len(pairs) < 3:
        return None
    first, second = np.array(pairs).T
    if first.std() < 1e-9 or second.std() < 1e-9:
        return None  # all weights alike: no correlation is defined
    return float(np.corrcoef(first, second)[0, 1])


def group_correlation(frame: Frame, kind: str, group: str) -> MeanStd | None:
    values = [value for table in weights(frame, kind, group) if (value := correlation(table)) is not None]
    return mean_std(values) if values else None


def correlations(frame: Frame) -> Table | None:
    """The paper's table of correlations."""
    rows = []
    for group in frame.groups("zero-shot"):
        values = [group_correlation(frame, kind, group) for kind in WEIGHTS]
        if any(values):
            cells = (cell(v, paper.CORRELATION.get(group, k), 2) for k, v in zip(WEIGHTS, values, strict=True))
            rows.append(Row(group_title(group), tuple(cells)))
    if not rows:
        return None
    caption = (
        "Pearson correlation between the weights of the sources' adapters (averaged over words, layers and sentences, "
        "after EM) and the similarity of source and target (average of syntactic and genetic), over all pairs of a "
        "group: mean ± standard deviation over seeds, the paper's number beside"
    )
    return Table("correlation", caption, tuple(map(Column, WEIGHTS.values())), tuple(rows), "Group")


def language_weights(frame: Frame, group: str, language: str) -> Table | None:
    """Whom a target listens to, against relatedness."""
    from zgul.languages import similarity

    rows = []
    sources = GROUPS[group].sources
    for kind, title in WEIGHTS.items():
        tables = [table[language] for table in weights(frame, kind, group) if language in table]
        if tables:
            spread = [mean_std([table[source] for table in tables if source in table] or [0.0]) for source in sources]
            rows.append(Row(f"{title} weight", tuple(cell(value, digits=2) for value in spread)))
    if not rows:
        return None
    for rule, kind in enumerate(("average", "genetic", "syntactic")):
        values = (Cell(similarity(language, source, kind), digits=2) for source in sources)  # type: ignore[arg-type]
        rows.append(Row(f"{kind} similarity", tuple(values), rule=rule == 0))
    columns = tuple(Column(find(source).name) for source in sources)
    caption = f"Weights of the sources' adapters on {find(language).name}, and how related the sources are"
    return Table(f"weights-{language}", caption, columns, tuple(rows), "")

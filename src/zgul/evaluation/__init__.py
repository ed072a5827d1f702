"""Evaluation: seqeval's F1 as the paper uses it, spread over seeds, and tests between two systems."""

from zgul.evaluation.score_table import format_scores, to_json
from zgul.evaluation.scoring import ClassScores, Scores, chunk_counts, scores
from zgul.evaluation.significance import (
    Difference,
    McNemar,
    MeanStd,
    bootstrap_f1,
    mcnemar,
    mcnemar_counts,
    mean_std,
)

__all__ = [
    "ClassScores",
    "Difference",
    "McNemar",
    "MeanStd",
    "Scores",
    "bootstrap_f1",
    "chunk_counts",
    "format_scores",
    "mcnemar",
    "mcnemar_counts",
    "mean_std",
    "scores",
    "to_json",
]

"""Evaluation: seqeval's F1 as the paper uses it, its spread over seeds, and tests between two systems."""

from zgul.evaluation.compare import Difference, McNemar, MeanStd, bootstrap_f1, mcnemar, mean_std
from zgul.evaluation.report import format_scores, to_json
from zgul.evaluation.scoring import ClassScores, Scores, chunk_counts, scores

__all__ = ["ClassScores", "Difference", "McNemar", "MeanStd", "Scores"]
__all__ += ["bootstrap_f1", "chunk_counts", "format_scores", "mcnemar", "mean_std", "scores", "to_json"]

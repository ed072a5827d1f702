"""Evaluation: seqeval's F1 as the paper uses it, spread over seeds, and tests between two systems."""

from zgul.evaluation.scoring import Scores, chunk_counts, format_scores, scores
from zgul.evaluation.significance import McNemar, MeanStd, bootstrap_f1, mcnemar, mcnemar_counts, mean_std

__all__ = ["McNemar", "MeanStd", "Scores", "bootstrap_f1", "chunk_counts", "format_scores", "mcnemar"]
__all__ += ["mcnemar_counts", "mean_std", "scores"]

"""The paper's tables, filled from results: methods as rows, languages as columns, the paper's numbers beside."""

from zgul.experiments.report.tables.attention import (
    WEIGHTS,
    correlation,
    correlations,
    group_correlation,
    language_weights,
    weights,
)
from zgul.experiments.report.tables.common import (
    ALPHA,
    BESIDE,
    cell,
    embolden,
    f1_row,
    group_title,
    language_columns,
    language_title,
)
from zgul.experiments.report.tables.data import checksums, data_groups, data_targets, example
from zgul.experiments.report.tables.em import EM_ROWS, em_gains, em_table, row_difference
from zgul.experiments.report.tables.few_shot import few_shot_entries, few_shot_languages, few_shot_sizes, few_shot_table
from zgul.experiments.report.tables.models import COST_ROWS, ENCODER_ROWS, classes, cost, encoders
from zgul.experiments.report.tables.runs import language_rows, runs_table
from zgul.experiments.report.tables.unlabelled import UNLABELLED_ROWS, share, unlabelled_entries, unlabelled_table
from zgul.experiments.report.tables.zero_shot import (
    Comparison,
    against,
    against_closest,
    p_value,
    significance,
    zero_shot_table,
)

__all__ = [
    "ALPHA",
    "BESIDE",
    "COST_ROWS",
    "EM_ROWS",
    "ENCODER_ROWS",
    "UNLABELLED_ROWS",
    "WEIGHTS",
    "Comparison",
    "against",
    "against_closest",
    "cell",
    "checksums",
    "classes",
    "correlation",
    "correlations",
    "cost",
    "data_groups",
    "data_targets",
    "em_gains",
    "em_table",
    "embolden",
    "encoders",
    "example",
    "f1_row",
    "few_shot_entries",
    "few_shot_languages",
    "few_shot_sizes",
    "few_shot_table",
    "group_correlation",
    "group_title",
    "language_columns",
    "language_rows",
    "language_title",
    "language_weights",
    "p_value",
    "row_difference",
    "runs_table",
    "share",
    "significance",
    "unlabelled_entries",
    "unlabelled_table",
    "weights",
    "zero_shot_table",
]

"""Statistics for tables: intervals, paired tests, correlations. Imports no torch."""

from imharness.errors import NotTestable
from imharness.ranking.statistics.bootstrap import Interval, interval, mean_interval
from imharness.ranking.statistics.correlation import correlate, kendall_rows, pearson_rows, spearman_rows, williams
from imharness.ranking.statistics.kruskal_wallis import KruskalWallis, kruskal_wallis
from imharness.ranking.statistics.roc import auc, balanced_accuracy, tpr_at_fpr
from imharness.ranking.statistics.wilcoxon import wilcoxon_greater
from imharness.ranking.statistics.win_rates import bradley_terry

__all__ = [
    "Interval", "KruskalWallis", "NotTestable", "auc", "balanced_accuracy", "bradley_terry", "correlate", "interval",
    "kendall_rows", "kruskal_wallis", "mean_interval", "pearson_rows", "spearman_rows", "tpr_at_fpr",
    "wilcoxon_greater", "williams",
]  # fmt: skip

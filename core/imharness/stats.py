"""Statistics for tables: intervals, paired tests, correlations. Imports no torch."""

from imharness_statistics import NotTestable
from imharness_statistics.bootstrap import Interval, interval, mean_interval, t_interval
from imharness_statistics.clusters import FEWEST, chosen_half, clusters_greater, kinds
from imharness_statistics.correlation import correlate, kendall_rows, pearson_rows, spearman_rows, williams
from imharness_statistics.differences import MOST, Differences, Told, contributions, differences, means
from imharness_statistics.kruskal_wallis import KruskalWallis, kruskal_wallis
from imharness_statistics.mean_spearman import mean_spearman
from imharness_statistics.ranks import front
from imharness_statistics.roc import auc, balanced_accuracy, tpr_at_fpr
from imharness_statistics.wilcoxon import wilcoxon_greater
from imharness_statistics.win_rates import ALPHA, bradley_terry

__all__ = [
    "ALPHA", "FEWEST", "MOST", "Differences", "Interval", "KruskalWallis", "NotTestable", "Told", "auc",
    "balanced_accuracy", "bradley_terry", "chosen_half", "clusters_greater", "contributions", "correlate",
    "differences", "front", "interval", "kendall_rows", "kinds", "kruskal_wallis", "mean_interval", "mean_spearman",
    "means", "pearson_rows", "spearman_rows", "t_interval", "tpr_at_fpr", "wilcoxon_greater", "williams",
]  # fmt: skip

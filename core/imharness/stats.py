"""Statistics for tables: intervals, paired tests, correlations. Imports no torch."""

from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import Interval, interval, mean_interval, t_interval
from imharness.statistics.clusters import FEWEST, chosen_half, clusters_greater, kinds
from imharness.statistics.correlation import correlate, kendall_rows, pearson_rows, spearman_rows, williams
from imharness.statistics.differences import MOST, Differences, Told, contributions, differences
from imharness.statistics.kruskal_wallis import kruskal_wallis
from imharness.statistics.mean_spearman import mean_spearman
from imharness.statistics.means import jackknife
from imharness.statistics.nested import nested_interval
from imharness.statistics.ranks import front
from imharness.statistics.roc import auc, balanced_accuracy, tpr_at_fpr
from imharness.statistics.wilcoxon import wilcoxon_greater
from imharness.statistics.win_rates import ALPHA, bradley_terry

__all__ = [
    "ALPHA",
    "FEWEST",
    "MOST",
    "Differences",
    "Interval",
    "NotTestable",
    "Told",
    "auc",
    "balanced_accuracy",
    "bradley_terry",
    "chosen_half",
    "clusters_greater",
    "contributions",
    "correlate",
    "differences",
    "front",
    "interval",
    "jackknife",
    "kendall_rows",
    "kinds",
    "kruskal_wallis",
    "mean_interval",
    "mean_spearman",
    "nested_interval",
    "pearson_rows",
    "spearman_rows",
    "t_interval",
    "tpr_at_fpr",
    "wilcoxon_greater",
    "williams",
]

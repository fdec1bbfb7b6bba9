"""For people whose track ranks entries: rows become tables, rankings by one set of rules, and tested differences.

*Tables*: `Blocks` of rows become a `Table`, a `Ranking`, a comparison and charts. *Contests*: who wins where entries
are attacked. *Statistics*: intervals, paired tests and correlations. Imports no torch.
"""

from imharness.documents.charts import Chart, Series
from imharness.documents.findings import Finding
from imharness.documents.gallery import Example, Panel
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Place, Ranking
from imharness.documents.report import PairedScores, TrackReport
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.ranking.contest import contest
from imharness.ranking.controls import controls_of, facts_of, flags_of
from imharness.ranking.evidence import EVIDENCE_ATTACK, Evidence, with_evidence
from imharness.ranking.gates import Gate, share_of
from imharness.ranking.ranking import Column, Wins, compared, ranked, ranking
from imharness.ranking.rules import Chosen, Contest, SecondaryMeasure, Words, common, own_among
from imharness.ranking.tables import mean_value, missing, value_of
from imharness.results.blocks import Blocks, Lazy
from imharness.statistics import NotTestable
from imharness.statistics.bootstrap import Interval, interval, mean_interval, t_interval
from imharness.statistics.clusters import FEWEST, chosen_half, clusters_greater, kinds
from imharness.statistics.correlation import correlate, kendall_rows, pearson_rows, spearman_rows, williams
from imharness.statistics.differences import MOST, Differences, Intervals, contributions, differences
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
    "EVIDENCE_ATTACK",
    "FEWEST",
    "MOST",
    "Blocks",
    "Chart",
    "Chosen",
    "Column",
    "ColumnSpec",
    "Contest",
    "Differences",
    "Evidence",
    "Example",
    "Finding",
    "Gate",
    "Interval",
    "Intervals",
    "Lazy",
    "Leaderboard",
    "NotTestable",
    "PairedScores",
    "Panel",
    "Place",
    "Ranking",
    "Row",
    "SecondaryMeasure",
    "Series",
    "Table",
    "TrackReport",
    "Value",
    "Wins",
    "Words",
    "auc",
    "balanced_accuracy",
    "bradley_terry",
    "chosen_half",
    "clusters_greater",
    "common",
    "compared",
    "contest",
    "contributions",
    "controls_of",
    "correlate",
    "differences",
    "facts_of",
    "flags_of",
    "front",
    "interval",
    "jackknife",
    "kendall_rows",
    "kinds",
    "kruskal_wallis",
    "mean_interval",
    "mean_spearman",
    "mean_value",
    "missing",
    "nested_interval",
    "own_among",
    "pearson_rows",
    "ranked",
    "ranking",
    "share_of",
    "spearman_rows",
    "t_interval",
    "tpr_at_fpr",
    "value_of",
    "wilcoxon_greater",
    "williams",
    "with_evidence",
]

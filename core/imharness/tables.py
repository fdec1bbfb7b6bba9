"""For people who make tables: blocks of rows become tables, rankings, comparisons and charts."""

from imharness.ranking.ranking import Column, Wins, compared, ranked, ranking
from imharness.ranking.tables import mean_value, missing, value_of
from imharness.results.blocks import Blocks, Lazy
from imharness.results.boards import Board
from imharness.results.charts import Chart, Series
from imharness.results.findings import Finding
from imharness.results.gallery import Example, Panel
from imharness.results.rankings import Place, Ranking
from imharness.results.report import PairedScores, TrackReport
from imharness.results.tables import ColumnSpec, Row, Table, Value

__all__ = [
    "Blocks",
    "Board",
    "Chart",
    "Column",
    "ColumnSpec",
    "Example",
    "Finding",
    "Lazy",
    "PairedScores",
    "Panel",
    "Place",
    "Ranking",
    "Row",
    "Series",
    "Table",
    "TrackReport",
    "Value",
    "Wins",
    "compared",
    "mean_value",
    "missing",
    "ranked",
    "ranking",
    "value_of",
]

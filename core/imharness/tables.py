"""For people who make tables: blocks of rows become tables, rankings, comparisons and charts."""

from imharness.errors import ContractError, HarnessError, Unavailable, UsageError
from imharness.ranking.comparisons import PairedScores
from imharness.ranking.ranking import Column, TrackReport, Wins, compared, ranked, ranking
from imharness.ranking.tables import mean_value, missing, value_of
from imharness.results.blocks import Blocks, Lazy
from imharness.results.rankings import Place, Ranking
from imharness.results.records import Board, Chart, ColumnSpec, Example, Panel, Row, Series, Table, Value

__all__ = [
    "Blocks", "Board", "Chart", "Column", "ColumnSpec", "ContractError", "Example", "HarnessError", "Lazy",
    "PairedScores", "Panel", "Place", "Ranking", "Row", "Series", "Table", "TrackReport", "Unavailable", "UsageError",
    "Value", "Wins", "compared", "mean_value", "missing", "ranked", "ranking", "value_of",
]  # fmt: skip

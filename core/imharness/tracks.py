"""For people who write a track: what it plans, what its steps get, what readers see."""

from imharness.components.assets import Asset
from imharness.components.component import Component, Info, Paper
from imharness.components.hookspecs import hookimpl
from imharness.contracts.track import (
    Output,
    Planned,
    Planner,
    Progress,
    Query,
    Selection,
    Step,
    StepContext,
    StepResult,
    Track,
    step,
)
from imharness.errors import ContractError, HarnessError, Unavailable, UsageError
from imharness.ranking.comparisons import PairedScores, paired_scores
from imharness.ranking.ranking import Column, TrackReport, Wins, compared, ranked, ranking
from imharness.ranking.tables import cube, mean_value, missing, value_of
from imharness.results.blocks import Blocks
from imharness.results.records import Chart, ColumnSpec, Example, Panel, Row, Series, Table, Value

__all__ = [
    "Asset",
    "Blocks",
    "Chart",
    "Column",
    "ColumnSpec",
    "Component",
    "ContractError",
    "Example",
    "HarnessError",
    "Info",
    "Output",
    "PairedScores",
    "Panel",
    "Paper",
    "Planned",
    "Planner",
    "Progress",
    "Query",
    "Row",
    "Selection",
    "Series",
    "Step",
    "StepContext",
    "StepResult",
    "Table",
    "Track",
    "TrackReport",
    "Unavailable",
    "UsageError",
    "Value",
    "Wins",
    "compared",
    "cube",
    "hookimpl",
    "mean_value",
    "missing",
    "paired_scores",
    "ranked",
    "ranking",
    "step",
    "value_of",
]

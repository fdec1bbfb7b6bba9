"""For people who write a track, or a contract: what it plans, what its steps get, what readers see, what is called."""

from imharness.components.assets import Asset
from imharness.components.component import Component, Info, Paper
from imharness.components.hookspecs import hookimpl
from imharness.contracts.call import Call
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
    Work,
    step,
)
from imharness.contracts.values import (
    GENERATOR,
    GRADIENTS,
    IMAGES,
    NUMBER,
    PROBABILITIES,
    SAME_IMAGES,
    SCORES,
    STREAMS,
    TARGETS,
    Record,
    Rows,
    Several,
    ValueKind,
)
from imharness.errors import ContractError, HarnessError, Unavailable, UsageError
from imharness.ranking.comparisons import PairedScores
from imharness.ranking.ranking import Column, TrackReport, Wins, compared, ranked, ranking
from imharness.ranking.tables import mean_value, missing, value_of
from imharness.results.rankings import Place, Ranking
from imharness.results.records import Board, Chart, ColumnSpec, Example, Panel, Row, Series, Table, TaskSpec, Value
from imharness_blocks.blocks import Blocks, Lazy

__all__ = [
    "GENERATOR", "GRADIENTS", "IMAGES", "NUMBER", "PROBABILITIES", "SAME_IMAGES", "SCORES", "STREAMS", "TARGETS",
    "Asset", "Blocks", "Board", "Call", "Chart", "Column", "ColumnSpec", "Component", "ContractError", "Example",
    "HarnessError", "Info", "Lazy", "Output", "PairedScores", "Panel", "Paper", "Place", "Planned", "Planner",
    "Progress", "Query", "Ranking", "Record", "Row", "Rows", "Selection", "Series", "Several", "Step", "StepContext",
    "StepResult", "Table", "TaskSpec", "Track", "TrackReport", "Unavailable", "UsageError", "Value", "ValueKind",
    "Wins", "Work", "compared", "hookimpl", "mean_value", "missing", "ranked", "ranking", "step", "value_of",
]  # fmt: skip

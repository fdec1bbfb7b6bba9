"""For people who write a track: what it plans, what its steps get, and what they return."""

from imharness.components.hookspecs import hookimpl
from imharness.components.inputs.names import check_names
from imharness.contracts.assets import Asset
from imharness.contracts.component import Component, Info, Paper
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
from imharness.errors import ContractError, HarnessError, Unavailable, UsageError
from imharness.ranking.ranking import TrackReport
from imharness.results.records import Board, TaskSpec

__all__ = [
    "Asset", "Board", "Component", "ContractError", "HarnessError", "Info", "Output", "Paper", "Planned", "Planner",
    "Progress", "Query", "Selection", "Step", "StepContext", "StepResult", "TaskSpec", "Track", "TrackReport",
    "Unavailable", "UsageError", "Work", "check_names", "hookimpl", "step",
]  # fmt: skip

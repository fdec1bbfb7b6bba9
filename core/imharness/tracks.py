"""For people who write a track: what it plans, what its steps receive, and what they return."""

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
    Workload,
    step,
)
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.report import TrackReport
from imharness.results.tasks import TaskSpec
from imharness.running.look_ups import REMEMBERED, TAKEN_BACK, answered, elsewhere, remembered
from imharness.running.projections import Followed, follow
from imharness.running.target import as_large

__all__ = [
    "REMEMBERED",
    "TAKEN_BACK",
    "Asset",
    "Component",
    "Followed",
    "Info",
    "Leaderboard",
    "Output",
    "Paper",
    "Planned",
    "Planner",
    "Progress",
    "Query",
    "Selection",
    "Step",
    "StepContext",
    "StepResult",
    "TaskSpec",
    "Track",
    "TrackReport",
    "Workload",
    "answered",
    "as_large",
    "check_names",
    "elsewhere",
    "follow",
    "hookimpl",
    "remembered",
    "step",
]

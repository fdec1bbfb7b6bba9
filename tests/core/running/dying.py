"""A track whose task prints a line and then ends its process; workers import this module by its name."""

import os
import sys
import time

from imharness.components.provenance import Provenance, Registered
from imharness.running import logs
from imharness.running.executor import Preparation
from imharness.tracks import Info, Planner, Query, Selection, StepContext, StepResult, Track, TrackReport, step


@step(version="1")
def dies(context: StepContext) -> StepResult:
    sys.stdout.write("last words\n")
    time.sleep(0.5)
    os._exit(7)


class Dying(Track):
    """A task whose process ends."""

    info = Info(id="acme/dying", version="1")
    title = "Dying"
    measures = "Nothing."
    steps = (dies,)

    def plan(self, planner: Planner, selection: Selection) -> None:
        planner.task(dies)

    def report(self, query: Query) -> TrackReport:
        return TrackReport()


ENTRY = Registered(Dying(), "acme", Provenance("acme", "1"))


def prepare(facts: object) -> Preparation:
    """Bring the track, and let logs be written every 0.05 s."""
    logs.EVERY_S = 0.05
    return Preparation([ENTRY])

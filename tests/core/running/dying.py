"""A track whose task says something and then takes its process with it; a worker of its own imports this."""

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
    logs.EVERY_S = 0.05
    return Preparation([ENTRY])

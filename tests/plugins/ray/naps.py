"""A track of tasks that sleep for a given time, and a function by which workers record where they run."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.running.executor import Preparation
from imharness.tracks import Info, Planner, Query, Selection, StepContext, StepResult, Track, TrackReport, step

ROWS = 100


@step(version="1")
def nap(context: StepContext) -> StepResult:
    """Sleep until a file is there, if one is named, and then so long; return rows that depend on the task alone."""
    until = context.options["until"]
    while until and not Path(until).exists():
        time.sleep(0.05)
    time.sleep(float(context.options["seconds"]))
    draws = torch.rand(ROWS, generator=context.generator("nap")).numpy()
    return StepResult(rows={"name": [str(n) for n in range(ROWS)], "score": draws.astype(np.float32)})


class Naps(Track):
    """Naps of these lengths, s; the one with the number `place` waits for the file `until`, if that is named."""

    info = Info(id="acme/naps", version="1")
    title = "Naps"
    measures = "Nothing."
    steps = (nap,)
    lengths: tuple[float, ...] = ()
    until: str = ""
    place: int = 0

    def plan(self, planner: Planner, selection: Selection) -> None:
        for number, seconds in enumerate(self.lengths):
            until = self.until if number == self.place else ""
            planner.task(nap, options={"number": number, "seconds": seconds, "until": until})

    def report(self, query: Query) -> TrackReport:
        return TrackReport()


ORIGIN = Provenance("acme", "1")


def prepare(facts: Mapping[str, Any]) -> Preparation:
    """Bring the track to a worker, and write down its process, its node and its threads."""
    if facts.get("log"):
        import ray

        threads = {"environment": os.environ.get("OMP_NUM_THREADS"), "torch": torch.get_num_threads()}
        worker_facts = {"pid": os.getpid(), "node": ray.get_runtime_context().get_node_id(), **threads}
        path = Path(facts["log"]) / f"{os.getpid()}.json"
        path.with_suffix(".part").write_text(json.dumps(worker_facts))
        path.with_suffix(".part").replace(path)  # whoever reads it finds it whole
    return Preparation([Registered(Naps(), "acme", ORIGIN)])


def naps(*lengths: float, until: str = "", position: int = 0) -> Graph:
    """Return tasks of these lengths, s; the one with the number `position` waits for the file `until`, if named."""
    profile = Profile(name="naps", description="", tracks={"acme/naps": TrackProfile(select={})})
    registry = installed().joined([Registered(Naps(lengths=lengths, until=until, place=position), "acme", ORIGIN)])
    return plan_track("acme/naps", profile, registry)

"""Tests whether submitted evaluators guess members better than chance where their inputs carry no information.

Some tasks of a track have inputs without information (`imharness.tracks.Track.chance_level_steps`): members are to be
separated from others by the outputs of a model that saw neither. An evaluator that is right there more often than
chance allows knows the rows, or reads what it was not given, and so its numbers in other tasks say nothing about the
models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from imharness.contracts.component import Component
from imharness.planning.plan import Graph
from imharness.results.store import Store
from imharness.running.sweep import RunResult
from imharness.statistics import NotTestable
from imharness.statistics.chance import beyond_chance
from imharness_submissions.report import ChanceLevel

LEVEL = 1e-4
"""Level of significance for all tasks of an entry together: of ten thousand honest entries, one is flagged."""


def chance_level(
    components: Sequence[Component], graphs: Sequence[Graph], result: RunResult, store: Store
) -> Iterator[ChanceLevel]:
    """Yield the accuracy of each component in each of its tasks without information."""
    for component in components:
        tasks = [
            (task.address, key)
            for graph in graphs
            for key, task in graph.tasks.items()
            if task.spec.step in graph.track.chance_level_steps
            and key in result.done
            and any(ref.label == component.label for ref in task.spec.components.values())
        ]
        for address, key in tasks:
            record = store.record(key)
            if record is not None:
                rows = store.rows(record)
                yield _judged(component.label, address, rows["score"], rows["member"], len(tasks))


def _judged(label: str, task: str, score: np.ndarray, member: np.ndarray, tasks: int) -> ChanceLevel:
    """Return how often an evaluator was right in one of so many tasks, and whether that is too often."""
    inside = np.asarray(member, dtype=bool)
    guesses = np.asarray(score) >= 0
    right = float((guesses[inside].mean() + (~guesses[~inside]).mean()) / 2)
    try:
        p = min(1.0, tasks * beyond_chance(score, inside))
    except NotTestable:
        p = 1.0
    return ChanceLevel(component=label, task=task, rows=len(inside), accuracy=right, p=p, knows=p < LEVEL)

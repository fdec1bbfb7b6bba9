"""Tests whether submitted evaluators know what nothing tells them.

Some cells of a track ask for what nothing in them tells (`imharness.tracks.Track.untold`): members are to be told from
others by the outputs of a model that saw neither. An evaluator that is right there more often than chance allows knows
the rows, or reads what it was not given, and so its numbers in other cells say nothing about the models.
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
from imharness_submissions.report import Untold

LEVEL = 1e-4
"""Level of significance for all cells of an entry together: of ten thousand honest entries, one is flagged."""


def untold(
    components: Sequence[Component], graphs: Sequence[Graph], found: RunResult, store: Store
) -> Iterator[Untold]:
    """Yield what each component guessed in its cells in which nothing tells."""
    for component in components:
        cells = [
            (task.address, key)
            for graph in graphs
            for key, task in graph.tasks.items()
            if task.spec.step in graph.track.untold
            and key in found.done
            and any(ref.label == component.label for ref in task.spec.components.values())
        ]
        for address, key in cells:
            record = store.record(key)
            if record is not None:
                rows = store.rows(record)
                yield _judged(component.label, address, rows["score"], rows["member"], len(cells))


def _judged(label: str, cell: str, score: np.ndarray, member: np.ndarray, cells: int) -> Untold:
    """Return how often an evaluator was right in one of so many cells, and whether that is too often."""
    inside = np.asarray(member, dtype=bool)
    said = np.asarray(score) >= 0
    right = float((said[inside].mean() + (~said[~inside]).mean()) / 2)
    try:
        p = min(1.0, cells * beyond_chance(score, inside))
    except NotTestable:
        p = 1.0
    return Untold(component=label, cell=cell, rows=len(inside), accuracy=right, p=p, knows=p < LEVEL)

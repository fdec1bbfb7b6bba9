"""What a plan amounts to before anything of it ran: cells, rows, and hours on a GPU of a stated rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from imharness.contracts.component import Component
from imharness.contracts.image_dataset import ImageDataset
from imharness.contracts.table_dataset import TableDataset
from imharness.planning.plan import Graph

RATE = 20e12
"""Floating-point operations per second of the GPU that hours are stated for."""
ASSUMED = (
    "20 TFLOP/s in float32, an assumption: 30% of the 67 that an H100 is sold with; passes through networks alone, "
    "without filters, codecs and searches on the CPU"
)


@dataclass(frozen=True)
class Outlook:
    """What the cells of one track amount to.

    `counted`: of the `cells`, those whose rows and operations the track knows. `rows`, `operations`: of these.
    """

    track: str
    cells: int
    counted: int
    rows: int
    operations: float

    @property
    def hours(self) -> float:
        """Hours on the GPU of the stated rate."""
        return self.operations / RATE / 3600


def outlook(graph: Graph) -> Outlook:
    """Return what a graph amounts to; it should be planned as if everything were on this machine."""
    units = {name: _units(component) for name, component in graph.components.items()}
    counted, rows, operations = 0, 0, 0.0
    for task in graph.tasks.values():
        spec = task.spec
        dataset = spec.components.get("dataset")
        size = units.get(f"dataset {dataset.label}", 0) if dataset else 0
        found = graph.track.work(spec, size if spec.limit is None else min(size, spec.limit))
        if found is not None:
            counted, rows, operations = counted + 1, rows + found.rows, operations + found.operations
    return Outlook(graph.track.info.id, len(graph.tasks), counted, rows, operations)


def tells_size(graph: Graph) -> bool:
    """Return whether a data set of a graph says how much it holds before it is read; without one nothing is counted."""
    return any(map(_units, graph.components.values()))


def _units(component: Component) -> int:
    return component.published_units() if isinstance(component, ImageDataset | TableDataset) else 0


def waiting_for(graph: Graph, inputs: Sequence[Collection[Component]]) -> list[int]:
    """Return how many cells wait for each input, given the components that need it; a cell may wait for several.

    A cell waits for what its own components need, and for what the cells need that it depends on.
    """
    place = {f"{component.kind} {component.label}": 0 for component in graph.components.values()}
    for number, users in enumerate(inputs):
        for user in users:
            place[f"{user.kind} {user.label}"] = place.get(f"{user.kind} {user.label}", 0) | 1 << number
    masks, counts = dict[str, int](), Counter[int]()
    for key, task in graph.tasks.items():  # every task stands behind those it needs
        mask = 0
        for ref in task.spec.components.values():
            mask |= place[f"{ref.kind} {ref.label}"]
        for need in task.spec.needs.values():
            mask |= masks[need]
        masks[key] = mask
        counts[mask] += 1
    return [sum(n for mask, n in counts.items() if mask >> number & 1) for number in range(len(inputs))]

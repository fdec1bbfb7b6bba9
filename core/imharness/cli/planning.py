"""What `harness run --dry-run` shows: what there is to do, what it will cost, and what a plan amounts to.

The last is told where something is missing on this machine: cells, rows, and hours on a GPU of a stated rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from imharness.cli import console
from imharness.cli.progress import duration
from imharness.components.inputs.needs import Input, inputs_of
from imharness.contracts.component import Component
from imharness.contracts.image_dataset import ImageDataset
from imharness.contracts.table_dataset import TableDataset
from imharness.contracts.track import Track, Work
from imharness.errors import Unavailable
from imharness.planning.plan import Graph, Task
from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running.budget import finished
from imharness.running.schedule.estimates import Left, Times, bytes_of, left_of

RATE = 20e12
"""Floating-point operations per second of the GPU that hours are stated for."""
ASSUMED = (
    "20 TFLOP/s in float32, as an H100 did in large networks (15 to 23); what was measured counts as long as it took; "
    "passes through networks alone, without filters, codecs and searches on the CPU"
)
OVERHEAD = 2000
"""Bytes that the file of a cell's rows takes beside the rows."""
DEAREST = 8
"""The number of entries of a track that are listed with what each of them costs; JSON has all."""


def dry_run_report(
    graphs: Sequence[Graph],
    store: Store,
    times: Times,
    workers: int,
    as_json: bool,
    whole: Callable[[], Sequence[Graph]],
    *,
    fresh: bool = False,
    profile: str = "NAME",
) -> None:
    """Show what would run, what it would cost, and what cannot run; if `fresh`, everything runs again.

    `profile`: the name of the profile, for the command that gets what it needs. `whole` plans as if nothing were
    missing; it is called if something is missing and the size of it can be told.
    """
    facts, waiting = list[dict[str, Any]](), dict[str, Task]()
    costs = list[str]()
    for graph in graphs:
        done = set[str]() if fresh else finished(store, graph.tasks)
        waiting |= {key: task for key, task in graph.tasks.items() if key not in done}
        for step, count in graph.by_step().items():
            own = {key: task for key, task in graph.tasks.items() if task.spec.step == step}
            left = {key: task for key, task in own.items() if key not in done}
            facts.append({"track": graph.track.info.id, "step": step, "cells": count, "done": len(own) - len(left)})
            cost = left_of(left, times) if left else None
            costs.append(duration(cost.seconds) if cost else "unknown" if left else "-")
    missing = [gap for graph in graphs for gap in graph.missing.values()]
    counts, cost = Counter(gap.what for gap in missing), left_of(waiting, times) if waiting else None
    size = bytes_of(waiting.values(), times)
    gaps = [gap.model_dump() | {"cells": counts[what]} for what, gap in {gap.what: gap for gap in missing}.items()]
    lacking = any(graph.missing for graph in graphs)
    if as_json:
        amounts = outlook_facts(whole() if lacking else graphs)
        estimate = {"estimate": _estimate(cost, times.device, workers, size), "outlook": amounts}
        console.emit({"cells": facts, "unavailable": gaps, **estimate})
        return
    columns, rows = ["track", "step", "cells", "done", "to run"], list[tuple[object, ...]]()
    for fact, takes in zip(facts, costs, strict=True):
        row = (fact["track"], fact["step"], fact["cells"], fact["done"], fact["cells"] - fact["done"])
        rows.append((*row, takes) if cost else row)
    console.table("Cells", [*columns, "takes"] if cost else columns, rows)
    if gaps:
        shown = [(g["what"], g["cells"], g["reason"], g["remedy"]) for g in gaps]
        console.table("Unavailable", ["what", "cells", "why", "get it with"], shown)
    if lacking and any(map(tells_size, graphs)):
        say_outlook(outlook_facts(whole()), profile)
    console.say(_told(cost, times.device, workers, size) if waiting else _why_nothing(graphs))


def _why_nothing(graphs: Sequence[Graph]) -> str:
    if any(graph.tasks for graph in graphs):
        return "nothing is left to compute"
    if any(graph.missing for graph in graphs):
        return "nothing can be computed: every cell needs something that is unavailable"
    return "there is no cell with all that was asked for"


def _estimate(cost: Left | None, device: str, workers: int, size: float) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "device": device,
        "cells": cost.cells,
        "cells_of_unknown_steps": cost.unknown,
        "at_least": cost.unknown > 0,
        "device_hours": cost.seconds / 3600,
        "workers": workers,
        "hours": cost.wall_s(workers) / 3600,
        "bytes": round(size),
    }


def _told(cost: Left | None, device: str, workers: int, size: float) -> str:
    if cost is None:
        return "no estimate: the store has no finished cells like these"
    how = "at least" if cost.unknown else "about"
    some = f"; nothing is known about the steps of {cost.unknown:,} cells" if cost.unknown else ""
    return (
        f"{how} {duration(cost.seconds)} of {device}, {duration(cost.wall_s(workers))} with {workers} "
        f"worker{'' if workers == 1 else 's'}; {size / 1e6:,.0f} MB in the store{some}"
    )


class Share(NamedTuple):
    """What an entry costs: cells, operations, and bytes in the store."""

    cells: int = 0
    operations: float = 0.0
    size: float = 0.0

    @property
    def hours(self) -> float:
        """Hours on the GPU of the stated rate."""
        return hours_of(self.operations)

    def plus(self, other: Share) -> Share:
        """Return the sum of both."""
        return Share(self.cells + other.cells, self.operations + other.operations, self.size + other.size)


@dataclass(frozen=True)
class Outlook:
    """What the cells of one track amount to.

    `counted`: of the `cells`, those whose rows and operations the track knows. `rows`, `operations`, `size` (bytes in
    the store): of these. `entries`: what is ranked -> what the cells amount to in which it takes part. Who enters one
    more has to compute as much: everything else is there already. `dear`: the entries that may cost more than the
    profile's `entry_hours`, and why.
    """

    track: str
    cells: int
    counted: int
    rows: int
    operations: float
    size: float
    entries: Mapping[str, Share]
    dear: Mapping[str, str] = field(default_factory=dict)

    @property
    def hours(self) -> float:
        """Hours on the GPU of the stated rate."""
        return hours_of(self.operations)


def hours_of(operations: float) -> float:
    """Return the hours on the GPU of the stated rate."""
    return operations / RATE / 3600


def outlook(graph: Graph) -> Outlook:
    """Return what a graph amounts to; it should be planned as if everything were on this machine."""
    units = {name: _units(component) for name, component in graph.components.items()}
    counted, rows, operations, size = 0, 0, 0.0, 0.0
    entries = dict[str, Share]()
    for task in graph.tasks.values():
        spec = task.spec
        dataset = spec.components.get("dataset")
        known = units.get(f"dataset {dataset.label}", 0) if dataset else 0
        found = _work(graph.track, spec, known if spec.limit is None else min(known, spec.limit))
        own = Share(1) if found is None else Share(1, found.operations, found.size + OVERHEAD)
        if found is not None:
            counted, rows = counted + 1, rows + found.rows
            operations, size = operations + own.operations, size + own.size
        for label in {ref.label for ref in spec.named().values() if ref.kind in graph.track.ranks}:
            entries[label] = entries.get(label, Share()).plus(own)
    return Outlook(graph.track.info.id, len(graph.tasks), counted, rows, operations, size, entries, graph.dear)


def _work(track: Track, spec: TaskSpec, units: int) -> Work | None:
    """Return what a task costs, or None where a stranger's component has other fields than the track counts by."""
    try:
        return track.work(spec, units)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


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


def outlook_facts(graphs: Sequence[Graph]) -> dict[str, Any]:
    """Return facts about graphs that were planned as if everything were on this machine."""
    return {
        "rate": ASSUMED,
        "tracks": [_track(outlook(graph)) for graph in graphs],
        "inputs": _inputs(graphs),
        "weights_to_train": _to_train(graphs),
        "to_install": _to_install(graphs),
    }


def say_outlook(facts: dict[str, Any], profile: str) -> None:
    """Print the facts as tables, unless no size is known before the data are read, as for data that ship."""
    if not any(own["counted"] for own in facts["tracks"]):
        return
    rows = [
        (
            own["track"],
            f"{own['cells']:,}",
            _of(own, "rows", "{:,}"),
            _of(own, "gpu_hours", "{:,.1f} h"),
            size_of(own["bytes"]) if own["counted"] else "unknown",
        )
        for own in facts["tracks"]
    ]
    console.table("If nothing were missing", ["track", "cells", "rows", "GPU", "store"], rows)
    whole = sum(own["gpu_hours"] for own in facts["tracks"])
    console.say(f"GPU: {whole:,.1f} hours for all, on one that computes {facts['rate']}")
    costs = [row for own in facts["tracks"] if own["counted"] and (row := _spread(own))]
    if costs:
        console.table("What one entry costs", ["track", "entries", "cells", "least", "median", "most", ""], costs)
        named = [_named(own["track"], entry) for own in facts["tracks"] if own["counted"] for entry in _dearest(own)]
        console.table(
            "The dearest entries", ["track", "entry", "cells", "GPU", "store", "above the limit because"], named
        )
    fetched = [own for own in facts["inputs"] if own["downloads"]]
    by_hand = [own for own in facts["inputs"] if not own["downloads"]]
    if fetched:
        known = sum(own["bytes"] for own in fetched)
        unknown = sum(not own["bytes"] for own in fetched)
        more = f", and {unknown} whose sizes are not published" if unknown else ""
        console.table("To download", ["what", "bytes", "cells", "how"], [_row(own) for own in fetched])
        console.say(
            f"{len(fetched)} downloads: {known / 1e9:,.2f} GB{more}; all: harness assets get --profile {profile}"
        )
    if by_hand:
        console.table("To fetch by hand", ["what", "bytes", "cells", "how"], [_row(own) for own in by_hand])
    if facts["to_install"]:
        console.table("To install", ["what", "how"], list(facts["to_install"].items()))
    if facts["weights_to_train"]:
        console.table("To train first", ["command"], [(command,) for command in facts["weights_to_train"]])


def _spread(own: dict[str, Any]) -> tuple[object, ...]:
    """Return what the entries of a track cost, and which one costs most; empty without entries."""
    entries = sorted(own["entries"], key=lambda entry: (entry["gpu_hours"], entry["entry"]))
    if not entries:
        return ()
    hours = [entry["gpu_hours"] for entry in entries]
    cells = int(median(entry["cells"] for entry in entries))
    shown = (f"{value:,.2f} h" for value in (hours[0], median(hours), hours[-1]))
    return own["track"], len(entries), f"{cells:,}", *shown, entries[-1]["entry"]


def _dearest(own: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(own["entries"], key=lambda entry: (-entry["gpu_hours"], entry["entry"]))[:DEAREST]


def _named(track: str, entry: dict[str, Any]) -> tuple[object, ...]:
    hours, size = f"{entry['gpu_hours']:,.2f} h", size_of(entry["bytes"])
    return track, entry["entry"], f"{entry['cells']:,}", hours, size, entry.get("reason", "")


def size_of(bytes_: float) -> str:
    """Return a size in MB, or in GB from 1 GB on."""
    return f"{bytes_ / 1e9:,.1f} GB" if bytes_ >= 1e9 else f"{bytes_ / 1e6:,.1f} MB"


def _row(own: dict[str, Any]) -> tuple[object, ...]:
    return own["name"], f"{own['bytes']:,}" if own["bytes"] else "not published", f"{own['cells']:,}", own["how"]


def _of(own: dict[str, Any], name: str, form: str) -> str:
    if not own["counted"]:
        return "unknown"
    return form.format(own[name]) + ("" if own["counted"] == own["cells"] else " and more")


def _track(found: Outlook) -> dict[str, Any]:
    return {
        "track": found.track,
        "cells": found.cells,
        "counted": found.counted,
        "rows": found.rows,
        "operations": found.operations,
        "gpu_hours": found.hours,
        "bytes": round(found.size),
        "entries": [_entry(found, label, own) for label, own in sorted(found.entries.items())],
    }


def _entry(found: Outlook, label: str, own: Share) -> dict[str, Any]:
    facts = {"entry": label, "cells": own.cells, "gpu_hours": own.hours, "bytes": round(own.size)}
    return facts | ({"reason": found.dear[label]} if label in found.dear else {})


def _inputs(graphs: Sequence[Graph]) -> list[dict[str, Any]]:
    """Return what is missing on this machine, and how many cells wait for it."""
    components = [component for graph in graphs for component in graph.components.values()]
    missing = [found for found in inputs_of(components).values() if found.gap is not None]
    waiting = [waiting_for(graph, [found.users for found in missing]) for graph in graphs]
    cells = [sum(own) for own in zip(*waiting, strict=True)]
    return [_input(found, count) for found, count in zip(missing, cells, strict=True)]


def _input(found: Input, cells: int) -> dict[str, Any]:
    return {
        "name": found.name,
        "downloads": found.downloads,
        "bytes": found.size,
        "cells": cells,
        "how": found.steps,
        "licence": found.what.licence,
    }


def _to_install(graphs: Sequence[Graph]) -> dict[str, str]:
    """Return what needs a package, or files that only the package itself fetches, and the command."""
    found = dict[str, str]()
    for component in (component for graph in graphs for component in graph.components.values()):
        if component.assets() or component.data_sources():
            continue
        try:
            component.require()
        except Unavailable as error:
            if not error.remedy.startswith("harness train"):
                found[component.label] = error.remedy
    return dict(sorted(found.items()))


def _to_train(graphs: Sequence[Graph]) -> list[str]:
    """Return the commands that train weights which nobody published."""
    found = dict[str, None]()
    for graph in graphs:
        for component in graph.components.values():
            try:
                component.require()
            except Unavailable as error:
                if error.remedy.startswith("harness train"):
                    found[error.remedy] = None
    return list(found)

"""What `harness run --dry-run` shows: what there is to do, what it will cost, and what a plan amounts to.

The last is told where something is missing on this machine: tasks, rows, and hours on a GPU of a stated rate.
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
from imharness.contracts.track import Track, Workload
from imharness.errors import Unavailable
from imharness.planning.plan import Graph, Task
from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running.budget import finished
from imharness.running.schedule.estimates import Left, Times, cost_of
from imharness.running.views import short

RATE = 20e12
"""Floating-point operations per second of the GPU that hours are stated for."""
ASSUMED = (
    "20 TFLOP/s in float32, as an H100 did in large networks (15 to 23); what was measured counts as long as it took; "
    "passes through networks alone, without filters, codecs and searches on the CPU"
)
OVERHEAD = 2000
"""Bytes that the file of a task's rows takes beside the rows."""
NOT_MEASURED = "not measured here"
"""What is said of the time of steps of which the store has no finished task of the same size on this device."""
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
    costs = dict[str, str]()
    for graph in graphs:
        done = set[str]() if fresh else finished(store, graph.tasks)
        waiting |= {key: task for key, task in graph.tasks.items() if key not in done}
        for step, count in graph.by_step().items():
            step_tasks = {key: task for key, task in graph.tasks.items() if task.spec.step == step}
            remaining = {key: task for key, task in step_tasks.items() if key not in done}
            facts.append(
                {"track": graph.track.info.id, "step": step, "tasks": count, "done": len(step_tasks) - len(remaining)}
            )
        todo = [task for key, task in graph.tasks.items() if key not in done]
        takes = cost_of(todo, times) if todo else None
        costs[graph.track.info.id] = duration(takes.seconds) if takes else NOT_MEASURED if todo else "-"
    missing = [gap for graph in graphs for gap in graph.missing.values()]
    counts, cost = Counter(gap.what for gap in missing), cost_of(waiting.values(), times) if waiting else None
    gaps = [gap.model_dump() | {"tasks": counts[what]} for what, gap in {gap.what: gap for gap in missing}.items()]
    lacking = any(graph.missing for graph in graphs)
    if as_json:
        amounts = outlook_facts(whole() if lacking else graphs)
        estimate = {"estimate": _estimate(cost, times.device, workers), "outlook": amounts}
        console.emit({"tasks": facts, "unavailable": gaps, **estimate})
        return
    forecast = outlook_facts(whole() if lacking else graphs) if any(map(tells_size, graphs)) else None
    console.wrapped(_first_line(profile, sum(len(graph.tasks) for graph in graphs), forecast, cost))
    columns, rows = ["track", "tasks", "done", "to run"], list[list[str]]()
    for track, takes_text in costs.items():
        count, done_count = (sum(fact[name] for fact in facts if fact["track"] == track) for name in ("tasks", "done"))
        row = [short(track), f"{count:,}", f"{done_count:,}", f"{count - done_count:,}"]
        rows.append([*row, takes_text] if cost else row)
    console.table("Tasks", [*columns, "takes"] if cost else columns, rows)
    if gaps:
        gap_rows = [(g["what"], g["tasks"], g["reason"], g["remedy"]) for g in gaps]
        console.table("Unavailable", ["what", "tasks", "why", "get it with"], gap_rows)
    if lacking and forecast is not None:
        say_outlook(forecast, profile)
    console.wrapped(_cost_line(cost, times.device, workers) if waiting else _why_nothing(graphs))


def _first_line(profile: str, tasks: int, forecast: dict[str, Any] | None, cost: Left | None) -> str:
    """Return what a whole run costs, in one line: tasks, time of a GPU where the sizes of the data are known, and what
    the store has measured."""
    tracks = forecast["tracks"] if forecast else []
    count = sum(track["tasks"] for track in tracks) or tasks
    seconds = 3600 * sum(track["gpu_hours"] for track in tracks if track["counted"])
    bound = "at least " if any(track["counted"] < track["tasks"] for track in tracks) else ""
    gpu = f", {bound}{duration(seconds)} of a GPU at {RATE / 1e12:g} TFLOP/s" if seconds else ""
    here = f"; left here: {duration(cost.seconds)}" if cost else ""
    return f"profile {profile} costs {count:,} tasks{gpu}{here}"


def _why_nothing(graphs: Sequence[Graph]) -> str:
    if any(graph.tasks for graph in graphs):
        return "nothing is left to compute"
    if any(graph.missing for graph in graphs):
        return "nothing can be computed: every task needs something that is unavailable"
    return "there is no task with all that was asked for"


def _estimate(cost: Left | None, device: str, workers: int) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "device": device,
        "tasks": cost.tasks,
        "tasks_of_unknown_steps": cost.unknown,
        "at_least": cost.unknown > 0,
        "device_hours": cost.seconds / 3600,
        "workers": workers,
        "hours": cost.seconds / max(workers, 1) / 3600,
        "bytes": round(cost.bytes),
    }


def _cost_line(cost: Left | None, device: str, workers: int) -> str:
    if cost is None:
        return f"time: {NOT_MEASURED}; the store has no finished tasks of these steps"
    how = "at least" if cost.unknown else "about"
    some = f"; {cost.unknown:,} tasks are of steps {NOT_MEASURED}" if cost.unknown else ""
    return (
        f"{how} {duration(cost.seconds)} of {device}, {duration(cost.seconds / max(workers, 1))} with {workers} "
        f"worker{'' if workers == 1 else 's'}; {cost.bytes / 1e6:,.0f} MB in the store{some}"
    )


class Share(NamedTuple):
    """What an entry costs: tasks, operations, and bytes in the store."""

    tasks: int = 0
    operations: float = 0.0
    size: float = 0.0

    @property
    def hours(self) -> float:
        """Hours on the GPU of the stated rate."""
        return hours_of(self.operations)

    def plus(self, other: Share) -> Share:
        """Return the sum of both."""
        return Share(self.tasks + other.tasks, self.operations + other.operations, self.size + other.size)


@dataclass(frozen=True)
class Outlook:
    """What the tasks of one track amount to.

    `counted`: of the `tasks`, those whose rows and operations the track knows. `rows`, `operations`, `size` (bytes in
    the store): of these. `entries`: what is ranked -> what the tasks amount to in which it takes part. Who enters one
    more has to compute as much: everything else is there already. `over_budget`: the entries that may cost more than
    the profile's `entry_hours`, and why.
    """

    track: str
    tasks: int
    counted: int
    rows: int
    operations: float
    size: float
    entries: Mapping[str, Share]
    over_budget: Mapping[str, str] = field(default_factory=dict)

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
        available = units.get(f"dataset {dataset.label}", 0) if dataset else 0
        workload = _workload(graph.track, spec, available if spec.limit is None else min(available, spec.limit))
        share = Share(1) if workload is None else Share(1, workload.operations, workload.size + OVERHEAD)
        if workload is not None:
            counted, rows = counted + 1, rows + workload.rows
            operations, size = operations + share.operations, size + share.size
        for label in {ref.label for ref in spec.named().values() if ref.kind in graph.track.ranks}:
            entries[label] = entries.get(label, Share()).plus(share)
    return Outlook(graph.track.info.id, len(graph.tasks), counted, rows, operations, size, entries, graph.over_budget)


def _workload(track: Track, spec: TaskSpec, units: int) -> Workload | None:
    """Return what a task costs, or None where a stranger's component has other fields than the track counts by."""
    try:
        return track.workload(spec, units)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def tells_size(graph: Graph) -> bool:
    """Return whether a data set of a graph says how much it holds before it is read; without one nothing is counted."""
    return any(map(_units, graph.components.values()))


def _units(component: Component) -> int:
    return component.published_units() if isinstance(component, ImageDataset | TableDataset) else 0


def waiting_for(graph: Graph, inputs: Sequence[Collection[Component]]) -> list[int]:
    """Return how many tasks wait for each input, given the components that need it; a task may wait for several.

    A task waits for what its own components need, and for what the tasks need that it depends on.
    """
    user_masks = {f"{component.kind} {component.label}": 0 for component in graph.components.values()}
    for number, users in enumerate(inputs):
        for user in users:
            user_masks[f"{user.kind} {user.label}"] = user_masks.get(f"{user.kind} {user.label}", 0) | 1 << number
    masks, counts = dict[str, int](), Counter[int]()
    for key, task in graph.tasks.items():  # every task stands behind those it needs
        mask = 0
        for ref in task.spec.components.values():
            mask |= user_masks[f"{ref.kind} {ref.label}"]
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
    if not any(track["counted"] for track in facts["tracks"]):
        return
    rows = [
        (
            track["track"],
            f"{track['tasks']:,}",
            _of(track, "rows", "{:,}"),
            _of(track, "gpu_hours", "{:,.1f} h"),
            size_of(track["bytes"]) if track["counted"] else "unknown",
        )
        for track in facts["tracks"]
    ]
    console.table("If nothing were missing", ["track", "tasks", "rows", "GPU", "store"], rows)
    whole = sum(track["gpu_hours"] for track in facts["tracks"])
    rest = "" if all(track["counted"] == track["tasks"] for track in facts["tracks"]) else " tasks whose rows are known"
    console.wrapped(f"GPU: {whole:,.1f} hours for all{rest}, on one that computes {facts['rate']}")
    costs = [row for track in facts["tracks"] if track["counted"] and (row := _spread(track))]
    if costs:
        console.table("What one entry costs", ["track", "entries", "tasks", "least", "median", "most", ""], costs)
        named = [
            _named(track["track"], entry) for track in facts["tracks"] if track["counted"] for entry in _dearest(track)
        ]
        console.table(
            "The dearest entries", ["track", "entry", "tasks", "GPU", "store", "above the limit because"], named
        )
    fetched = [resource for resource in facts["inputs"] if resource["downloads"]]
    by_hand = [resource for resource in facts["inputs"] if not resource["downloads"]]
    if fetched:
        total_bytes = sum(resource["bytes"] for resource in fetched)
        unknown = sum(not resource["bytes"] for resource in fetched)
        more = f", and {unknown} whose sizes are not published" if unknown else ""
        console.table("To download", ["what", "bytes", "tasks", "how"], [_row(resource) for resource in fetched])
        console.wrapped(
            f"{len(fetched)} downloads: {total_bytes / 1e9:,.2f} GB{more}; all: harness assets get --profile {profile}"
        )
    if by_hand:
        console.table("To fetch by hand", ["what", "bytes", "tasks", "how"], [_row(resource) for resource in by_hand])
    if facts["to_install"]:
        console.table("To install", ["what", "how"], list(facts["to_install"].items()))
    if facts["weights_to_train"]:
        console.table("To train first", ["command"], [(command,) for command in facts["weights_to_train"]])


def _spread(track: dict[str, Any]) -> tuple[object, ...]:
    """Return what the entries of a track cost, and which one costs most; empty without entries."""
    entries = sorted(track["entries"], key=lambda entry: (entry["gpu_hours"], entry["entry"]))
    if not entries:
        return ()
    hours = [entry["gpu_hours"] for entry in entries]
    tasks = int(median(entry["tasks"] for entry in entries))
    hours_text = (f"{value:,.2f} h" for value in (hours[0], median(hours), hours[-1]))
    return track["track"], len(entries), f"{tasks:,}", *hours_text, entries[-1]["entry"]


def _dearest(track: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(track["entries"], key=lambda entry: (-entry["gpu_hours"], entry["entry"]))[:DEAREST]


def _named(track: str, entry: dict[str, Any]) -> tuple[object, ...]:
    hours, size = f"{entry['gpu_hours']:,.2f} h", size_of(entry["bytes"])
    return track, entry["entry"], f"{entry['tasks']:,}", hours, size, entry.get("reason", "")


def size_of(bytes_: float) -> str:
    """Return a size in MB, or in GB from 1 GB on."""
    return f"{bytes_ / 1e9:,.1f} GB" if bytes_ >= 1e9 else f"{bytes_ / 1e6:,.1f} MB"


def _row(resource: dict[str, Any]) -> tuple[object, ...]:
    return (
        resource["name"],
        f"{resource['bytes']:,}" if resource["bytes"] else "not published",
        f"{resource['tasks']:,}",
        resource["how"],
    )


def _of(track: dict[str, Any], name: str, form: str) -> str:
    if not track["counted"]:
        return "unknown"
    return form.format(track[name]) + ("" if track["counted"] == track["tasks"] else " and more")


def _track(outlook: Outlook) -> dict[str, Any]:
    return {
        "track": outlook.track,
        "tasks": outlook.tasks,
        "counted": outlook.counted,
        "rows": outlook.rows,
        "operations": outlook.operations,
        "gpu_hours": outlook.hours,
        "bytes": round(outlook.size),
        "entries": [_entry(outlook, label, share) for label, share in sorted(outlook.entries.items())],
    }


def _entry(outlook: Outlook, label: str, share: Share) -> dict[str, Any]:
    facts = {"entry": label, "tasks": share.tasks, "gpu_hours": share.hours, "bytes": round(share.size)}
    return facts | ({"reason": outlook.over_budget[label]} if label in outlook.over_budget else {})


def _inputs(graphs: Sequence[Graph]) -> list[dict[str, Any]]:
    """Return what is missing on this machine, and how many tasks wait for it."""
    components = [component for graph in graphs for component in graph.components.values()]
    missing = [resource for resource in inputs_of(components).values() if resource.gap is not None]
    waiting = [waiting_for(graph, [resource.users for resource in missing]) for graph in graphs]
    tasks = [sum(counts) for counts in zip(*waiting, strict=True)]
    return [_input(resource, count) for resource, count in zip(missing, tasks, strict=True)]


def _input(resource: Input, tasks: int) -> dict[str, Any]:
    return {
        "name": resource.name,
        "downloads": resource.downloads,
        "bytes": resource.size,
        "tasks": tasks,
        "how": resource.steps,
        "licence": resource.what.licence,
    }


def _to_install(graphs: Sequence[Graph]) -> dict[str, str]:
    """Return what needs a package, or files that only the package itself fetches, and the command."""
    remedies = dict[str, str]()
    for component in (component for graph in graphs for component in graph.components.values()):
        if component.assets() or component.data_sources():
            continue
        try:
            component.require()
        except Unavailable as error:
            if not error.remedy.startswith("harness train"):
                remedies[component.label] = error.remedy
    return dict(sorted(remedies.items()))


def _to_train(graphs: Sequence[Graph]) -> list[str]:
    """Return the commands that train weights which nobody published."""
    remedies = dict[str, None]()
    for graph in graphs:
        for component in graph.components.values():
            try:
                component.require()
            except Unavailable as error:
                if error.remedy.startswith("harness train"):
                    remedies[error.remedy] = None
    return list(remedies)

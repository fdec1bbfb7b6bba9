"""What `harness run --dry-run` shows: what there is to do, what it will cost, and what cannot run.

If something is missing on this machine, it also shows the *outlook*: what the run would amount to if nothing were
missing, in tasks, rows, bytes in the store, and hours on a GPU of a stated rate.
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
"""Stands for the time of a step if the store has no finished task of it, of the same size and on this device."""
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
    """Show what would run, what it would cost, and what cannot run.

    Args:
        graphs: the plan of each track on this machine.
        store: the store, which may have some of the tasks.
        times: how long tasks take, as the store has measured it.
        workers: the number of processes.
        as_json: whether to print all facts as JSON instead of tables.
        whole: returns the plan of each track as if nothing were missing; it is called only if something is missing.
        fresh: whether everything runs again, also the tasks that the store has.
        profile: the name of the profile, for the command that gets what it needs.
    """
    done = {graph.track.info.id: set[str]() if fresh else finished(store, graph.tasks) for graph in graphs}
    waiting = {graph.track.info.id: _without(graph.tasks, done[graph.track.info.id]) for graph in graphs}
    all_waiting = {key: task for tasks in waiting.values() for key, task in tasks.items()}
    cost = cost_of(all_waiting.values(), times) if all_waiting else None
    gaps = _gaps(graphs)
    if as_json:
        steps = [fact for graph in graphs for fact in _step_facts(graph, done[graph.track.info.id])]
        console.emit(
            {
                "tasks": steps,
                "unavailable": gaps,
                "estimate": _estimate(cost, times.device, workers),
                "outlook": outlook_facts(whole() if gaps else graphs),
            }
        )
        return
    forecast = outlook_facts(whole() if gaps else graphs) if any(map(tells_size, graphs)) else None
    console.wrapped(_first_line(profile, sum(len(graph.tasks) for graph in graphs), forecast, cost))
    columns, rows = ["track", "tasks", "done", "to run"], list[list[str]]()
    for graph in graphs:
        todo = waiting[graph.track.info.id]
        count = len(graph.tasks)
        row = [short(graph.track.info.id), f"{count:,}", f"{count - len(todo):,}", f"{len(todo):,}"]
        rows.append([*row, _time_of(todo.values(), times)] if cost else row)
    console.table("Tasks", [*columns, "takes"] if cost else columns, rows)
    if gaps:
        gap_rows = [(gap["what"], gap["tasks"], gap["reason"], gap["remedy"]) for gap in gaps]
        console.table("Unavailable", ["what", "tasks", "why", "get it with"], gap_rows)
        if forecast is not None:
            say_outlook(forecast, profile)
    console.wrapped(_cost_line(cost, times.device, workers) if all_waiting else _why_nothing(graphs))


def _without(tasks: Mapping[str, Task], done: Collection[str]) -> dict[str, Task]:
    """Return the tasks whose keys are not among those that are done."""
    return {key: task for key, task in tasks.items() if key not in done}


def _step_facts(graph: Graph, done: Collection[str]) -> list[dict[str, Any]]:
    """Return for each step of a track how many tasks there are, and how many are done."""
    done_by_step = Counter(task.spec.step for key, task in graph.tasks.items() if key in done)
    return [
        {"track": graph.track.info.id, "step": step, "tasks": count, "done": done_by_step[step]}
        for step, count in graph.by_step().items()
    ]


def _gaps(graphs: Sequence[Graph]) -> list[dict[str, Any]]:
    """Return the facts of everything that is missing, each with the number of tasks that lack it."""
    missing = [gap for graph in graphs for gap in graph.missing.values()]
    counts = Counter(gap.what for gap in missing)
    last_of_each = {gap.what: gap for gap in missing}
    return [gap.model_dump() | {"tasks": counts[what]} for what, gap in last_of_each.items()]


def _time_of(tasks: Collection[Task], times: Times) -> str:
    """Return how long tasks take one after the other, in words; "-" if there are none."""
    if not tasks:
        return "-"
    cost = cost_of(tasks, times)
    return duration(cost.seconds) if cost else NOT_MEASURED


def _first_line(profile: str, tasks: int, forecast: dict[str, Any] | None, cost: Left | None) -> str:
    """Return what a whole run costs, in one line: tasks, time on a GPU if the sizes of the data are known, and the time
    that is left here if the store has measured it."""
    tracks = forecast["tracks"] if forecast else []
    count = sum(track["tasks"] for track in tracks) or tasks
    seconds = 3600 * sum(track["gpu_hours"] for track in tracks if track["counted"])
    bound = "at least " if any(track["counted"] < track["tasks"] for track in tracks) else ""
    gpu = f", {bound}{duration(seconds)} of a GPU at {RATE / 1e12:g} TFLOP/s" if seconds else ""
    here = f"; left here: {duration(cost.seconds)}" if cost else ""
    return f"profile {profile} costs {count:,} tasks{gpu}{here}"


def _why_nothing(graphs: Sequence[Graph]) -> str:
    """Say why no task is waiting."""
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


class Amount(NamedTuple):
    """What some tasks amount to: their number, floating-point operations, and bytes in the store (`size`)."""

    tasks: int = 0
    operations: float = 0.0
    size: float = 0.0

    @property
    def hours(self) -> float:
        """Hours on the GPU of the stated rate."""
        return hours_of(self.operations)

    def plus(self, other: Amount) -> Amount:
        """Return the sum of both."""
        return Amount(self.tasks + other.tasks, self.operations + other.operations, self.size + other.size)


@dataclass(frozen=True)
class Outlook:
    """What the tasks of one track amount to.

    Attributes:
        track: the id of the track.
        tasks: the number of all tasks.
        counted: the number of tasks whose rows and operations the track knows; the next three are sums over these.
        rows: the rows that they leave.
        operations: the floating-point operations of their networks.
        size: the bytes that they leave in the store.
        entries: label of an entry -> what the tasks amount to in which it takes part. This is what a further entry
            costs, because all other tasks are done already.
        over_budget: label of an entry that may cost more than the profile's `entry_hours` -> the reason.
    """

    track: str
    tasks: int
    counted: int
    rows: int
    operations: float
    size: float
    entries: Mapping[str, Amount]
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
    rows, counted, entries = 0, Amount(), dict[str, Amount]()
    for task in graph.tasks.values():
        spec = task.spec
        dataset = spec.components.get("dataset")
        available = units.get(f"dataset {dataset.label}", 0) if dataset else 0
        workload = _workload(graph.track, spec, available if spec.limit is None else min(available, spec.limit))
        amount = Amount(tasks=1)
        if workload is not None:
            amount = Amount(1, workload.operations, workload.size + OVERHEAD)
            counted, rows = counted.plus(amount), rows + workload.rows
        for label in {ref.label for ref in spec.named().values() if ref.kind in graph.track.ranks}:
            entries[label] = entries.get(label, Amount()).plus(amount)
    return Outlook(
        track=graph.track.info.id,
        tasks=len(graph.tasks),
        counted=counted.tasks,
        rows=rows,
        operations=counted.operations,
        size=counted.size,
        entries=entries,
        over_budget=graph.over_budget,
    )


def _workload(track: Track, spec: TaskSpec, units: int) -> Workload | None:
    """Return what a task costs; None if the track cannot tell, as of another package's component with other fields."""
    try:
        return track.workload(spec, units)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def tells_size(graph: Graph) -> bool:
    """Return whether a data set of a graph says its size before it is read; otherwise no task can be counted."""
    return any(map(_units, graph.components.values()))


def _units(component: Component) -> int:
    """Return the number of images or rows of a data set; 0 if it is not known, and for other components."""
    return component.published_units() if isinstance(component, ImageDataset | TableDataset) else 0


def waiting_for(graph: Graph, inputs: Sequence[Collection[Component]]) -> list[int]:
    """Return how many tasks wait for each input.

    A task waits for the inputs that its own components need, and for those that its needed tasks wait for; it may wait
    for several.

    Args:
        graph: a plan; every task comes after those that it needs.
        inputs: for each input, the components that need it.
    """
    inputs_of_component: dict[str, set[int]] = {}
    for number, users in enumerate(inputs):
        for user in users:
            inputs_of_component.setdefault(f"{user.kind} {user.label}", set()).add(number)
    inputs_of_task: dict[str, frozenset[int]] = {}
    counts = Counter[frozenset[int]]()  # many tasks wait for the same inputs
    for key, task in graph.tasks.items():
        waits_for = set[int]()
        for ref in task.spec.components.values():
            waits_for |= inputs_of_component.get(f"{ref.kind} {ref.label}", set())
        for need in task.spec.needs.values():
            waits_for |= inputs_of_task[need]
        inputs_of_task[key] = frozenset(waits_for)
        counts[inputs_of_task[key]] += 1
    return [sum(n for waits_for, n in counts.items() if number in waits_for) for number in range(len(inputs))]


def outlook_facts(graphs: Sequence[Graph]) -> dict[str, Any]:
    """Return facts about graphs that were planned as if everything were on this machine."""
    return {
        "rate": ASSUMED,
        "tracks": [_track_facts(outlook(graph)) for graph in graphs],
        "inputs": _missing_inputs(graphs),
        "weights_to_train": _to_train(graphs),
        "to_install": _to_install(graphs),
    }


def say_outlook(facts: dict[str, Any], profile: str) -> None:
    """Print the facts of `outlook_facts` as tables; nothing if no size is known before data are read."""
    if not any(track["counted"] for track in facts["tracks"]):
        return
    rows = [
        (
            track["track"],
            f"{track['tasks']:,}",
            _sum_text(track, "rows", "{:,}"),
            _sum_text(track, "gpu_hours", "{:,.1f} h"),
            size_of(track["bytes"]) if track["counted"] else "unknown",
        )
        for track in facts["tracks"]
    ]
    console.table("If nothing were missing", ["track", "tasks", "rows", "GPU", "store"], rows)
    hours = sum(track["gpu_hours"] for track in facts["tracks"])
    is_whole = all(track["counted"] == track["tasks"] for track in facts["tracks"])
    counted = "" if is_whole else " tasks whose rows are known"
    console.wrapped(f"GPU: {hours:,.1f} hours for all{counted}, on one that computes {facts['rate']}")
    _say_entry_costs([track for track in facts["tracks"] if track["counted"] and track["entries"]])
    _say_inputs(facts["inputs"], profile)
    if facts["to_install"]:
        console.table("To install", ["what", "how"], list(facts["to_install"].items()))
    if facts["weights_to_train"]:
        console.table("To train first", ["command"], [(command,) for command in facts["weights_to_train"]])


def _say_entry_costs(tracks: Sequence[dict[str, Any]]) -> None:
    """Print what an entry of each track costs, and which entries cost most."""
    if not tracks:
        return
    columns = ["track", "entries", "tasks", "least", "median", "most", ""]
    console.table("What one entry costs", columns, [_cost_row(track) for track in tracks])
    columns = ["track", "entry", "tasks", "GPU", "store", "above the limit because"]
    rows = [_entry_row(track["track"], entry) for track in tracks for entry in _dearest(track)]
    console.table("The dearest entries", columns, rows)


def _say_inputs(inputs: Sequence[dict[str, Any]], profile: str) -> None:
    """Print what has to be downloaded, and what a person has to fetch."""
    columns = ["what", "bytes", "tasks", "how"]
    downloads = [resource for resource in inputs if resource["downloads"]]
    by_hand = [resource for resource in inputs if not resource["downloads"]]
    if downloads:
        total_bytes = sum(resource["bytes"] for resource in downloads)
        unknown = sum(not resource["bytes"] for resource in downloads)
        more = f", and {unknown} whose sizes are not published" if unknown else ""
        console.table("To download", columns, [_input_row(resource) for resource in downloads])
        command = f"harness assets get --profile {profile}"
        console.wrapped(f"{len(downloads)} downloads: {total_bytes / 1e9:,.2f} GB{more}; all: {command}")
    if by_hand:
        console.table("To fetch by hand", columns, [_input_row(resource) for resource in by_hand])


def _cost_row(track: dict[str, Any]) -> tuple[object, ...]:
    """Return track, number of entries, median of tasks, least, median and most hours of an entry, and the dearest."""
    entries = sorted(track["entries"], key=lambda entry: (entry["gpu_hours"], entry["entry"]))
    hours = [entry["gpu_hours"] for entry in entries]
    tasks = int(median(entry["tasks"] for entry in entries))
    hours_texts = (f"{value:,.2f} h" for value in (hours[0], median(hours), hours[-1]))
    return track["track"], len(entries), f"{tasks:,}", *hours_texts, entries[-1]["entry"]


def _dearest(track: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(track["entries"], key=lambda entry: (-entry["gpu_hours"], entry["entry"]))[:DEAREST]


def _entry_row(track: str, entry: dict[str, Any]) -> tuple[object, ...]:
    hours, size = f"{entry['gpu_hours']:,.2f} h", size_of(entry["bytes"])
    return track, entry["entry"], f"{entry['tasks']:,}", hours, size, entry.get("reason", "")


def size_of(bytes_: float) -> str:
    """Return a size in MB, or in GB from 1 GB on."""
    return f"{bytes_ / 1e9:,.1f} GB" if bytes_ >= 1e9 else f"{bytes_ / 1e6:,.1f} MB"


def _input_row(resource: dict[str, Any]) -> tuple[object, ...]:
    return (
        resource["name"],
        f"{resource['bytes']:,}" if resource["bytes"] else "not published",
        f"{resource['tasks']:,}",
        resource["how"],
    )


def _sum_text(track: dict[str, Any], name: str, form: str) -> str:
    """Return a sum over the counted tasks of a track, and whether other tasks add to it."""
    if not track["counted"]:
        return "unknown"
    return form.format(track[name]) + ("" if track["counted"] == track["tasks"] else " and more")


def _track_facts(outlook: Outlook) -> dict[str, Any]:
    return {
        "track": outlook.track,
        "tasks": outlook.tasks,
        "counted": outlook.counted,
        "rows": outlook.rows,
        "operations": outlook.operations,
        "gpu_hours": outlook.hours,
        "bytes": round(outlook.size),
        "entries": [_entry_facts(outlook, label, amount) for label, amount in sorted(outlook.entries.items())],
    }


def _entry_facts(outlook: Outlook, label: str, amount: Amount) -> dict[str, Any]:
    facts = {"entry": label, "tasks": amount.tasks, "gpu_hours": amount.hours, "bytes": round(amount.size)}
    return facts | ({"reason": outlook.over_budget[label]} if label in outlook.over_budget else {})


def _missing_inputs(graphs: Sequence[Graph]) -> list[dict[str, Any]]:
    """Return what is missing on this machine, and how many tasks wait for it."""
    components = [component for graph in graphs for component in graph.components.values()]
    missing = [resource for resource in inputs_of(components).values() if resource.gap is not None]
    waiting = [waiting_for(graph, [resource.users for resource in missing]) for graph in graphs]
    tasks = [sum(counts) for counts in zip(*waiting, strict=True)]
    return [_input_facts(resource, count) for resource, count in zip(missing, tasks, strict=True)]


def _input_facts(resource: Input, tasks: int) -> dict[str, Any]:
    return {
        "name": resource.name,
        "downloads": resource.downloads,
        "bytes": resource.size,
        "tasks": tasks,
        "how": resource.steps,
        "licence": resource.what.licence,
    }


def _to_install(graphs: Sequence[Graph]) -> dict[str, str]:
    """Return label -> command for components that need a package, or files that only the package itself fetches."""
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

"""What `harness run --dry-run` shows: what there is to do, and what it will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from imharness.cli import console
from imharness.cli.outlook import outlook_facts, say_outlook
from imharness.cli.progress import duration
from imharness.planning.plan import Graph, Task
from imharness.results.store import Store
from imharness.running.budget import finished
from imharness.running.schedule.estimate import Left, bytes_of, left_of
from imharness.running.schedule.outlook import tells_size
from imharness.running.schedule.times import Times


def dry_run_report(
    graphs: Sequence[Graph],
    store: Store,
    times: Times,
    workers: int,
    as_json: bool,
    whole: Callable[[], Sequence[Graph]],
    *,
    fresh: bool = False,
) -> None:
    """Show what would run, what it would cost, and what cannot run; if `fresh`, everything runs again.

    `whole` plans as if nothing were missing; it is called if something is missing and the size of it can be told.
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
        outlook = outlook_facts(whole() if lacking else graphs)
        estimate = {"estimate": _estimate(cost, times.device, workers, size), "outlook": outlook}
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
        say_outlook(outlook_facts(whole()))
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

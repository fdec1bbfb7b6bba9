"""What `harness run` says and leaves out before it computes anything: what there is to do, and what it will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, ItemsView, Mapping, Sequence
from typing import Any

from imharness.cli import console
from imharness.cli.outlook import outlook_facts, say_outlook
from imharness.cli.progress import duration
from imharness.components.registry import Registry
from imharness.contracts.component import Component
from imharness.errors import Unavailable, UsageError
from imharness.planning.plan import Graph, Task, named
from imharness.results.records import LEFT_OUT, Missing, Sweep
from imharness.results.store import Store
from imharness.running.schedule.cost import Cost, cost_of, read_budget, within_budget
from imharness.running.schedule.order import expected
from imharness.running.schedule.outlook import tells_size
from imharness.running.schedule.times import Times
from imharness.running.sweep import RunResult, finished_before


def refuse_contradictions(registry: Registry, only: Mapping[str, Sequence[str]]) -> None:
    """Raise `UsageError` for a name that nothing has, and where all that is asked for of a kind is left out again."""
    for kind, names in only.items():
        wanted = [name for name in names if name[:1] != "!"]
        if not named(registry, kind, names) and (labels := [c.label for c in named(registry, kind, wanted)]):
            raise UsageError(f"--{kind}: {', '.join(labels)} is asked for and left out at once.")


def refuse_missing(graphs: Sequence[Graph], registry: Registry, only: Mapping[str, Sequence[str]]) -> None:
    """Raise `Unavailable` where nothing that a name means is on this machine, and where no cell can be computed.

    `only`: the names that a person gave, by kind. A profile may adjust what a name means.
    """
    planned = [component for graph in graphs for component in graph.components.values()]
    for kind, name in ((kind, name) for kind, names in only.items() for name in names if name[:1] != "!"):
        meant = [(c.info.id, c.model_dump(exclude_defaults=True).items()) for c in registry.find(kind, name)]
        own = [c for c in planned if c.kind == kind and any(_is(c, id, facts) for id, facts in meant)]
        if own and not any(c.is_here() for c in own):
            own[0].require()
    if any(graph.tasks for graph in graphs):
        return
    tracks = ", ".join(graph.track.info.id for graph in graphs)
    for gap in (gap for graph in graphs for gap in graph.missing.values()):
        raise Unavailable(f"no cell of {tracks} can be computed: {gap.what} is not here ({gap.reason})", gap.remedy)
    raise UsageError(f"{tracks} has no cell with what was asked for; `harness run --dry-run` shows what there is.")


def _is(component: Component, id: str, facts: ItemsView[str, Any]) -> bool:
    return component.info.id == id and facts <= component.model_dump().items()


def keep_to_budget(
    graphs: Sequence[Graph], store: Store, times: Times, first: Mapping[str, Collection[str]], budget: str, *,
    fresh: bool,
) -> None:  # fmt: skip
    """Take tasks that do not fit into a budget out of graphs; the tables then say that they were left out.

    Tasks that have a result cost nothing. Without times of like tasks every task counts as one second.
    """
    seconds_left, tasks = read_budget(budget), {key: task for graph in graphs for key, task in graph.tasks.items()}
    done = set[str]() if fresh else _finished(store, tasks)
    waiting = {key: task for key, task in tasks.items() if key not in done}
    wanted = set[str]().union(*first.values())
    kept = done | within_budget(waiting, expected(waiting, times), seconds_left, wanted)
    for graph in graphs:
        out = [task for key, task in graph.tasks.items() if key not in kept]
        counts = Counter(task.spec.step for task in out)
        for task in out:
            what = f"{counts[task.spec.step]:,} of {graph.by_step()[task.spec.step]:,} cells of {task.spec.step}"
            graph.missing[task.address] = Missing(what=what, reason=f"{LEFT_OUT} {budget}", remedy="a larger --budget")
        graph.tasks = {key: task for key, task in graph.tasks.items() if key in kept}


def without_old_budget(sweep: Sweep, graph: Graph) -> Sweep:
    """Return what was planned without what only the budget of an earlier run left out."""
    now = {gap.what for gap in graph.missing.values()}
    gaps = tuple(gap for gap in sweep.missing if gap.what in now or gap not in sweep.left_out)
    return sweep.model_copy(update={"missing": gaps})


def dry_run_report(
    graphs: Sequence[Graph], store: Store, times: Times, workers: int, as_json: bool,
    whole: Callable[[], Sequence[Graph]], *, fresh: bool = False,
) -> None:  # fmt: skip
    """Say what would run, what it would cost, and what cannot run. `fresh`: all runs again.

    `whole` plans as if nothing were missing; it is called where something is missing and its size can be told.
    """
    facts, waiting = list[dict[str, Any]](), dict[str, Task]()
    costs = list[str]()
    for graph in graphs:
        done = set[str]() if fresh else _finished(store, graph.tasks)
        waiting |= {key: task for key, task in graph.tasks.items() if key not in done}
        for step, count in graph.by_step().items():
            own = {key: task for key, task in graph.tasks.items() if task.spec.step == step}
            left = {key: task for key, task in own.items() if key not in done}
            facts.append({"track": graph.track.info.id, "step": step, "cells": count, "done": len(own) - len(left)})
            cost = cost_of(left, times)
            costs.append(duration(cost.seconds) if cost else "unknown" if left else "-")
    missing = [gap for graph in graphs for gap in graph.missing.values()]
    counts, cost = Counter(gap.what for gap in missing), cost_of(waiting, times)
    gaps = [gap.model_dump() | {"cells": counts[what]} for what, gap in {gap.what: gap for gap in missing}.items()]
    lacking = any(graph.missing for graph in graphs)
    if as_json:
        outlook = outlook_facts(whole() if lacking else graphs)
        estimate = {"estimate": _estimate(cost, workers), "outlook": outlook}
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
    console.say(_told(cost, workers) if waiting else _why_nothing(graphs))


def _finished(store: Store, tasks: Mapping[str, Task]) -> set[str]:
    before = RunResult()
    finished_before(store, tasks, before)
    return before.done


def _why_nothing(graphs: Sequence[Graph]) -> str:
    if any(graph.tasks for graph in graphs):
        return "nothing is left to compute"
    if any(graph.missing for graph in graphs):
        return "nothing can be computed: all of it needs what is unavailable"
    return "there is no cell with what was asked for"


def _estimate(cost: Cost | None, workers: int) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "device": cost.device, "cells": cost.cells, "cells_like_finished_ones": cost.known,
        "device_hours": cost.seconds / 3600, "workers": workers, "hours": cost.wall_s(workers) / 3600,
        "bytes": round(cost.bytes),
    }  # fmt: skip


def _told(cost: Cost | None, workers: int) -> str:
    if cost is None:
        return "no estimate: the store has no finished cells like these"
    some = "" if cost.known == cost.cells else f", {cost.cells - cost.known:,} of {cost.cells:,} cells by guess"
    return (
        f"about {duration(cost.seconds)} of {cost.device}, {duration(cost.wall_s(workers))} with {workers} "
        f"worker{'' if workers == 1 else 's'}; {cost.bytes / 1e6:,.0f} MB in the store{some}"
    )

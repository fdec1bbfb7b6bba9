"""What `harness run --dry-run` shows if something is missing on this machine: the size of the run, and what to get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from imharness.cli import console
from imharness.components.inputs.needs import Input, inputs_of
from imharness.errors import Unavailable
from imharness.planning.plan import Graph
from imharness.running.schedule.outlook import ASSUMED, Outlook, outlook, waiting_for


def outlook_facts(graphs: Sequence[Graph]) -> dict[str, Any]:
    """Return facts about graphs that were planned as if everything were on this machine."""
    return {
        "rate": ASSUMED,
        "tracks": [_track(outlook(graph)) for graph in graphs],
        "inputs": _inputs(graphs),
        "weights_to_train": _to_train(graphs),
    }


def say_outlook(facts: dict[str, Any]) -> None:
    """Print the facts as tables, unless no size is known before the data are read, as for data that ship."""
    if not any(own["counted"] for own in facts["tracks"]):
        return
    rows = [
        (own["track"], f"{own['cells']:,}", _of(own, "rows", "{:,}"), _of(own, "gpu_hours", "{:,.1f} h"))
        for own in facts["tracks"]
    ]
    console.table("If nothing were missing", ["track", "cells", "rows", "GPU"], rows)
    console.say(f"GPU: hours on one that computes {facts['rate']}")
    fetched = [own for own in facts["inputs"] if own["downloads"]]
    by_hand = [own for own in facts["inputs"] if not own["downloads"]]
    if fetched:
        known = sum(own["bytes"] for own in fetched)
        unknown = sum(not own["bytes"] for own in fetched)
        more = f", and {unknown} whose sizes are not published" if unknown else ""
        console.table("To download", ["what", "bytes", "cells", "how"], [_row(own) for own in fetched])
        console.say(f"{len(fetched)} downloads: {known / 1e9:,.2f} GB{more}; all: harness assets get --profile NAME")
    if by_hand:
        console.table("To fetch by hand", ["what", "bytes", "cells", "how"], [_row(own) for own in by_hand])
    if facts["weights_to_train"]:
        console.table("To train first", ["command"], [(command,) for command in facts["weights_to_train"]])


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
    }


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

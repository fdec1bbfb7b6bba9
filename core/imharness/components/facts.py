"""Components as rows of facts, for the view ``components`` of queries."""

from __future__ import annotations

import json
from collections.abc import Iterable

from imharness.components.component import Component, Info
from imharness.components.registry import Registry
from imharness.errors import HarnessError
from imharness.results.identity import ComponentRef
from imharness.results.records import TaskRecord


def component_facts(records: Iterable[TaskRecord], registry: Registry) -> list[dict[str, object]]:
    """Return one mapping for each component that took part; see `Query` for its columns.

    Of a component that is no longer installed, only what the records say is known.
    """
    refs = {(ref.kind, ref.label): ref for record in records for ref in record.spec.components.values()}
    return [_facts(refs[place], registry) for place in sorted(refs)]


def _facts(ref: ComponentRef, registry: Registry) -> dict[str, object]:
    found: dict[str, object] = {
        "kind": ref.kind, "id": ref.id, "label": ref.label, "version": ref.version, "entry": ref.label,
        "parameters": json.dumps(dict(ref.parameters)),
    }  # fmt: skip
    try:
        component = registry.revive(ref)
    except (HarnessError, ValueError):
        return found
    return found | declared(component)


def declared(component: Component) -> dict[str, object]:
    """Return what a component says of itself: simple values of its `info`, bounds, closeness, entry."""
    info = {name: value for name, value in component.info if name not in Info.model_fields}
    found: dict[str, object] = {name: v for name, v in info.items() if isinstance(v, str | bool | int | float)}
    if info.get("bounds") is not None:
        found["lower"], found["upper"] = info["bounds"]
    for name in ("closeness", "classes"):
        if isinstance(getattr(component, name, None), int):
            found[name] = getattr(component, name)
    if hasattr(component, "without_grid"):
        found["entry"] = component.without_grid().label
    return found

"""Component references -> what readers want to know of them: who wrote it, where it was published, its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from imharness.components.component import Component, Info
from imharness.components.papers import paper_of
from imharness.components.registry import Registry
from imharness.errors import HarnessError
from imharness.results.identity import ComponentRef
from imharness.results.records import Entry, Parameter, TaskRecord
from imharness_submissions.ledger import Ledger

_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}


def entries_of(
    records: Iterable[TaskRecord], registry: Registry, ledger: Ledger, submitted: Collection[str]
) -> tuple[Entry, ...]:
    """Return every component that took part, sorted by kind and label, with its number of cells and their seconds.

    Of those that were submitted, by id, also what kept them apart; of all, what the ledger says.
    """
    found: dict[tuple[str, str], ComponentRef] = {}
    cells: dict[tuple[str, str], list[float]] = {}
    levels: dict[tuple[str, str], set[str]] = {}
    for record in records:
        for place, ref in {(r.kind, r.label): r for r in record.spec.components.values()}.items():
            found[place] = ref
            cells.setdefault(place, []).append(record.seconds)
            if ref.id in submitted:
                levels.setdefault(place, set()).add(record.isolation)
    decided = {id for line in ledger.lines() for id in line.ids}
    return tuple(
        _entry(found[place], cells[place], registry).model_copy(
            update={
                "isolation": ", ".join(sorted(levels.get(place, ()))),
                "standing": ledger.standing(found[place].id) if found[place].id in decided else (),
            }
        )
        for place in sorted(found)
    )


def _entry(ref: ComponentRef, seconds: list[float], registry: Registry) -> Entry:
    facts: dict[str, Any] = {
        "kind": ref.kind, "id": ref.id, "label": ref.label, "version": ref.version, "cells": len(seconds),
        "seconds": float(sum(seconds)),
    }  # fmt: skip
    try:
        component = registry.revive(ref)
    except (HarnessError, ValueError):
        return Entry(**facts)
    origin, paper = registry.provenance(component).provenance, paper_of(component)
    about = inspect.cleandoc(vars(type(component)).get("__doc__") or "")
    return Entry(
        **facts,
        summary=component.summary,
        about=about.partition("\n")[2].strip(),
        package=origin.distribution,
        package_version=origin.version,
        author=origin.author,
        licence=origin.licence,
        home=origin.home,
        paper=f"{paper.authors}: {paper.title} ({paper.year})" if paper else "",
        paper_url=paper.url if paper else "",
        traits=_traits(component),
        parameters=tuple(_parameters(component)),
    )


def _traits(component: Component) -> dict[str, str]:
    """Return what `info` says beyond name, version and paper, as text."""
    usual = set(Info.model_fields)
    own = {name: value for name, value in component.info.model_dump(mode="json").items() if name not in usual}
    return {name.replace("_", " "): _text(value) for name, value in own.items() if value not in (None, "", {})}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_text(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value).replace("_", " ")


def _parameters(component: Component) -> Iterable[Parameter]:
    schema = type(component).model_json_schema()["properties"] if type(component).model_fields else {}
    for name, field in type(component).model_fields.items():
        limits = [text.format(schema[name][key]) for key, text in _BOUNDS.items() if key in schema[name]]
        default = "required" if field.is_required() else str(field.get_default(call_default_factory=True))
        value = str(getattr(component, name))
        yield Parameter(
            name=name, value=value, default=default, bounds=", ".join(limits), description=field.description or ""
        )

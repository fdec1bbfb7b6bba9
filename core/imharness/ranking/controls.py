"""Reads from the results which components are controls, and which are flagged: neither can win. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imharness.contracts.track import Query

FAILED_CHECKS = "failed_checks"
"""The column of the view ``components`` with the reasons to flag a component, as a JSON list of texts.

These are the quick checks that it failed and, if it was submitted, the decisions that flag it.
"""


def controls_of(query: Query, kind: str = "") -> dict[str, str]:
    """Return label -> what control it is, such as "random weights", for the components that are controls.

    `kind`: only components of this kind; "" for all. Empty where the query has no facts about components.
    """
    return facts_of(query, "control", kind)


def flags_of(
    query: Query, entries: Iterable[str], audited: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return entry -> why its number is only an upper bound, for the `flags` of a contest; other entries are missing.

    The reasons are those in `audited`, entry -> what an audit of the track says, and then those of each component of
    the entry (see `FAILED_CHECKS`). An entry such as ``a + b`` has the components ``a`` and ``b``.
    """
    component_flags = {label: json.loads(text) for label, text in facts_of(query, FAILED_CHECKS).items()}
    flags: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        reasons = list((audited or {}).get(entry, ()))
        for component in entry.split(" + "):
            reasons += component_flags.get(component, ())
        if reasons:
            flags[entry] = tuple(reasons)
    return flags


def facts_of(query: Query, column: str, kind: str = "") -> dict[str, str]:
    """Return label -> the text in a column of the view ``components``, for the components that have one.

    `kind`: only components of this kind; "" for all. Empty where the query has no such column.
    """
    columns = query("SELECT column_name FROM information_schema.columns WHERE table_name = 'components'")["column_name"]
    if column not in columns:
        return {}
    chosen = f"{column} <> ''" + (f" AND kind = '{kind}'" if kind else "")
    table = query(f"SELECT label, {column} AS text FROM components WHERE {chosen} ORDER BY label")
    return dict(zip(table["label"].tolist(), table["text"].tolist(), strict=True))

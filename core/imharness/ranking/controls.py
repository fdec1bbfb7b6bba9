"""What components say or show of themselves that keeps them from winning. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imharness.contracts.track import Query

FAILED_CHECKS = "failed_checks"
"""The column of the view ``components`` with the quick checks that a component failed, as a list in JSON.

Decisions that flag a component, where it was submitted, stand there, too.
"""


def controls_of(query: Query, kind: str = "") -> dict[str, str]:
    """Return label -> what it is a control for, of the components of a kind or of all.

    Empty where the query knows no facts of components.
    """
    return facts_of(query, "control", kind)


def flags_of(
    query: Query, entries: Iterable[str], audited: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return entry -> why its number is only an upper bound, for the `flags` of a contest.

    That is what an audit of the track found, each decision that flags the entry or a part of it, and each quick check
    that one failed: an entry such as ``a + b`` has the parts ``a`` and ``b``. What was not examined failed none.
    """
    failed = {label: tuple(json.loads(text)) for label, text in facts_of(query, FAILED_CHECKS).items()}
    audit_flags = audited or {}
    flags = {
        entry: (
            *audit_flags.get(entry, ()),
            *(f for component in entry.split(" + ") for f in failed.get(component, ())),
        )
        for entry in entries
    }
    return {entry: lines for entry, lines in flags.items() if lines}


def facts_of(query: Query, column: str, kind: str = "") -> dict[str, str]:
    """Return label -> the text in a column of the view ``components``, where there is one.

    `kind`: of which components; empty: of all. Empty where the query knows no facts of components.
    """
    columns = query("SELECT column_name FROM information_schema.columns WHERE table_name = 'components'")["column_name"]
    if column not in columns:
        return {}
    chosen = f"{column} <> ''" + (f" AND kind = '{kind}'" if kind else "")
    table = query(f"SELECT label, {column} AS text FROM components WHERE {chosen} ORDER BY label")
    return dict(zip(table["label"].tolist(), table["text"].tolist(), strict=True))

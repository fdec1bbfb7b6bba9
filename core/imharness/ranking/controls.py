"""Which components say that they are controls: ranked, and never crowned. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imharness.contracts.track import Query


def controls_of(query: Query, kind: str = "") -> dict[str, str]:
    """Return label -> what it is a control for, of the components of a kind or of all.

    Empty where the query knows no facts of components.
    """
    known = query("SELECT column_name FROM information_schema.columns WHERE table_name = 'components'")["column_name"]
    if "control" not in known:
        return {}
    chosen = f"control <> '' AND kind = '{kind}'" if kind else "control <> ''"
    found = query(f"SELECT label, control FROM components WHERE {chosen} ORDER BY label")
    return dict(zip(found["label"].tolist(), found["control"].tolist(), strict=True))

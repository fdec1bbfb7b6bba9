"""What a package that judges entries knows about those of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from imharness.components.provenance import Registered
from imharness.documents.entries import Decided, Standing


@dataclass(frozen=True)
class Standings:
    """What was submitted to a store, and what was decided about its entries.

    Args:
        submitted: components that came with submissions and are not installed; they can be shown, but perhaps not
            built here.
        decided: component id -> decisions about it, oldest first.
        withdrawn: component id -> why it was withdrawn from all tables.
        all: the number of all decisions and the seal of the last, or None if nothing was decided.
    """

    submitted: Sequence[Registered] = ()
    decided: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    all: Decided | None = None

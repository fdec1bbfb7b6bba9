"""People judge images on a local page; an SQLite file keeps their votes."""

from dataclasses import dataclass
from typing import Literal

CUTOFF = 0.8
"""The share of decoys that a person must answer right for their votes to count, by default."""
CUTOFFS = {"2afc": 14 / 15, "jnd": 0.85}
"""The same for patches: 90 % of the people of the LPIPS paper passed 14 of 15 forced choices. It gives no number for
just noticeable differences, of whose sentinels an answer that is always "same" gets 80 % right."""


@dataclass(frozen=True)
class Wanted:
    """What to compare, by the names of components. Without metrics all are taken, without a strength the strongest."""

    attacks: tuple[str, ...]
    defenses: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    strength: str = ""
    attacker: Literal["adaptive", "fixed"] = "adaptive"
    limit: int | None = None

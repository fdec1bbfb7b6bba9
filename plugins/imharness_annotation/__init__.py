"""People judge images on a local page; an SQLite file keeps their votes."""

from dataclasses import dataclass
from typing import Literal

CUTOFF = 0.8
"""The share of decoys that a person must answer right for their votes to count, by default."""
CUTOFFS = {"2afc": 14 / 15, "jnd": 0.85}
"""The cut-offs for questions about patches. Forced choices (2afc): 90 % of the people of the LPIPS paper got at least
14 of 15 decoys right. Just noticeable differences (jnd): the paper gives no number; a person who always answers "same"
gets 80 % of the decoys right, and must not pass."""


@dataclass(frozen=True)
class Wanted:
    """The part of a run that people are asked about, by the names of components.

    Attributes:
        attacks: empty: all, where reconstructions are judged.
        defenses: the defenses between which people choose.
        metrics: the attacked metrics; empty: all.
        strength: of the attack; "": the strongest in the run.
        attacker: whether the attack knew the defense (adaptive) or not (fixed).
        limit: the number of images; None: all.
    """

    attacks: tuple[str, ...]
    defenses: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    strength: str = ""
    attacker: Literal["adaptive", "fixed"] = "adaptive"
    limit: int | None = None

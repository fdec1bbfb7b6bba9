"""Who wins, as data: what a ranking says beside the numbers of its table. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel


class Place(BaseModel, frozen=True, extra="forbid"):
    """What a ranking says of an entry beside its numbers, which are in the ranking's table."""

    control: str = ""
    """Why it is a control, which is never crowned: "random weights"."""
    complete: bool
    """Whether it has a number for every unit under every setting; its rank is among complete ones, matched."""
    passes: bool | None
    """Whether it keeps enough utility; None where that is not known."""
    front: bool
    """Whether no other entry protects better without costing more."""
    broken_by: Mapping[str, float]
    """Attack -> share of the units on which it was the worst one; the largest first."""
    needed: int | None = None
    """How many units, or clusters, the difference to the first place needs to be told."""
    flags: tuple[str, ...] = ()
    """Why its protection is an upper bound only."""


class Ranking(BaseModel, frozen=True, extra="forbid"):
    """Who wins by the worst case, and how sure that is. The numbers are those of the columns of `table`.

    `table` has the columns ``rank`` (its interval is that of the rank), ``worst``, ``unaware``, ``aware``, ``behind``
    (of the first place, simultaneous interval), ``utility`` and ``coverage``. `comparison` has the scores by setting:
    the worst is taken over the facets `over` for each unit, then the mean over the others. `attack` and `attacker` are
    the facets that name the attack and what it knows; `unaware` is the attacker that does not know the defense. An
    entry passes where its utility is not worse than `gate`, the undefended entry's less `share` of it. `claim` is the
    headline: what the winner does, or why there is no winner. `balanced`: facet whose values weigh the same, or "".
    `all_controls`: the winner has to be told from controls that do not pass, too.
    """

    table: str
    comparison: str
    over: tuple[str, ...]
    attack: str
    attacker: str
    unaware: str
    balanced: str = ""
    all_controls: bool = False
    undefended: str
    gate: float | None
    share: float
    places: Mapping[str, Place]
    winner: str
    claim: str
    proxies: tuple[str, ...] = ()
    """What stands in for human judgement, real data or trained networks; part of the headline."""

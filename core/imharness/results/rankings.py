"""Who wins, as data: what a ranking states in addition to the numbers of its table. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel


class Place(BaseModel, frozen=True, extra="forbid"):
    """What a ranking states about an entry in addition to its numbers, which are in the ranking's table."""

    control: str = ""
    """What control it is, such as "random weights", or "" for an entry; a control never wins."""
    complete: bool
    """Whether it has a number for every unit in every setting; it is ranked among complete entries, on equal units."""
    passes: bool | None
    """Whether it keeps enough utility; None if that is not known."""
    front: bool
    """Whether every entry that protects better also costs more."""
    broken_by: Mapping[str, float]
    """Attack -> share of the units on which it was the worst attack, largest share first."""
    needed: int | None = None
    """How many units, or clusters, would be needed to tell the entry from the first place."""
    flags: tuple[str, ...] = ()
    """The reasons why its protection is only an upper bound."""


class Ranking(BaseModel, frozen=True, extra="forbid"):
    """Who wins by the worst case, and how certain that is. The numbers are in the columns of `table`.

    `table` has the columns ``rank`` (with an interval of the rank), ``worst``, ``unaware``, ``aware``, ``behind`` (the
    distance to the first place, with a simultaneous interval), ``utility`` and ``coverage``. `comparison` has the
    scores by setting: for each unit the worst is taken over the facets `over`, then the mean over the other facets.
    `attack` and `attacker` are the facets that name the attack and what the attacker knows; `unaware` is the attacker
    who does not know the defense. An entry passes if its utility is not worse than `gate`, which is the utility of the
    undefended entry less `share` of it. `claim` is the headline: what the winner does, or why there is no winner.
    `balanced` is the facet whose values weigh the same, or "". `all_controls` says that the winner must be shown to be
    better than controls that do not pass, too.
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
    """What stands in for human judgement, real data or trained networks; it is part of the headline."""

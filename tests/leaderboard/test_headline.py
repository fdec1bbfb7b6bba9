"""Which finding leads a leaderboard: each rule at its boundary, on rankings that are written by hand."""

import pytest

from imharness.documents.findings import Finding, Measured
from imharness.documents.rankings import Broken, Moved, Place, Ranking
from imharness_leaderboard.headline import Lead, lead_of

NONE = "x/none"
SEEMS = 8.0
"""By how much entries that look strong are better than no defense while no attacker knows them."""


def measured(value: float, low: float = 1.0) -> Measured:
    return Measured(value=value, low=low, high=2 * SEEMS, units=12)


def entry(*, strong: bool = True) -> Place:
    """Return the place of an entry that attackers who know it move; `strong`: it looks strong before."""
    return Place(
        complete=True,
        gate="passes",
        front=False,
        broken_by={},
        moved=Moved(before=10.0, after=16.0, change=measured(6.0)),
        broken=Broken(seems=measured(SEEMS, low=1.0 if strong else 0.0), holds=2.0, rest=measured(1.0)),
    )


def finding(kind: str, tier: str, label: str, against: tuple[str, ...] = ()) -> Finding:
    return Finding(
        tier=tier,
        kind=kind,
        entry=label,
        measure="D",
        decimals=1,
        unit="image",
        against={other: measured(1.0) for other in against},
        facts={"change": measured(1.0)},
        text=f"{label} {kind}",
    )


def lead(places: dict[str, Place], *findings: Finding, winner: str = "") -> Lead:
    """Return the finding that leads a ranking with these places and findings."""
    control = Place(control="no defense", complete=True, gate="passes", front=False, broken_by={})
    ranking = Ranking(
        table="t",
        comparison="c",
        over=(),
        attack="attack",
        attacker="attacker",
        unaware="fixed",
        undefended=NONE,
        gate=None,
        share=0.05,
        places={NONE: control, **places},
        winner=winner,
        claim="It wins.",
        findings=findings,
    )
    return lead_of(ranking, "defense", {label: label for label in (NONE, *places)})


def moving(*labels: str) -> list[Finding]:
    return [finding("moves", "shown", label) for label in labels]


def broken(*labels: str) -> list[Finding]:
    return [finding("broken", "ruled out", label) for label in labels]


@pytest.mark.parametrize(
    ("strong", "failed", "count"), [(2, 2, 2), (4, 2, 2), (1, 1, 0), (2, 1, 0), (5, 2, 0), (5, 3, 3), (2, 0, 0)]
)
def test_two_and_half_of_those_that_look_strong_have_to_be_shown_to_keep_less_than_half(
    strong: int, failed: int, count: int
) -> None:
    """Two further entries do not look strong, and are not counted, whatever their findings say."""
    places = {f"x/{i}": entry(strong=i < strong) for i in range(strong + 2)}
    weak = [f"x/{strong + i}" for i in range(2)]
    headline = lead(places, *moving(*places), *broken(*[*places][:failed], *weak), winner="x/0")
    assert (headline.kind, headline.count) == (("fails", count) if count else ("wins", 1))


def test_who_is_not_shown_to_move_or_not_shown_to_be_broken_has_not_failed() -> None:
    places = {f"x/{i}": entry() for i in range(3)}
    assert lead(places, *moving("x/0", "x/1"), *broken(*places), winner="x/2").kind == "fails"
    assert lead(places, *moving(*places), *broken("x/0", "x/1"), winner="x/2").kind == "fails"
    assert lead(places, *moving("x/0"), *broken(*places), winner="x/2").kind == "wins"
    assert lead(places, *moving(*places), *broken("x/0"), winner="x/2").kind == "wins"
    assert lead(places, *moving("x/0", "x/1"), *broken("x/1", "x/2"), winner="x/2").kind == "wins"


@pytest.mark.parametrize(("n", "of", "kind"), [(1, 2, "moves"), (1, 1, "moves"), (1, 3, "open"), (2, 4, "moves")])
def test_half_of_the_entries_have_to_move(n: int, of: int, kind: str) -> None:
    places = {f"x/{i}": entry() for i in range(of)}
    headline = lead(places, *moving(*[*places][:n]))
    assert headline.kind == kind
    if kind == "moves":
        assert headline.count == n


@pytest.mark.parametrize(("n", "of", "kind"), [(1, 2, "costs"), (1, 3, "open"), (2, 4, "costs"), (2, 5, "open")])
def test_half_of_the_entries_have_to_cost_too_much(n: int, of: int, kind: str) -> None:
    places = {f"x/{i}": entry() for i in range(of)}
    costs = [finding("costs", "ruled out", label) for label in [*places][:n]]
    headline = lead(places, *costs, *costs)
    assert headline.kind == kind
    if kind == "costs":
        assert (headline.count, headline.title) == (n, "Most defenses cost too much")
    assert lead(places, *(finding.model_copy(update={"tier": "open"}) for finding in costs)).kind == "open"


def test_the_first_entry_that_is_better_than_no_defense_leads_and_only_if_nothing_else_does() -> None:
    places = {f"x/{i}": entry() for i in range(3)}
    better = [finding("better", "shown", "x/0", (NONE,)), finding("better", "shown", "x/1", (NONE, "x/2"))]
    headline = lead(places, *better)
    assert (headline.kind, headline.count) == ("better", 2)
    assert headline.title.endswith(" is better than no defense")
    assert lead(places, *better, *moving("x/0", "x/1")).kind == "moves"
    assert lead(places, *better, *moving("x/0", "x/1"), winner="x/1").kind == "wins"

"""Write how leaderboards compare with the papers: ``python docs/compared.py STORE > docs/compared.json``."""

import json
import sys
from typing import Any

from imharness.cli.standings import NARROW, track_lines
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Ranking
from imharness.documents.stored import read_leaderboard
from imharness.results.labels import printed
from imharness.results.store import Store
from imharness_leaderboard.published import published_view


def claims(leaderboard: Leaderboard) -> list[dict[str, Any]]:
    """Return for each ranking of a leaderboard its table, its headline, and the lines that a terminal shows of it."""
    return [
        {
            "table": ranking.table,
            "claim": printed(ranking.claim),
            "screen": [line.text for line in track_lines(_alone(leaderboard, ranking), NARROW)],
        }
        for ranking in leaderboard.rankings
    ]


def _alone(leaderboard: Leaderboard, ranking: Ranking) -> Leaderboard:
    """Return a leaderboard that has no other ranking."""
    return leaderboard.model_copy(update={"rankings": (ranking,)})


def compared(leaderboard: Leaderboard) -> dict[str, Any] | None:
    """Return the facts of a leaderboard beside its paper, or None if no published table is of its track.

    ``headlines`` has for each quantity by which the paper ranks entries how well both orders agree (Kendall's tau-b),
    ``answer`` what follows, in a sentence, and ``claims`` the leaderboard's own headlines. ``profile``, ``seed``,
    ``finished`` and ``sources`` say which run it is.
    """
    view, problem = published_view(leaderboard)
    if problem:
        raise SystemExit(problem)
    if view is None:
        return None
    headlines = [
        {
            "table": comparison.table.address,
            "quantity": series.quantity,
            "verdict": series.verdict,
            "says": series.says,
            "tau": series.order.tau,
            "low": series.order.low,
            "high": series.order.high,
            "p": series.order.p,
            "n": series.order.n,
            "entries": series.order.entries,
        }
        for comparison in view.compared
        for series in comparison.series
        if series.quantity in comparison.table.headline and series.order.n > 1
    ]
    facts = leaderboard.model_dump(include={"profile", "seed", "finished", "sources"})
    return {**facts, "answer": view.answer, "headlines": headlines, "claims": claims(leaderboard)}


def main(address: str) -> None:
    """Print the facts of all tracks of a store."""
    store = Store(address)
    results = {track.removeprefix("harness/"): compared(read_leaderboard(store, track)) for track in store.ranked()}
    sys.stdout.write(json.dumps({track: facts for track, facts in results.items() if facts}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

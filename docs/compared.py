"""Write how the boards of a store compare with the papers: ``python docs/compared.py STORE > docs/compared.json``."""

import json
import sys
from typing import Any

from imharness.exports.sheets import printed
from imharness.results.boards import Board
from imharness.results.findings import by_tier
from imharness.results.store import Store
from imharness_leaderboard.published import published_view


def claims(board: Board) -> list[dict[str, Any]]:
    """Return what each ranking of a board says: the table, the headline, and the first finding of each tier."""
    return [
        {
            "table": ranking.table,
            "claim": printed(ranking.claim),
            "found": {tier: printed(own[0].text) for tier, own in by_tier(ranking.findings).items()},
        }
        for ranking in board.rankings
    ]


def compared(board: Board) -> dict[str, Any] | None:
    """Return what a board is of and what the quantities by which its paper ranks say; None without a paper."""
    view, problem = published_view(board)
    if problem:
        raise SystemExit(problem)
    if view is None:
        return None
    headlines = [
        {
            "table": own.table.address,
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
        for own in view.compared
        for series in own.series
        if series.quantity in own.table.headline and series.order.n > 1
    ]
    facts = board.model_dump(include={"profile", "seed", "finished", "sources"})
    return {**facts, "answer": view.answer, "headlines": headlines, "claims": claims(board)}


def main(address: str) -> None:
    """Print the facts of all tracks of a store."""
    store = Store(address)
    found = {track.removeprefix("harness/"): compared(store.board(track)) for track in store.ranked()}
    sys.stdout.write(json.dumps({track: facts for track, facts in found.items() if facts}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

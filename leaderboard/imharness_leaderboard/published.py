"""The page "Published and ours" of a track: the tables of its study beside the numbers of the board."""

from __future__ import annotations

from dataclasses import dataclass

from imharness.errors import HarnessError
from imharness.papers.comparison import compare
from imharness.papers.facts import cited, comparison_facts, counts
from imharness.papers.order import ALPHA, FEWEST
from imharness.papers.published import PublishedTable, published_tables
from imharness.papers.verdicts import OTHER, SAME, TOLD, Cell, Comparison, Series, agreement
from imharness.results.boards import Board
from imharness_leaderboard.slopes import Slopes, slopes

DRAWN = 12
"""The most quantities that are drawn, rank against rank."""


@dataclass(frozen=True)
class PublishedView:
    """What the page of one track shows. `without` are the tables for which no number of ours is the same quantity."""

    compared: tuple[Comparison, ...]
    without: tuple[PublishedTable, ...]

    @property
    def papers(self) -> list[tuple[str, str]]:
        """Each paper in words, with its address; empty where that is not one of the web."""
        found = {}
        for table in (*(own.table for own in self.compared), *self.without):
            paper = table.citation
            text = f"{paper.get('authors', '')}: {paper.get('title', table.paper)} ({paper.get('year', '')})"
            url = str(paper.get("url", ""))
            found[text] = url if url.startswith("https://") else ""
        return list(found.items())

    @property
    def answer(self) -> str:
        """One paragraph on how far the board agrees with the papers."""
        series = [own for comparison in self.compared for own in comparison.series]
        same = [cell for own in series for cell in own.with_verdict(*TOLD)]
        every = [own.order for own in series if own.verdict == OTHER]
        others = [order.says for order in every if order.n >= FEWEST]
        parts = [
            f"In the same setting {agreement(same, 'numbers ')}."
            if same
            else "No number was measured in the setting of the paper."
        ]
        if others:
            alike, turned, open_ = (others.count(word) for word in ("same order", "reversed", "cannot tell"))
            parts.append(
                f"Of {len(others)} quantities on other data with {FEWEST} entries or more, {alike} put them in the "
                f"paper's order, {turned} in the reverse order, and {open_} cannot tell. Each order is tested at "
                f"{100 * ALPHA:g} %: if all of them were unrelated, about {ALPHA * len(others):.2g} would still be "
                "called the same or reversed."
            )
        few = len(every) - len(others)
        parts += [f"{few} {'more ' if others else ''}on other data have fewer entries, too few to tell."] if few else []
        not_run = sum(own.verdict not in (SAME, OTHER) for own in series)
        return " ".join([*parts, *([f"{not_run} were not run."] if not_run else [])])

    @property
    def drawn(self) -> list[Slopes]:
        """Rank against rank: the quantities by which papers say what is better; without any of these, the others."""
        every = [(own, series) for own in self.compared for series in own.series if series.order.n > 1]
        first = [(own, series) for own, series in every if series.quantity in own.table.headline]
        found = [slopes(own, series) for own, series in (first or every)[:DRAWN]]
        return [drawn for drawn in found if drawn is not None]

    def facts(self) -> list[dict[str, object]]:
        """Return all comparisons as plain facts."""
        return [comparison_facts(own) for own in self.compared]


def published_view(board: Board) -> tuple[PublishedView | None, str]:
    """Return what the page of a board shows, None where nothing is published on its track; and what went wrong."""
    try:
        tables = [table for table in published_tables() if table.track == board.track]
    except HarnessError as error:
        return None, f"{board.track}: published tables are not shown: {error}"
    if not tables:
        return None, ""
    compared = [compare(table, board) for table in tables if table.rows]
    without = [table for table in tables if not table.rows] + [own.table for own in compared if not own.series]
    return PublishedView(tuple(own for own in compared if own.series), tuple(without)), ""


def tau(series: Series) -> str:
    """Return Kendall's tau-b of a quantity with its interval, or why there is none."""
    order = series.order
    if order.tau is None:
        return order.reason
    return f"{order.tau:z.2f}" + (f" ({order.low:z.2f} to {order.high:z.2f})" if order.low is not None else "")


def printed(cell: Cell) -> str:
    """Return a published number in our unit, with the spread that is printed beside it."""
    _, sign, spread = cell.text.partition("±")
    return f"{cell.published:.4g}" + (f" {sign} {spread} as printed" if sign else "")


def interval(cell: Cell) -> str:
    """Return the interval within which the published number must lie; empty where ours has none."""
    return f"{cell.within[0]:.4g} to {cell.within[1]:.4g}" if cell.within else ""


NAMES = {"cited": cited, "counts": counts, "tau": tau, "printed": printed, "interval": interval}
"""The functions that the template calls."""

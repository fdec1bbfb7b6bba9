"""The page "Published and ours" of a track: the tables of its study beside the numbers of the leaderboard.

Rank against rank is drawn as lines from left to right: where a paper places entries, and where the leaderboard does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.errors import HarnessError
from imharness.papers.comparison import compare
from imharness.papers.facts import cited, comparison_facts, counts
from imharness.papers.order import ALPHA, FEWEST
from imharness.papers.published import PublishedTable, published_tables
from imharness.papers.verdicts import JUDGED, OTHER, SAME, Cell, Comparison, Series, agreement

DRAWN = 12
"""The most quantities that are drawn, rank against rank."""


@dataclass(frozen=True)
class PublishedView:
    """What the page of one track shows.

    `compared`: published tables beside our numbers; `without`: published tables of whose quantities we have none.
    """

    compared: tuple[Comparison, ...]
    without: tuple[PublishedTable, ...]

    @property
    def papers(self) -> list[tuple[str, str]]:
        """Each paper in words, with its address; empty where that is not one of the web."""
        links = {}
        for table in (*(comparison.table for comparison in self.compared), *self.without):
            paper = table.citation
            text = f"{paper.get('authors', '')}: {paper.get('title', table.paper)} ({paper.get('year', '')})"
            url = str(paper.get("url", ""))
            links[text] = url if url.startswith("https://") else ""
        return list(links.items())

    @property
    def answer(self) -> str:
        """One paragraph on how far the leaderboard agrees with the papers."""
        series = [one_series for comparison in self.compared for one_series in comparison.series]
        same = [cell for one_series in series for cell in one_series.with_verdict(*JUDGED)]
        every = [one_series.order for one_series in series if one_series.verdict == OTHER]
        others = [order.says for order in every if order.n >= FEWEST]
        sentences = [
            f"In the same setting {agreement(same, 'numbers ')}."
            if same
            else "No number was measured in the setting of the paper."
        ]
        if others:
            alike, turned, open_ = (others.count(word) for word in ("same order", "reversed", "undecided"))
            sentences.append(
                f"Of {len(others)} quantities in another setting with {FEWEST} entries or more, {alike} put them in "
                f"the paper's order, {turned} in the reverse order, and {open_} are undecided. Each order is tested at "
                f"{100 * ALPHA:g} %: if all of them were unrelated, about {ALPHA * len(others):.2g} would still be "
                "called the same or reversed."
            )
        few = len(every) - len(others)
        more = "quantity" if few == 1 else "quantities"
        has = "has" if few == 1 else "have"
        if few:
            what = f"{'more ' if others else ''}{more} in another setting"
            sentences.append(f"{few} {what} {has} too few entries to compare orders.")
        not_run = sum(one_series.verdict not in (SAME, OTHER) for one_series in series)
        return " ".join([*sentences, *([f"{not_run} were not run."] if not_run else [])])

    @property
    def drawn(self) -> list[Slopes]:
        """The drawings: of the quantities by which papers say what is better, or of the others if there are none."""
        every = [
            (comparison, series) for comparison in self.compared for series in comparison.series if series.order.n > 1
        ]
        first = [(comparison, series) for comparison, series in every if series.quantity in comparison.table.headline]
        slope_charts = [slopes(comparison, series) for comparison, series in (first or every)[:DRAWN]]
        return [drawn for drawn in slope_charts if drawn is not None]

    def facts(self) -> list[dict[str, object]]:
        """Return all comparisons as plain facts."""
        return [comparison_facts(comparison) for comparison in self.compared]


def published_view(leaderboard: Leaderboard) -> tuple[PublishedView | None, str]:
    """Return what the page of a leaderboard shows, None where its track has no published table; and problems."""
    try:
        tables = [table for table in published_tables() if table.track == leaderboard.track]
    except HarnessError as error:
        return None, f"{leaderboard.track}: published tables are not shown: {error}"
    if not tables:
        return None, ""
    compared = [compare(table, leaderboard) for table in tables if table.rows]
    without = [table for table in tables if not table.rows] + [
        comparison.table for comparison in compared if not comparison.series
    ]
    return PublishedView(tuple(comparison for comparison in compared if comparison.series), tuple(without)), ""


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


def name_of(table: PublishedTable) -> str:
    """Return what the paper calls a table, such as "Table 2" or "Figure 4"."""
    return table.table.capitalize() if " " in table.table else f"Table {table.table}"


NAMES = {
    "cited": cited,
    "counts": counts,
    "tau": tau,
    "printed": printed,
    "interval": interval,
    "name_of": name_of,
}
"""The functions that the template calls."""


LINE, TOP = 19.0, 26.0
"""The height of a line and of the head above all lines, px."""
LONGEST = 24
"""The most characters of a name beside a drawing."""


class Side(NamedTuple):
    """An entry on one side: its name with its place, and the height of its line."""

    text: str
    y: float


class Slope(NamedTuple):
    """An entry's line: its heights on both sides, whether it rises on the leaderboard, falls or stays, and its numbers.

    `places`: in the paper and here.
    """

    start: float
    end: float
    kind: str
    title: str
    entry: str
    published: float
    here: float
    places: tuple[float, float]


@dataclass(frozen=True)
class Slopes:
    """The drawing of a quantity; `title` says what is seen."""

    title: str
    height: float
    left: tuple[Side, ...]
    right: tuple[Side, ...]
    lines: tuple[Slope, ...]

    @property
    def data(self) -> dict[str, list[object]]:
        """Its numbers, column by column."""
        return {
            "entry": [line.entry for line in self.lines],
            "published": [line.published for line in self.lines],
            "here": [line.here for line in self.lines],
            "place published": [line.places[0] for line in self.lines],
            "place here": [line.places[1] for line in self.lines],
        }


def slopes(comparison: Comparison, series: Series) -> Slopes | None:
    """Return the drawing of a quantity; None where fewer than two entries have both numbers."""
    cells = [cell for cell in series.cells if cell.entry in series.order.entries and cell.ours is not None]
    ours = [cell.ours.value for cell in cells if cell.ours is not None and cell.ours.value is not None]
    if len(cells) < 2 or len(ours) != len(cells):
        return None
    sign = 1 if _better(comparison, series) == "lower" else -1
    names = [cell.entry for cell in cells]
    published_ranks, our_ranks = (
        _places(sign * np.array(values)) for values in ([cell.published for cell in cells], ours)
    )
    published_heights, our_heights = _heights(published_ranks, names), _heights(our_ranks, names)
    lines = [
        Slope(
            published_heights[i],
            our_heights[i],
            _kind(published_ranks[i], our_ranks[i]),
            f"{cell.entry}: {cell.text} published, {ours[i]:.4g} here; rank {published_ranks[i]:g}, "
            f"{our_ranks[i]:g} here",
            cell.entry,
            cell.published,
            ours[i],
            (published_ranks[i], our_ranks[i]),
        )
        for i, cell in enumerate(cells)
    ]
    left_side, right_side = (
        tuple(Side(_name(name, rank), height) for name, rank, height in zip(names, ranks, heights, strict=True))
        for ranks, heights in ((published_ranks, published_heights), (our_ranks, our_heights))
    )
    title, height = _title(comparison, series, len(cells)), TOP + LINE * len(cells) + 6
    return Slopes(title, height, left_side, right_side, tuple(lines))


def _better(comparison: Comparison, series: Series) -> str:
    """Return which numbers of a quantity are better; if columns are the entries, all columns agree on it."""
    columns = comparison.table.columns
    wanted = (
        [line for line in columns if line.label == series.quantity] if comparison.table.entries == "rows" else columns
    )
    return next((line.better for line in wanted), "")


def _places(costs: npt.NDArray[np.float64]) -> list[float]:
    """Return the place of each entry, 1 for the lowest cost; entries with equal numbers share the middle of theirs."""
    from scipy.stats import rankdata

    return [float(rank) for rank in rankdata(costs)]


def _heights(places: list[float], names: list[str]) -> list[float]:
    """Return the height of each entry's line: one below the other in the order of places, equal ones by name."""
    order = sorted(range(len(places)), key=lambda i: (places[i], names[i]))
    heights = [0.0] * len(places)
    for line, i in enumerate(order):
        heights[i] = TOP + LINE * (line + 0.5)
    return heights


def _kind(paper: float, here: float) -> str:
    return "up" if here < paper else "down" if here > paper else "same"


def _name(entry: str, rank: float) -> str:
    name = brief(entry)
    return f"{rank:g} {name if len(name) <= LONGEST else name[: LONGEST - 1] + '…'}"


def _title(comparison: Comparison, series: Series, size: int) -> str:
    order, where = series.order, f"{series.label}, table {comparison.table.table}"
    tau = "" if order.tau is None else f" (Kendall’s tau-b {order.tau:z.2f})"
    says = {
        "same order": f"The leaderboard puts the {size} entries in the paper’s order",
        "reversed": f"The leaderboard puts the {size} entries in the reverse order",
        "too few entries": f"{size} entries are too few to compare orders",
    }.get(order.says, f"{size} entries do not tell whether the orders agree")
    return f"{where}: {says[:1].lower()}{says[1:]}{tau}"

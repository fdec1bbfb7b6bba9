"""The ranking as a chart: each row has a lane, with a dot, its interval, and a hollow dot, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from imharness.results.rankings import Ranking
from imharness.results.tables import Row, Table
from imharness_leaderboard.drawing import Scale, ends, scale_of
from imharness_leaderboard.fronts import Tick

WIDTH, HEIGHT = 320.0, 28.0
"""The size of a lane, px."""


class Lane(NamedTuple):
    """Where a row's number under the worst attack, its interval, and its number under the unaware attacker are, px."""

    low: float | None
    at: float | None
    high: float | None
    unaware: float | None


class Lanes:
    """What all lanes of a ranking share.

    `controls`: the lines of the controls, px and whether it is the undefended entry. `ticks`: the numbers above.
    `plain`: the place of the undefended entry's line, None where it has no number.
    """

    def __init__(self, scale: Scale, controls: Sequence[tuple[float, bool]]) -> None:
        self.scale, self.controls = scale, controls
        self.ticks = [Tick(scale(tick), f"{tick:g}") for tick in scale.ticks(8)]
        self.plain = next((x for x, plain in controls if plain), None)

    def of(self, row: Row) -> Lane:
        """Return the drawing of a row."""
        worst = row.values.get("worst")
        found = [worst.low, worst.value, worst.high] if worst is not None else [None] * 3
        return Lane(*(None if n is None else self.scale(n) for n in (*found, row.number("unaware"))))


def lanes_of(table: Table, ranking: Ranking) -> Lanes:
    """Return the lanes of a ranking."""
    numbers = ends(row.values.get("worst") for row in table.rows)
    scale = scale_of([*numbers, *(row.number("unaware") for row in table.rows)], 8, WIDTH - 8, 0.02)
    controls = [
        (scale(number), row.label == ranking.undefended)
        for row in table.rows
        if row.label in ranking.places
        and ranking.places[row.label].control
        and (number := row.number("worst")) is not None
    ]
    return Lanes(scale, sorted(set(controls)))

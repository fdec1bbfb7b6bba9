"""The ranking as a chart: each row has a lane, all lanes have one scale.

A lane shows the number under the worst attack as a dot, its interval as a line, and the number under attacks without
knowledge as a hollow dot. Small drawings show the dots alone: one for each value of a facet, such as the metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from imharness.documents.rankings import Ranking
from imharness.documents.tables import Row, Table
from imharness_leaderboard.drawing import Scale, Tick, ends, scale_of
from imharness_leaderboard.names import display_name
from imharness_leaderboard.scores import Scores, worst_case
from imharness_leaderboard.tables import column_named

WIDTH, HEIGHT = 320.0, 28.0
"""The size of a lane, px."""


class Lane(NamedTuple):
    """Where a row's numbers are drawn, x in px; None where there is no number.

    `at`: the number under the worst attack. The others: the ends of its interval, and the number under attacks whose
    attacker does not know the entry.
    """

    low: float | None
    at: float | None
    high: float | None
    unaware: float | None


class Lanes:
    """What all lanes of a ranking share.

    `controls`: the x of the line of each control, and whether entries are compared with this control. `plain`: the x of
    the control with which they are compared; None where it has no number. `ticks`: the numbers above the lanes.
    """

    def __init__(self, scale: Scale, controls: Sequence[tuple[float, bool]]) -> None:
        self.scale, self.controls = scale, controls
        self.ticks = [Tick(scale(tick), f"{tick:g}") for tick in scale.ticks()]
        self.plain = next((x for x, plain in controls if plain), None)

    def of(self, row: Row) -> Lane:
        """Return the drawing of a row."""
        worst = row.values.get("worst")
        ends = [worst.low, worst.value, worst.high] if worst is not None else [None] * 3
        return Lane(*(None if n is None else self.scale(n) for n in (*ends, row.number("unaware"))))


def lanes_of(table: Table, ranking: Ranking) -> Lanes:
    """Return the lanes of a ranking."""
    numbers = ends(row.values.get("worst") for row in table.rows)
    scale = scale_of([*numbers, *(row.number("unaware") for row in table.rows)], 8, WIDTH - 8, 0.02)
    controls = [
        (scale(number), row.label == (ranking.baseline or ranking.undefended))
        for row in table.rows
        if row.label in ranking.places
        and ranking.places[row.label].control
        and (number := row.number("worst")) is not None
    ]
    return Lanes(scale, sorted(set(controls)))


class Small(NamedTuple):
    """One of several small drawings: its title, and each entry's name, place in px, and number as text."""

    title: str
    points: Sequence[tuple[str, float | None, str]]


def smalls_of(scores: Scores, ranking: Ranking, table: Table, names: Mapping[str, str], facet: str) -> list[Small]:
    """Return a drawing for each value of a facet, all on one scale, of the numbers under the worst attack."""
    comparison = scores.comparison
    values = [condition.facets[facet] for condition in comparison.conditions]
    means = {
        value: worst_case(comparison, scores.vectors, ranking, [c for c, other in enumerate(values) if other == value])
        for value in sorted(set(values))
    }
    scale = scale_of((float(n) for numbers in means.values() for n in numbers), 4, 136)
    index = {label: i for i, label in enumerate(comparison.entries)}
    labels = [row.label for row in table.rows if row.label in index]
    column = column_named(table, "worst")
    decimals = column.decimals if column is not None else 3
    return [
        Small(
            display_name(value),
            [
                (names[label], scale(x), f"{x:z.{decimals}f}")
                if np.isfinite(x := float(numbers[index[label]]))
                else (names[label], None, "not measured")
                for label in labels
            ],
        )
        for value, numbers in means.items()
    ]

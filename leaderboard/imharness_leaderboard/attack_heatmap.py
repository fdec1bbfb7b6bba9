"""What each attack does to each entry: a heat map, in stronger colours where the attack achieves more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from imharness.documents.rankings import Ranking
from imharness_leaderboard.names import attack_names
from imharness_leaderboard.scores import Floats, Scores, setting_means

MOST, ROWS = 40, 60
"""The largest number of attacks, and of entries, that are shown."""


class Column(NamedTuple):
    """An attack: what it is called, and whether it knows the entry."""

    name: str
    aware: bool


class Cell(NamedTuple):
    """A mean as text, and the step of its colour, from 0 to 10; the text is "" where there is none."""

    text: str
    step: int


class Heat(NamedTuple):
    """The heat map. `title` says what is seen; `rows`: the label and the cells of each entry."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    both: bool
    """Whether an attack is seen both with and without knowledge of the entry."""
    data: Mapping[str, Sequence[object]]
    """Its numbers, column by column."""
    left: int
    """How many further entries are not shown."""


def heat_of(scores: Scores, ranking: Ranking, names: Mapping[str, str]) -> Heat | None:
    """Return the map of a ranking, its rows in the order of `names`; None where there is only one attack."""
    comparison = scores.comparison
    means = setting_means(comparison, scores.vectors)
    groups: dict[tuple[str, bool], list[int]] = {}
    for c, condition in enumerate(comparison.conditions):
        key = condition.facets[ranking.attack], condition.facets[ranking.attacker] != ranking.unaware
        groups.setdefault(key, []).append(c)
    present = [label for label in names if label in comparison.entries]
    entries = present[:ROWS]
    if not 1 < len(groups) <= MOST or len(entries) < 2:
        return None
    keys = sorted(groups)
    rows = [comparison.entries.index(label) for label in entries]
    values = np.stack([_mean(means[np.ix_(rows, groups[key])]) for key in keys], axis=1)
    sign = 1 if comparison.better == "lower" else -1
    finite = values[~np.isnan(values)]
    low, high = (float((sign * finite).min()), float((sign * finite).max())) if finite.size else (0.0, 1.0)
    called = attack_names(list(dict.fromkeys(attack for attack, _ in keys)))
    columns = [Column(called[attack], aware) for attack, aware in keys]
    decimals = min(comparison.decimals, 2)

    def cell(value: float) -> Cell:
        if np.isnan(value):
            return Cell("", 0)
        return Cell(f"{value:z.{decimals}f}", round(10 * (sign * value - low) / max(high - low, 1e-12)))

    cells = [[cell(value) for value in line] for line in values.tolist()]
    both = len({attack for attack, _ in keys}) < len(keys)
    worst = _worst(columns, sign * values, both)
    return Heat(
        f"{worst} does most, on average over all rows",
        columns,
        list(zip(entries, cells, strict=True)),
        both,
        _data(entries, columns, values, both),
        len(present) - len(entries),
    )


def _data(entries: Sequence[str], columns: Sequence[Column], values: Floats, both: bool) -> dict[str, Sequence[object]]:
    """Return the numbers of the map, column by column."""
    data: dict[str, Sequence[object]] = {"entry": entries}
    for column, numbers in zip(columns, values.T.tolist(), strict=True):
        knowledge = f", {'knows it' if column.aware else 'does not know it'}" if both else ""
        data[f"{column.name}{knowledge}"] = [None if np.isnan(number) else number for number in numbers]
    return data


def _mean(block: Floats) -> Floats:
    """Return the mean of the numbers of each row ``(rows,)``, NaN where there is none."""
    finite = ~np.isnan(block)
    total = np.where(finite, block, 0.0).sum(axis=1)
    means: Floats = np.divide(total, finite.sum(axis=1), out=np.full(len(block), np.nan), where=finite.any(axis=1))
    return means


def _worst(columns: Sequence[Column], harm: Floats, both: bool) -> str:
    """Return in words the attack that does most on average, over the entries that all attacks were run on, if any."""
    whole = ~np.isnan(harm).any(axis=1)
    complete = harm[whole] if whole.any() else harm
    means = np.where(np.isnan(complete), -np.inf, complete).mean(axis=0)
    column = columns[int(np.argmax(means))]
    if not both:
        return column.name
    return f"{column.name} {'that knows the entry' if column.aware else 'that does not know the entry'}"

"""The drawing of what changes once the attacker knows an entry: one attack, without and with knowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.documents.comparisons import Comparison
from imharness.documents.pairwise import places
from imharness.documents.rankings import Ranking
from imharness.statistics.bootstrap import Interval, mean_intervals
from imharness_leaderboard.drawing import Scale, scale_of, width_of
from imharness_leaderboard.names import display_name, spelled_measure
from imharness_leaderboard.scores import Scores

MOVED, HOLD = 3, 2
"""How many entries are drawn because knowledge moves them most, and how many because they hold best."""
APART, LIFT, BESIDE = 17.0, 4.0, 74.0
"""The least distance of two labels, the height of the middle of a text above its base line, and the room for numbers,
px."""
COSTS = ", costs too much"
"""What follows the name of an entry that holds and costs too much."""

Pair = tuple[Interval, Interval]
"""The mean under the attacker who does not know the entry, and under the attacker who does."""


@dataclass(frozen=True)
class Line:
    """The line of an entry, from the attacker who does not know it to the attacker who does. Places in px.

    Attributes:
        name: what the entry is called.
        kind: ``undefended``, ``moves``, ``holds``, or ``costs`` for an entry that holds and costs too much.
        before: the number at the left end, as text.
        after: the number at the right end, as text.
        ends: of each end, the y of the mean, and of the low and the high end of its interval.
        labels: the y of the texts at both ends.
        shift: how far the intervals are drawn beside the ends of the line, so that those of entries do not overlap.
    """

    name: str
    kind: str
    before: str
    after: str
    ends: tuple[tuple[float, float, float], tuple[float, float, float]]
    labels: tuple[float, float]
    shift: float


@dataclass(frozen=True)
class Slope:
    """The drawing, in px.

    `x`: of the two attackers. `top`, `bottom`: y of the frame. `lines`: the entries. `ticks`: y of the lines of the
    grid. `title` says what is seen, `summary` says it with all numbers for readers who do not see the drawing. `data`:
    its numbers, column by column.
    """

    width: float
    height: float
    x: tuple[float, float]
    top: float
    bottom: float
    lines: Sequence[Line]
    ticks: Sequence[float]
    title: str
    measure: str
    attack: str
    source: str
    summary: str
    data: Mapping[str, Sequence[object]]


@dataclass(frozen=True)
class Effect:
    """What knowledge changes for one attack: the same settings without and with knowledge of the entry.

    `pairs`: label -> the means under both attackers, for no defense and all entries that are no controls.
    """

    attack: str
    pairs: Mapping[str, Pair]
    lines: Sequence[tuple[str, str]]
    """Label and kind (see `Line`) of each entry that is drawn."""
    measured: int
    """How many entries were measured, without controls."""


class BothWays(NamedTuple):
    """The positions of an attack's conditions, for settings that exist without and with knowledge of the entry."""

    unaware: list[int]
    aware: list[int]


def effect_of(scores: Scores, ranking: Ranking) -> Effect | None:
    """Return the effect of knowledge for the attack that gains most by it; None if no attack was run both ways."""
    both_ways = _both_ways(scores.comparison, ranking)
    effects = [effect for attack, both in both_ways.items() if (effect := _effect(scores, ranking, attack, both))]
    sign = _harm(scores.comparison)
    return max(
        effects,
        key=lambda candidate: np.mean([sign * (b.value - a.value) for a, b in candidate.pairs.values()]),
        default=None,
    )


def _harm(comparison: Comparison) -> int:
    """Return the sign of a change of the score that is worse for the defender."""
    return 1 if comparison.better == "lower" else -1


def _both_ways(comparison: Comparison, ranking: Ranking) -> dict[str, BothWays]:
    """Return attack -> its conditions, where the same setting was run without and with knowledge of the entry.

    Conditions with the same number in `Ranking.alike` differ in the attacker alone.
    """
    aware = [condition.facets[ranking.attacker] != ranking.unaware for condition in comparison.conditions]
    kinds: dict[int, set[bool]] = {}
    for setting, is_aware in zip(ranking.alike, aware, strict=False):
        kinds.setdefault(setting, set()).add(is_aware)
    both_ways: dict[str, BothWays] = {}
    for c, (setting, is_aware) in enumerate(zip(ranking.alike, aware, strict=False)):
        if len(kinds[setting]) == 2:
            both = both_ways.setdefault(comparison.conditions[c].facets[ranking.attack], BothWays([], []))
            (both.aware if is_aware else both.unaware).append(c)
    return both_ways


def _effect(scores: Scores, ranking: Ranking, attack: str, both: BothWays) -> Effect | None:
    """Return the effect of knowledge for an attack; None without numbers of no defense and of an entry."""
    comparison, sign = scores.comparison, _harm(scores.comparison)
    clusters = places(comparison)[2]
    unaware, aware = (
        mean_intervals(_unit_means(comparison, scores.vectors, conditions), clusters) for conditions in both
    )
    pairs = {
        label: (before, after)
        for label, before, after in zip(comparison.entries, unaware, aware, strict=True)
        if before is not None and after is not None and label in ranking.places and ranking.places[label].complete
    }
    entries = [label for label in pairs if not ranking.places[label].control]
    moved = sorted(entries, key=lambda e: (-sign * (pairs[e][1].value - pairs[e][0].value), e))[:MOVED]
    sound = [label for label in entries if label not in moved and not ranking.places[label].flags]
    hold = sorted(sound, key=lambda e: (sign * pairs[e][1].value, e))[:HOLD]
    if not entries or ranking.undefended not in pairs:
        return None
    drawn = [(ranking.undefended, "undefended"), *((e, "moves") for e in moved)]
    drawn += [(e, "holds" if ranking.places[e].able else "costs") for e in hold]
    return Effect(attack, {label: pairs[label] for label in [ranking.undefended, *entries]}, drawn, len(entries))


def _unit_means(
    comparison: Comparison, vectors: npt.NDArray[np.float32], wanted: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Return the mean of each unit over the conditions `wanted`, ``(entries, units)``, NaN where there is none."""
    starts, (sets, names, _) = comparison.starts(), places(comparison)
    total, count = np.zeros((2, len(vectors), len(names)))
    for c in wanted:
        block, at = vectors[:, starts[c] : starts[c + 1]].astype(np.float64), sets[comparison.conditions[c].units]
        total[:, at] += np.where(np.isfinite(block), block, 0)
        count[:, at] += np.isfinite(block)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def slope_of(
    effect: Effect, comparison: Comparison, names: Mapping[str, str], entry: str, width: float, height: float
) -> Slope:
    """Return the drawing of an attack; `names`: label -> what it is called."""
    narrow = width < 500
    rows = [(label, kind, effect.pairs[label]) for label, kind in effect.lines]
    called = {label: "No defense" if kind == "undefended" else names.get(label, label) for label, kind, _ in rows}
    left_edge, top, bottom = (70.0 if narrow else 110.0), 46.0, 12.0
    widest = max(width_of(called[label], bold=kind == "holds") for label, kind, _ in rows)
    right = BESIDE + widest + (0.0 if narrow else width_of(COSTS))
    numbers = [
        number
        for _, _, pair in rows
        for interval in pair
        for number in (interval.value, interval.low, interval.high)
        if np.isfinite(number)
    ]
    y = scale_of(numbers, height - bottom, top, 0.05)
    text = f"{{:z.{comparison.decimals}f}}"
    labels = [_spread([y(pair[end].value) for _, _, pair in rows], top, height - bottom) for end in (0, 1)]
    lines = [
        Line(
            called[label],
            kind,
            text.format(pair[0].value),
            text.format(pair[1].value),
            (_end(y, pair[0]), _end(y, pair[1])),
            (labels[0][i] + LIFT, labels[1][i] + LIFT),
            9.0 + 3 * i,
        )
        for i, (label, kind, pair) in enumerate(rows)
    ]
    attack, measure = display_name(effect.attack), spelled_measure(comparison.measure)
    return Slope(
        width,
        height,
        (left_edge, width - right),
        top,
        height - bottom,
        lines,
        [y(tick) for tick in y.ticks()],
        _title(lines, attack, comparison.measure),
        measure + f" ({comparison.better} is better)",
        attack,
        _source(effect, comparison, entry),
        f"{measure}, {attack}: "
        + "; ".join(
            f"{line.name} {line.before} if the attacker does not know it, {line.after} if it does" for line in lines
        ),
        _data(effect, comparison, entry),
    )


def _end(y: Scale, interval: Interval) -> tuple[float, float, float]:
    """Return the y of a mean, and of the low and the high end of its interval, which is the mean where it has none."""
    ends = [y(n) if np.isfinite(n) else y(interval.value) for n in (interval.low, interval.high)]
    return y(interval.value), ends[0], ends[1]


def _title(lines: Sequence[Line], attack: str, measure: str) -> str:
    plain, *others = lines
    moved = next(line for line in others if line.kind == "moves")
    what = measure.removesuffix(" %")
    unit = "%" if what != measure else ""
    before, after, without = (number + unit for number in (moved.before, moved.after, plain.after))
    description = f"{before} while {attack} does not know it, {after} once it does"
    return f"{moved.name}: {what}, {description}; {without} without a defense"


def _source(effect: Effect, comparison: Comparison, entry: str) -> str:
    one = next(iter(effect.pairs.values()))[1]
    unit = comparison.cluster_unit or comparison.unit
    size = one.n if one.clusters is None else one.clusters
    drawn = len(effect.lines) - 1
    return (
        f"Means over {size} {unit}s with 95% intervals, the same attack on both sides. {drawn} of {effect.measured} "
        f"{entry}s: "
        f"those that move most, and those that hold best."
    )


def _data(effect: Effect, comparison: Comparison, entry: str) -> dict[str, Sequence[object]]:
    columns: dict[str, Sequence[object]] = {entry: list(effect.pairs), "attack": [effect.attack] * len(effect.pairs)}
    for end, words in enumerate(("does not know it", "knows it")):
        for field in ("value", "low", "high"):
            name = f"{comparison.measure}, attacker {words}" + ("" if field == "value" else f", {field}")
            columns[name] = [getattr(pair[end], field) for pair in effect.pairs.values()]
    return columns


def _spread(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return the y of labels: at least `APART` from each other, within the frame, and near the wanted ones.

    From top to bottom, labels that would overlap join a group. A group stands where the distances of its members from
    their wanted places cancel out; groups that would overlap join, too.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[list[float]] = []  # of each: the sum of the y that its members want for label 0, and their number
    for rank, i in enumerate(order):
        groups.append([wanted[i] - rank * APART, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]:
            last = groups.pop()
            groups[-1] = [groups[-1][0] + last[0], groups[-1][1] + last[1]]
    first = [total / size for total, size in groups for _ in range(int(size))]
    high = bottom - (len(order) - 1) * APART
    positions = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        positions[i] = round(min(max(first[rank], top), max(high, top)) + rank * APART, 1)
    return positions

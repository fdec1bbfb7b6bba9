"""The drawing of what knowledge does: one attack on a few entries, by attackers who do not know them and who do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imharness.results.comparisons import Comparison
from imharness.results.pairwise import places
from imharness.results.rankings import Ranking
from imharness.statistics.bootstrap import Interval, mean_intervals
from imharness_leaderboard.drawing import Scale, scale_of, width_of
from imharness_leaderboard.names import display_name, spelled_measure
from imharness_leaderboard.scores import Scores

MOVED, HOLD = 3, 2
"""How many entries are drawn because they move most, and because they hold best."""
APART, LIFT, BESIDE = 17.0, 4.0, 74.0
"""The least distance of labels, how far the middle of a text lies above its base line, and the room for numbers, px."""
COSTS = ", costs too much"
"""What follows the name of an entry that holds and costs too much."""

Pair = tuple[Interval, Interval]


@dataclass(frozen=True)
class Line:
    """An entry: its name, what it is drawn as, its numbers, and where its ends and labels stand, px.

    `kind`: ``undefended``, ``moves``, ``holds`` or ``costs``, which holds and costs too much. `ends`: of the attacker
    who does not know it, and of the one who does: place, low and high end of the interval. `shift`: how far the
    intervals stand beside the ends, so that they do not cover each other.
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
    """A drawing in px. `x`: where the two attackers stand; `data`: its numbers, column by column."""

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
class Known:
    """One attack like for like: label -> its means under the attacker who does not know it and who does."""

    attack: str
    pairs: Mapping[str, Pair]
    lines: Sequence[tuple[str, str]]
    """Label and kind of what is drawn, in the order of the labels."""
    of: int
    """How many entries were measured."""


def known_of(scores: Scores, ranking: Ranking) -> Known | None:
    """Return the attack that gains most by knowing the entries, with the entries to draw; None without such one."""
    both_ways = _both_ways(scores.comparison, ranking)
    effects = [effect for attack, both in both_ways.items() if (effect := _of(scores, ranking, attack, both))]
    sign = _harm(scores.comparison)
    return max(
        effects,
        key=lambda candidate: np.mean([sign * (b.value - a.value) for a, b in candidate.pairs.values()]),
        default=None,
    )


def _harm(comparison: Comparison) -> int:
    return 1 if comparison.better == "lower" else -1


def _both_ways(comparison: Comparison, ranking: Ranking) -> dict[str, tuple[list[int], list[int]]]:
    """Return of each attack the conditions with an attacker who does not know the entry and who does, like for like."""
    aware = [condition.facets[ranking.attacker] != ranking.unaware for condition in comparison.conditions]
    kinds: dict[int, set[bool]] = {}
    for same, knows in zip(ranking.alike, aware, strict=False):
        kinds.setdefault(same, set()).add(knows)
    pairs: dict[str, tuple[list[int], list[int]]] = {}
    for c, (same, knows) in enumerate(zip(ranking.alike, aware, strict=False)):
        if len(kinds[same]) == 2:
            attack = comparison.conditions[c].facets[ranking.attack]
            pairs.setdefault(attack, ([], []))[knows].append(c)
    return pairs


def _of(scores: Scores, ranking: Ranking, attack: str, both: tuple[list[int], list[int]]) -> Known | None:
    comparison, sign = scores.comparison, _harm(scores.comparison)
    clusters = places(comparison)[2]
    ends = [mean_intervals(_unit_means(comparison, scores.vectors, cs), clusters) for cs in both]
    pairs = {
        label: (a, b)
        for label, a, b in zip(comparison.entries, *ends, strict=True)
        if a is not None and b is not None and label in ranking.places and ranking.places[label].complete
    }
    able = [label for label in pairs if not ranking.places[label].control]
    moved = sorted(able, key=lambda e: (-sign * (pairs[e][1].value - pairs[e][0].value), e))[:MOVED]
    sound = [label for label in able if label not in moved and not ranking.places[label].flags]
    hold = sorted(sound, key=lambda e: (sign * pairs[e][1].value, e))[:HOLD]
    if not able or ranking.undefended not in pairs:
        return None
    drawn = [(ranking.undefended, "undefended"), *((e, "moves") for e in moved)]
    drawn += [(e, "holds" if ranking.places[e].able else "costs") for e in hold]
    return Known(attack, {label: pairs[label] for label in [ranking.undefended, *able]}, drawn, len(able))


def _unit_means(
    comparison: Comparison, vectors: npt.NDArray[np.float32], wanted: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Return the mean of each unit over some conditions, ``(entries, units)``, NaN where there is none."""
    starts, (sets, names, _) = comparison.starts(), places(comparison)
    total, count = np.zeros((2, len(vectors), len(names)))
    for c in wanted:
        block, at = vectors[:, starts[c] : starts[c + 1]].astype(np.float64), sets[comparison.conditions[c].units]
        total[:, at] += np.where(np.isfinite(block), block, 0)
        count[:, at] += np.isfinite(block)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def slope_of(
    effect: Known, comparison: Comparison, names: Mapping[str, str], entry: str, width: float, height: float
) -> Slope:
    """Return the drawing of an attack; `names`: label -> what it is called."""
    narrow = width < 500
    rows = [(label, kind, effect.pairs[label]) for label, kind in effect.lines]
    called = {label: "No defense" if kind == "undefended" else names.get(label, label) for label, kind, _ in rows}
    left_edge, top, bottom = (70.0 if narrow else 110.0), 46.0, 12.0
    widest = max(width_of(called[label], bold=kind == "holds") for label, kind, _ in rows)
    right = BESIDE + widest + (0.0 if narrow else width_of(COSTS))
    numbers = [
        n
        for _, _, pair in rows
        for interval in pair
        for n in (interval.value, interval.low, interval.high)
        if np.isfinite(n)
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


def _source(effect: Known, comparison: Comparison, entry: str) -> str:
    one = next(iter(effect.pairs.values()))[1]
    unit = comparison.cluster_unit or comparison.unit
    size = one.n if one.clusters is None else one.clusters
    drawn = len(effect.lines) - 1
    return (
        f"Means over {size} {unit}s with 95% intervals, the same attack on both sides. {drawn} of {effect.of} "
        f"{entry}s: "
        f"those that move most, and those that hold best."
    )


def _data(effect: Known, comparison: Comparison, entry: str) -> dict[str, Sequence[object]]:
    columns: dict[str, Sequence[object]] = {entry: list(effect.pairs), "attack": [effect.attack] * len(effect.pairs)}
    for end, words in enumerate(("does not know it", "knows it")):
        for field in ("value", "low", "high"):
            name = f"{comparison.measure}, attacker {words}" + ("" if field == "value" else f", {field}")
            columns[name] = [getattr(pair[end], field) for pair in effect.pairs.values()]
    return columns


def _spread(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return places at least `APART` from each other, within the frame, each as near as can be to the wanted one."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[list[float]] = []  # each: the sum of the places that members want for the first of them, and how many
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

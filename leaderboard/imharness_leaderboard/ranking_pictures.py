"""The pictures of a ranking: the worst case with intervals, protection against utility, and what each attack does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from imharness.results.boards import Board
from imharness.results.identity import digest
from imharness.results.rankings import Ranking
from imharness.results.tables import ColumnSpec, Row, Table
from imharness.statistics.win_rates import MATRIX
from imharness_leaderboard.addresses import picture_base
from imharness_leaderboard.chart_pictures import HEIGHT, axis_label, draw_intervals
from imharness_leaderboard.labels import write_labels
from imharness_leaderboard.picture import VERSION, WIDTH, Columns, Picture, Style, rows_high
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.tables import column_named, table_named
from imharness_leaderboard.wording import brief, last_sentence, on_axis, short

Floats = npt.NDArray[np.float64]
MOST = 40
"""The largest number of columns of a heat map."""


@dataclass(frozen=True)
class Heat:
    """A matrix of means: `values` ``(rows, columns)``, NaN where there is none; `better` is ``higher`` or ``lower``."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Floats
    measure: str
    better: str
    decimals: int


def ranking_pictures(board: Board, ranking: Ranking, compared: Sequence[Scores]) -> Iterator[Picture]:
    """Yield the pictures of a ranking of up to `MATRIX` rows; those of its attacks only where `compared` has scores."""
    table = table_named(board, ranking.table)
    if table is None or not 0 < len(table.rows) <= MATRIX:
        return
    base = picture_base(board, table.id)
    source = digest([VERSION, ranking.model_dump(mode="json"), table.model_dump(mode="json")])
    first = ranking.table == board.rankings[0].table
    of = "" if first else f" ({table.title.partition(', ')[2] or table.title})"
    yield replace(own := _places(base, source, ranking, table), title=own.title + of)
    if _both(table):
        yield replace(own := _trade(base, source, ranking, table), title=own.title + of)
    scores = next((own for own in compared if own.comparison.id == ranking.comparison), None)
    if scores is not None:
        order = [row.label for row in table.rows]
        for name, title, caption, heat in _heats(ranking, scores, order):
            yield Picture(
                f"{base}-{name}",
                title,
                caption,
                digest([VERSION, scores.source, order, name]),
                partial(draw_heat, heat),
                (WIDTH, heat_high(heat)),
                _heat_data(heat),
            )


def _places(base: str, source: str, ranking: Ranking, table: Table) -> Picture:
    worst = column_named(table, "worst")
    rows = [row for row in table.rows if row.number("worst") is not None]
    found = [row.values["worst"] for row in rows]
    data: dict[str, Sequence[object]] = {
        table.entry: [row.label for row in rows],
        "worst": [value.value for value in found],
        "low": [value.low for value in found],
        "high": [value.high for value in found],
        "unaware": [row.number("unaware") for row in rows],
        "aware": [row.number("aware") for row in rows],
    }
    return Picture(
        f"{base}-worst",
        "Worst case of each entry",
        "Dot and line: mean over units under the worst attack on each, with its 95% interval. "
        f"{_marks(table, rows)}Grey: controls, and entries that cost too much utility. Entries stand in the order of "
        "the ranking, those that may be best on top.",
        source,
        lambda axes, style: _draw_places(axes, style, ranking, rows, worst),
        (WIDTH, rows_high(len(rows))),
        data,
    )


def _marks(table: Table, rows: Sequence[Row]) -> str:
    """Return what the marks of attackers are, as their columns say it; those that no row has are left out."""
    marks = (("Hollow circle", "unaware"), ("Cross", "aware"))
    drawn = [(mark, key) for mark, key in marks if any(row.number(key) is not None for row in rows)]
    columns = [(mark, own) for mark, key in drawn if (own := column_named(table, key)) is not None]
    return "".join(f"{mark}: {last_sentence(own.description)}. " for mark, own in columns)


def _stands(ranking: Ranking, label: str) -> bool:
    place = ranking.places.get(label)
    return place is None or (not place.control and place.gate not in ("fails", "doubtful"))


def _draw_places(axes: Axes, style: Style, ranking: Ranking, rows: Sequence[Row], worst: ColumnSpec | None) -> None:
    draw_intervals(axes, style, [row.values["worst"] for row in rows])
    heights = np.arange(len(rows))[::-1]
    for height, row in zip(heights, rows, strict=True):
        for key, marker in (("unaware", "o"), ("aware", "x")):
            if (mean := row.number(key)) is not None:
                axes.plot(mean, height, marker, color=style.colours[1], markersize=4.5, markerfacecolor="none")
    axes.set_yticks(heights, [on_axis(row.label) for row in rows])
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_color(style.ink if _stands(ranking, row.label) else style.dim)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(axis_label(worst), loc="right")


def _both(table: Table) -> list[tuple[str, float, float]]:
    pairs = [(row.label, row.number("utility"), row.number("worst")) for row in table.rows]
    return [(label, x, y) for label, x, y in pairs if x is not None and y is not None]


def _trade(base: str, source: str, ranking: Ranking, table: Table) -> Picture:
    found = _both(table)
    front = [bool(own and own.front) for label, _, _ in found for own in [ranking.places.get(label)]]
    utility = column_named(table, "utility")
    data: dict[str, Sequence[object]] = {
        table.entry: [label for label, _, _ in found],
        "utility": [x for _, x, _ in found],
        "worst": [y for _, _, y in found],
        "front": [int(own) for own in front],
    }
    gate = (
        ""
        if ranking.gate is None or utility is None
        else (f" Shaded: {utility.label} more than {ranking.share:.0%} worse than that of {brief(ranking.undefended)}.")
    )
    return Picture(
        f"{base}-trade",
        "Protection against utility",
        "Protection under the worst attack, against utility where nobody attacks. The line joins the entries that no "
        f"other entry beats in both; crosses are controls.{gate}",
        source,
        lambda axes, style: _draw_trade(axes, style, ranking, table, found, front),
        (WIDTH, HEIGHT),
        data,
    )


def _draw_trade(
    axes: Axes,
    style: Style,
    ranking: Ranking,
    table: Table,
    found: Sequence[tuple[str, float, float]],
    front: Sequence[bool],
) -> None:
    utility, worst = column_named(table, "utility"), column_named(table, "worst")
    line = sorted((x, y) for (_, x, y), ahead in zip(found, front, strict=True) if ahead)
    if line:
        axes.plot(*zip(*line, strict=True), color=style.colours[1], linewidth=1.2, zorder=2)
    for (label, x, y), ahead in zip(found, front, strict=True):
        place = ranking.places.get(label)
        marker = "X" if place is not None and place.control else "D" if ahead else "o"
        axes.plot(x, y, marker, color=style.colours[1 if ahead else 0], markersize=6, zorder=3)
    if ranking.gate is not None:
        ends = axes.get_xlim()
        lower = utility is not None and utility.better == "lower"
        axes.axvspan(
            *((ranking.gate, ends[1]) if lower else (ends[0], ranking.gate)),
            color=style.line,
            alpha=0.55,
            linewidth=0,
            zorder=0,
        )
        axes.set_xlim(min(ends[0], ranking.gate), max(ends[1], ranking.gate))
    axes.set_xlabel(axis_label(utility))
    axes.set_ylabel(axis_label(worst))
    labels, points = [brief(label) for label, _, _ in found], [(x, y) for _, x, y in found]
    write_labels(axes, style, labels, points, front, line)


def _heats(ranking: Ranking, scores: Scores, order: Sequence[str]) -> Iterator[tuple[str, str, str, Heat]]:
    """Yield the name, title, caption and numbers of: entries by attack, attacks on the undefended entry by facet."""
    own = scores.comparison
    means, conditions = _condition_means(scores), [dict(c.facets) for c in own.conditions]
    entries = [label for label in order if label in own.entries]
    made = partial(Heat, measure=own.measure, better=own.better, decimals=own.decimals)
    attacks = [_attack(ranking, facets) for facets in conditions]
    columns = sorted(set(attacks))
    if 1 < len(columns) <= MOST and len(entries) > 1:
        rows = [own.entries.index(label) for label in entries]
        values = _grouped(means[rows], attacks, columns)
        heat = made([brief(e) for e in entries], _attack_names(ranking, columns), values)
        yield (
            "attacks",
            f"{own.measure} by attack",
            "Mean over units and other settings, for each attack. The stronger the colour, the more it achieves.",
            heat,
        )
    if ranking.undefended not in own.entries:
        return
    plain = means[own.entries.index(ranking.undefended)]
    names = sorted({facets[ranking.attack] for facets in conditions})
    for facet in conditions[0] if conditions else ():
        kinds = sorted({facets[facet] for facets in conditions})
        if facet not in ranking.over and 1 < len(kinds) <= MOST and len(names) > 1:
            pairs = [(facets[ranking.attack], facets[facet]) for facets in conditions]
            values = np.stack([_grouped(plain[None], pairs, [(name, kind) for kind in kinds])[0] for name in names])
            heat = made(short(names), short(kinds), values)
            yield (
                f"attacks-by-{facet}",
                f"{own.measure} of {brief(ranking.undefended)}, by attack and {facet}",
                "What each attack achieves without a defense. The stronger the colour, the more it achieves.",
                heat,
            )


def _attack(ranking: Ranking, facets: Mapping[str, str]) -> tuple[str, str]:
    return facets[ranking.attack], facets[ranking.attacker]


def _attack_names(ranking: Ranking, columns: Sequence[tuple[str, str]]) -> list[str]:
    names = dict(zip([c[0] for c in columns], short([c[0] for c in columns]), strict=True))
    return [
        f"{names[attack]}, {'does not know it' if attacker == ranking.unaware else 'knows it'}"
        for attack, attacker in columns
    ]


def _condition_means(scores: Scores) -> Floats:
    """Return the mean of each entry in each condition ``(entries, conditions)``, NaN where it has none."""
    starts = scores.comparison.starts()
    blocks = [scores.vectors[:, a:b].astype(np.float64) for a, b in pairwise(starts)]
    return np.stack([_mean(block) for block in blocks], axis=1) if blocks else np.zeros((len(scores.vectors), 0))


def _mean(block: Floats) -> Floats:
    """Return the mean over the last axis of what is finite; NaN where nothing is."""
    finite = np.isfinite(block)
    count = finite.sum(axis=-1)
    found: Floats = np.where(finite, block, 0).sum(axis=-1) / np.maximum(count, 1)
    return np.where(count > 0, found, np.nan)


def _grouped(means: Floats, keys: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]) -> Floats:
    """Return the mean over the conditions with each key ``(entries, keys)``."""
    at = [[i for i, key in enumerate(keys) if key == own] for own in wanted]
    return np.stack([_mean(means[:, own]) for own in at], axis=1)


def _heat_data(heat: Heat) -> Columns:
    columns = {
        name: [None if np.isnan(v) else float(v) for v in heat.values[:, j]] for j, name in enumerate(heat.columns)
    }
    return {"": list(heat.rows), **columns}


def heat_high(heat: Heat) -> float:
    """Return the height of a picture of a matrix, inches: a line for each row, and room for names below that tilt."""
    tilted = 0.0 if _upright(heat) else 0.7 + 0.055 * max(map(len, heat.columns))
    return max(1.6, tilted) + 0.27 * len(heat.rows)


def _upright(heat: Heat) -> bool:
    return sum(len(name) + 2 for name in heat.columns) < 60


def draw_heat(heat: Heat, axes: Axes, style: Style) -> None:
    """Draw a matrix with the strongest colour at the bad end, and with its numbers where there is room."""
    sign = -1 if heat.better == "higher" else 1
    known = sign * heat.values[~np.isnan(heat.values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    share = (sign * heat.values - low) / max(high - low, 1e-12)
    axes.pcolormesh(
        np.ma.masked_invalid(share), cmap=style.heat, vmin=0, vmax=1.15, edgecolors=style.paper, linewidth=0.8
    )
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_yticks(np.arange(len(heat.rows)) + 0.5, heat.rows)
    names = axes.set_xticks(np.arange(len(heat.columns)) + 0.5, heat.columns, fontsize=8)
    for tick in () if _upright(heat) else names:
        tick.label1.set(rotation=60, ha="right", rotation_mode="anchor")
    if len(heat.columns) > 18:
        return
    for (i, j), value in np.ndenumerate(heat.values):
        if np.isnan(value):
            axes.text(j + 0.5, i + 0.5, "–", ha="center", va="center", fontsize=7, color=style.dim)
        else:
            dark = share[i, j] > 0.6
            axes.text(
                j + 0.5,
                i + 0.5,
                f"{value:z.{min(heat.decimals, 2)}f}",
                ha="center",
                va="center",
                fontsize=7,
                color=style.paper if dark else style.ink,
            )

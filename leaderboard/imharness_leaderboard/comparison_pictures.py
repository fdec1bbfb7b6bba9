"""The pictures of a comparison: mean ranks with critical differences, and the distribution of scores.

The title of each says what is seen, and its caption begins with what it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from imharness.results.boards import Board
from imharness.results.comparisons import Comparison
from imharness.results.identity import digest
from imharness.statistics.clusters import FEWEST
from imharness.statistics.win_rates import MATRIX
from imharness_leaderboard.addresses import picture_base
from imharness_leaderboard.chart_titles import title_of_boxes, title_of_ranks
from imharness_leaderboard.picture import VERSION, WIDTH, Columns, Picture, Style, rows_high
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.wording import brief, on_axis

PERCENTILES = (5, 25, 50, 75, 95)
PARTIAL = " Entries that lack conditions which most have are drawn over those that they have; the title omits them."
"""What the caption of a distribution says where some entries met other conditions than most."""


def comparison_pictures(board: Board, scores: Scores) -> Iterator[Picture]:
    """Yield the pictures of a comparison; none for more than `MATRIX` entries, or fewer than two on a common unit."""
    comparison = scores.comparison
    if (
        not 2 <= len(comparison.entries) <= MATRIX
        or len(_comparable(comparison, scores.vectors)) < 2
        or not _shared(scores).size
    ):
        return
    base = picture_base(board, comparison.id)
    size = (WIDTH, rows_high(len(comparison.entries)))
    subject = comparison.title[:1].lower() + comparison.title[1:]
    if not _joins_all(scores):
        yield _rank_picture(scores, base, subject, size)
    if boxes := _spreads(scores):
        alike = set(_comparable(comparison, scores.vectors))
        medians = {comparison.entries[i]: float(own[2]) for i, own in boxes if i in alike}
        partial = len(medians) < len(boxes)
        seen = title_of_boxes(
            [*medians], [*medians.values()], comparison.measure, comparison.better, all_complete=not partial
        )
        plain = f"Distribution of {comparison.measure}: {subject}"
        yield Picture(
            f"{base}-spread",
            seen or plain,
            f"{_before(seen, plain)}{comparison.description} Box: quartiles over the {_seen_once(scores)}; whiskers: "
            f"5th and 95th percentiles.{PARTIAL if partial else ''}",
            digest([VERSION, seen, scores.source]),
            lambda axes, style: _draw_spread(axes, style, scores),
            size,
            _spread_data(scores),
        )


def _before(seen: str, plain: str) -> str:
    """Return what a caption begins with: what the picture is, where its title says what is seen."""
    return f"{plain}. " if seen else ""


def _joins_all(scores: Scores) -> bool:
    """Return whether the data tell no entry from another one: a bar that joins all of them would show nothing."""
    entries, _ = _ranked(scores)
    return _tied_runs(scores.told.better[np.ix_(entries, entries)]) == [(0, len(entries) - 1)]


def _rank_picture(scores: Scores, base: str, subject: str, size: tuple[float, float]) -> Picture:
    comparison = scores.comparison
    entries, ranks = _ranked(scores)
    runs = _tied_runs(scores.told.better[np.ix_(entries, entries)])
    tied = next((last for first, last in runs if first == 0), 0)
    seen = title_of_ranks([comparison.entries[i] for i in entries], ranks.tolist(), tied)
    plain = f"Critical differences: {subject}"
    return Picture(
        f"{base}-ranks",
        seen or plain,
        f"{_before(seen, plain)}Mean rank by {comparison.measure} over the {_seen_once(scores)}. Only what all entries "
        "share counts. The best entry is on top. A bar at the right joins entries that the simultaneous intervals of "
        "all pairs do not tell apart. "
        "Entries that lack conditions which most others have are left out.",
        digest([VERSION, seen, scores.source]),
        lambda axes, style: _draw_ranks(axes, style, scores),
        size,
        _rank_data(scores),
    )


def _seen_once(scores: Scores) -> str:
    """Return in words what each number belongs to: the units that are independent, which tests count once."""
    own, unit = scores.comparison, scores.independent_unit
    return f"{unit}s, each with its mean over {f'its {own.unit}s and ' if own.clusters else ''}conditions"


def _ranked(scores: Scores) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Return the comparable entries by their mean rank, and these ranks."""
    entries = _comparable(scores.comparison, scores.vectors)
    sign = 1 if scores.comparison.better == "higher" else -1
    ranks = _mean_ranks(-sign * _shared(scores))
    order = np.argsort(ranks, kind="stable")
    return [entries[i] for i in order], ranks[order]


def _rank_data(scores: Scores) -> Columns:
    entries, ranks = _ranked(scores)
    names = [scores.comparison.entries[i] for i in entries]
    return {scores.comparison.entry: names, f"mean rank by {scores.comparison.measure}": ranks.tolist()}


def _draw_ranks(axes: Axes, style: Style, scores: Scores) -> None:
    comparison = scores.comparison
    entries, ranks = _ranked(scores)
    beats = scores.told.better[np.ix_(entries, entries)]
    height = np.arange(len(entries))[::-1]
    axes.hlines(height, 0.5, ranks, color=style.line, linewidth=0.8)
    axes.scatter(ranks, height, s=28, color=style.colours[0], zorder=3)
    axes.set_yticks(height, [on_axis(comparison.entries[i]) for i in entries])
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0.5, len(entries) + 0.5)
    axes.set_ylim(-0.7, len(entries) - 0.3)
    beside = axes.get_yaxis_transform()  # x as a share of the axes' width: the bars stand on no scale
    lanes: list[int] = []
    for first, last in _tied_runs(beats):
        lane = next((i for i, reached in enumerate(lanes) if reached < first), len(lanes))
        lanes[lane : lane + 1] = [last]
        x = 1.02 + 0.018 * lane
        axes.plot(
            [x, x],
            [height[first] + 0.25, height[last] - 0.25],
            color=style.colours[1],
            linewidth=2.6,
            transform=beside,
            clip_on=False,
            solid_capstyle="butt",
            gid=f"tied-{first}-{last}",
        )
    axes.set_xlabel(brief(f"mean rank by {comparison.measure} (1 is best)"), loc="right")


def _shared(scores: Scores) -> npt.NDArray[np.float64]:
    """Return the cluster means of the comparable entries, ``(entries, clusters)``, over the units that all have."""
    means = scores.means[_comparable(scores.comparison, scores.vectors)]
    found = scores.by_cluster(np.where(np.isnan(means).any(axis=0), np.nan, means))
    return found[:, ~np.isnan(found).any(axis=0)]


def _comparable(comparison: Comparison, vectors: npt.NDArray[np.floating]) -> list[int]:
    """Return the entries that have every condition which most entries have."""
    measured = ~np.isnan(vectors)
    starts = comparison.starts()
    parts = [measured[:, starts[c] : starts[c + 1]].any(axis=1) for c in range(len(comparison.conditions))]
    has = np.stack(parts, axis=1)  # (entries, conditions)
    usual = has.mean(axis=0) > 0.5
    return [i for i in range(len(has)) if has[i, usual].all()]


def _mean_ranks(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean rank of each entry; `costs` are ``(entries, units)``, lower is better."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(costs, axis=0).mean(axis=1, dtype=np.float64))


def _tied_runs(beats: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first and last place of each longest run of neighbours in which no entry beats another.

    `beats`: ``(entries, entries)``, in the order of their ranks.
    """
    found: list[tuple[int, int]] = []
    end = reach = -1
    either = beats | beats.T
    for start in range(len(beats)):
        end = max(start, end)  # a run without its first entry is a run
        while end + 1 < len(beats) and not either[end + 1, start : end + 1].any():
            end += 1
        if end > start and end > reach:
            found.append((start, end))
            reach = end
    return found


def _spreads(scores: Scores) -> list[tuple[int, npt.NDArray[np.float64]]]:
    """Return entries with the percentiles of their cluster means, the worst first.

    The list is empty where a box says nothing: every number is 0 or 1, or no entry has as many of them as a test needs.
    """
    sign = 1 if scores.comparison.better == "higher" else -1
    measured = [(i, own) for i, row in enumerate(scores.independent) if len(own := row[~np.isnan(row)])]
    if all(len(own) < FEWEST for _, own in measured) or all(np.isin(own, (0, 1)).all() for _, own in measured):
        return []
    found = [(i, np.percentile(own, PERCENTILES)) for i, own in measured]
    return sorted(found, key=lambda pair: sign * float(pair[1][2]))


def _spread_data(scores: Scores) -> Columns:
    found = _spreads(scores)[::-1]
    names = [scores.comparison.entries[i] for i, _ in found]
    parts = {f"{p}%": [float(row[j]) for _, row in found] for j, p in enumerate(PERCENTILES)}
    return {scores.comparison.entry: names, **parts}


def _draw_spread(axes: Axes, style: Style, scores: Scores) -> None:
    comparison, found = scores.comparison, _spreads(scores)
    line = {"color": style.ink, "linewidth": 0.9}
    axes.bxp(
        [_box(row) for _, row in found],
        orientation="horizontal",
        widths=0.6,
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": style.colours[0], "edgecolor": style.ink, "linewidth": 0.6},
        medianprops={"color": style.paper, "linewidth": 1.8},
        whiskerprops=line,
        capprops=line,
    )
    axes.set_yticks(np.arange(1, len(found) + 1), [on_axis(comparison.entries[i]) for i, _ in found])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(brief(f"{comparison.measure} ({comparison.better} is better)"), loc="right")


def _box(row: npt.NDArray[np.float64]) -> dict[str, object]:
    low, first, middle, third, high = row
    return {"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high, "fliers": []}

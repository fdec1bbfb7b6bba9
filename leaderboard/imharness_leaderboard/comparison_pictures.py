"""The pictures of a comparison: mean ranks with critical differences, and the distribution of scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from imharness.results.identity import digest
from imharness.results.records import Board, Comparison
from imharness_leaderboard.addresses import picture_base
from imharness_leaderboard.picture import VERSION, WIDTH, Picture, Style
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.wording import brief

NO_SPREAD = ("guessed right", "agreement", "closeness")
"""Measures that are 0 or 1 for each unit: a box plot of them says nothing."""


def comparison_pictures(board: Board, scores: Scores) -> Iterator[Picture]:
    """Yield the pictures of a comparison; none where fewer than two entries were measured on a common unit."""
    comparison = scores.comparison
    if len(comparison.entries) < 2 or len(_comparable(comparison, scores.vectors)) < 2 or not _shared(scores).size:
        return
    source = digest([VERSION, scores.source])
    base = picture_base(board, comparison.id)
    size = (WIDTH, 1.2 + 0.27 * len(comparison.entries))
    subject = comparison.title[:1].lower() + comparison.title[1:]
    yield Picture(
        f"{base}-ranks",
        f"Critical differences: {subject}",
        f"Mean rank by {comparison.measure} over the {comparison.unit}s that all entries share, with the best on top. "
        "A bar joins entries that no test tells apart (Wilcoxon, Bonferroni-corrected over all pairs). Entries that "
        "lack conditions which most others have are left out.",
        source,
        lambda axes, style: _draw_ranks(axes, style, scores),
        size,
    )
    if comparison.measure not in NO_SPREAD:
        yield Picture(
            f"{base}-spread",
            f"Distribution of {comparison.measure}: {subject}",
            f"{comparison.description} Box: quartiles over {comparison.unit}s, each with its mean over conditions; "
            "whiskers: 5th and 95th percentile.",
            source,
            lambda axes, style: _draw_spread(axes, style, scores),
            size,
        )


def _draw_ranks(axes: Axes, style: Style, scores: Scores) -> None:
    comparison = scores.comparison
    entries = _comparable(comparison, scores.vectors)
    sign = 1 if comparison.better == "higher" else -1
    ranks = _mean_ranks(-sign * _shared(scores))
    beats = scores.tested.beats(comparison.alpha)[np.ix_(entries, entries)]
    order = np.argsort(ranks, kind="stable")
    height = np.empty(len(order))
    height[order] = np.arange(len(order))[::-1]
    axes.hlines(height, 0.5, ranks, color=style.line, linewidth=0.8)
    axes.scatter(ranks, height, s=28, color=style.colours[0], zorder=3)
    axes.set_yticks(height, [brief(comparison.entries[i]) for i in entries])
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0.5, len(entries) + 1.5)
    for number, (first, last) in enumerate(_tied_runs(order, beats)):
        x = max(ranks[first], ranks[last]) + 0.25 + 0.16 * (number % 4)
        axes.plot([x, x], [height[first] + 0.2, height[last] - 0.2], color=style.colours[1], linewidth=2.4)
    axes.set_xlabel(f"mean rank by {comparison.measure} (1 is best)")


def _shared(scores: Scores) -> npt.NDArray[np.float64]:
    """Return the means of comparable entries over conditions ``(entries, units)``, for the units that all have."""
    means = scores.means[_comparable(scores.comparison, scores.vectors)]
    return means[:, ~np.isnan(means).any(axis=0)]


def _comparable(comparison: Comparison, vectors: npt.NDArray[np.float32]) -> list[int]:
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

    return np.asarray(rankdata(costs, axis=0).mean(axis=1))


def _tied_runs(order: npt.NDArray[np.int64], beats: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first and last entry of each longest run of neighbouring ranks in which nobody beats anybody."""
    found: list[tuple[int, int]] = []
    reach = -1
    for start in range(len(order)):
        end = start
        while end + 1 < len(order) and not _any_beats(beats, order[start : end + 2]):
            end += 1
        if end > start and end > reach:
            found.append((int(order[start]), int(order[end])))
            reach = end
    return found


def _any_beats(beats: npt.NDArray[np.bool_], group: npt.NDArray[np.int64]) -> bool:
    return bool(beats[np.ix_(group, group)].any())


def _draw_spread(axes: Axes, style: Style, scores: Scores) -> None:
    comparison = scores.comparison
    sign = 1 if comparison.better == "higher" else -1
    measured = [(i, row[~np.isnan(row)]) for i, row in enumerate(scores.means)]
    measured = [(i, row) for i, row in measured if len(row)]
    measured.sort(key=lambda pair: sign * float(np.median(pair[1])))
    line = {"color": style.ink, "linewidth": 0.9}
    axes.bxp(
        [_box(row) for _, row in measured], orientation="horizontal", widths=0.6, showfliers=False, patch_artist=True,
        boxprops={"facecolor": style.colours[0], "edgecolor": style.ink, "linewidth": 0.6},
        medianprops={"color": style.paper, "linewidth": 1.8}, whiskerprops=line, capprops=line,
    )  # fmt: skip
    axes.set_yticks(np.arange(1, len(measured) + 1), [brief(comparison.entries[i]) for i, _ in measured])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"{comparison.measure} ({comparison.better} is better)")


def _box(row: npt.NDArray[np.float64]) -> dict[str, object]:
    low, first, middle, third, high = np.percentile(row, [5, 25, 50, 75, 95])
    return {"whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high, "fliers": []}

"""Flags the entries of a public board that do significantly worse on a secret split of the same images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from imharness.errors import UsageError
from imharness.results.boards import Board
from imharness.results.rankings import Ranking
from imharness.results.store import Store
from imharness.results.told import places
from imharness.statistics.splits import loses_advantage
from imharness.statistics.win_rates import ALPHA
from imharness_leaderboard.current import current_boards
from imharness_leaderboard.scores import Scores, scores_of
from imharness_leaderboard.wording import brief

Blocks = dict[tuple[tuple[str, str], ...], tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]


def against_secret(boards: Sequence[Board], scores: Mapping[str, list[Scores]], secret: str | Path) -> list[Board]:
    """Return public boards in which entries that do worse on the secret split of another store are flagged.

    Raises `UsageError` when the other store has no secret split of any of these tracks, or a board is of one itself.
    """
    store, others = Store(secret), {board.track: board for board in current_boards(secret)[0] if board.secret}
    if not others.keys() & {board.track for board in boards} or any(board.secret for board in boards):
        raise UsageError(
            f"{secret} and the store of the site must hold a secret split and the public images it was made from."
        )
    found = []
    for board in boards:
        other = others.get(board.track)
        if other is not None:
            known = {own.comparison.id: own for own in scores_of(other, store.numbers(other))}
            pairs = [
                (ranking, _named(scores[board.track], ranking), known.get(ranking.comparison))
                for ranking in board.rankings
            ]
            board = board.model_copy(update={"rankings": tuple(_flagged(*pair) for pair in pairs)})
        found.append(board)
    return found


def _named(scores: Sequence[Scores], ranking: Ranking) -> Scores | None:
    return next((own for own in scores if own.comparison.id == ranking.comparison), None)


def _flagged(ranking: Ranking, public: Scores | None, secret: Scores | None) -> Ranking:
    """Return a ranking in which entries are flagged where the two boards disagree; flagged entries never win."""
    if public is None or secret is None:
        return ranking
    reasons = {
        label: f"better on public images than on a secret split of them, p = {p:.2g}"
        for label, p in _tested(ranking, public, secret).items()
        if p < ALPHA
    }
    marked = {
        label: place.model_copy(update={"flags": (*place.flags, reasons[label])}) if label in reasons else place
        for label, place in ranking.places.items()
    }
    changes: dict[str, object] = {"places": marked}
    lost = [label for label in ranking.may_be_best if label in reasons]
    if lost:
        why = "; ".join(f"{brief(label)} is {reasons[label]}" for label in lost)
        changes |= {
            "winner": "",
            "may_be_best": tuple(label for label in ranking.may_be_best if label not in reasons),
            "claim": f"There is no winner: of those that may be best, {why}.",
        }
    if reasons:
        changes["findings"] = tuple(
            own
            for own in ranking.findings
            if own.entry not in reasons and not (own.kind == "may be best" and own.against.keys() & reasons.keys())
        )
    return ranking.model_copy(update=changes)


def _tested(ranking: Ranking, public: Scores, secret: Scores) -> dict[str, float]:
    """Return the p-value of each entry that both boards have and that is not a control."""
    both = set(public.comparison.entries) & set(secret.comparison.entries)
    labels = sorted(label for label in both & set(ranking.places) if not ranking.places[label].control)
    if ranking.undefended not in both or not labels:
        return {}
    _, names, clusters = places(public.comparison)
    place = {name: i for i, name in enumerate(names)}
    own, other = (_advantages(scores, [ranking.undefended, *labels], place) for scores in (public, secret))
    sums, count = np.zeros((2, len(labels), len(names))), np.zeros((len(labels), len(names)))
    for facets in own.keys() & other.keys():
        (at, first), (places_of_other, second) = own[facets], other[facets]
        shared, i, j = np.intersect1d(at, places_of_other, return_indices=True)
        pair = np.stack([first[:, i], second[:, j]])
        known = ~np.isnan(pair).any(axis=0)
        sums[:, :, shared] += np.where(known, pair, 0)
        count[:, shared] += known
    means = np.divide(sums, count, out=np.full_like(sums, np.nan), where=count > 0)
    return dict(zip(labels, loses_advantage(means[0], means[1], clusters).tolist(), strict=True))


def _advantages(scores: Scores, labels: Sequence[str], place: Mapping[str, int]) -> Blocks:
    """Return for each condition the places of its units, and how much better than the first label the others are."""
    comparison, starts = scores.comparison, scores.comparison.starts()
    rows = [comparison.entries.index(label) for label in labels]
    numbers = (1 if comparison.better == "higher" else -1) * scores.vectors[rows].astype(np.float64)
    found: Blocks = {}
    for i, condition in enumerate(comparison.conditions):
        at = np.array([place.get(name, -1) for name in comparison.unit_sets[condition.units]], dtype=np.int64)
        block = numbers[1:, starts[i] : starts[i + 1]] - numbers[:1, starts[i] : starts[i + 1]]
        found[tuple(sorted(condition.facets.items()))] = at[at >= 0], block[:, at >= 0]
    return found

"""The leaderboards of a store that a site shows.

Tables that are missing, damaged or outdated are made again first. Entries that are shown to lose more than a tenth of
their advantage over no defense on a secret split of the same images are flagged (`imharness.statistics.splits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.documents.pairwise import places
from imharness.documents.rankings import Ranking
from imharness.documents.stored import read_leaderboard, read_numbers
from imharness.errors import DamagedError, UsageError
from imharness.ranking.entries import rank
from imharness.ranking.listeners import announce
from imharness.ranking.unchanged import installed_code
from imharness.reading.text import reason as reason_of
from imharness.results.identity import digest, version_of
from imharness.results.storage import sha256_of
from imharness.results.store import Store
from imharness.statistics.splits import loses_advantage
from imharness.statistics.wilcoxon import resolution
from imharness.statistics.win_rates import ALPHA
from imharness_leaderboard.guide_pages import FOLDER
from imharness_leaderboard.scores import Scores, scores_of
from imharness_leaderboard.texts import PLACES


def current_leaderboards(address: str | Path) -> tuple[list[Leaderboard], list[str]]:
    """Return the tables of every track, and one line for each problem.

    Tables are made again when they are missing or damaged, when another version of the code made them, or when the
    store holds other results than they show. Only this loads the plugins, and torch with them. Tables that cannot be
    made again are shown with the reason, and left out when they cannot be read at all.
    """
    store = Store(address)
    leaderboards, problems = list[Leaderboard](), list[str]()
    for track in sorted({*store.tracks(), *store.ranked()}):
        leaderboard, reason = _read(store, track)
        if reason:
            try:
                (leaderboard,) = rank(store, [track])
                announce(str(address), [leaderboard], None, {}, problems.append)
            except Exception as error:  # a plugin that fails on old results must not hide the other tracks
                problems.append(f"{track}: {reason}; tables cannot be made again: {reason_of(error)}")
                leaderboard = leaderboard.model_copy(update={"stale": reason}) if leaderboard is not None else None
        if leaderboard is not None:
            leaderboards.append(leaderboard)
    return leaderboards, problems


def _read(store: Store, track: str) -> tuple[Leaderboard | None, str]:
    """Return the tables of a track, or None where they cannot be read, and the reason to make them again, if any."""
    leaderboard = None
    try:
        leaderboard = read_leaderboard(store, track)
        if leaderboard is not None and leaderboard.numbers is not None:
            store.check(leaderboard.numbers)
    except DamagedError as error:
        return leaderboard, str(error)
    return leaderboard, "it has no tables" if leaderboard is None else _staleness(store, leaderboard)


def _staleness(store: Store, leaderboard: Leaderboard) -> str:
    """Return why tables do not belong to the installed code or to the results in the store; empty where they do."""
    for name, version in leaderboard.scored_by.items():
        now = version_of(name)
        if now != version:
            return f"made by {name} {version}; {now or 'no version of it'} is installed"
    sweep = store.sweep(leaderboard.track, leaderboard.run_configuration) if leaderboard.run_configuration else None
    if sweep is not None and store.sources(sweep) != leaderboard.sources:
        return "the store has other results than these tables were made from"
    return ""


def origin_of_site(leaderboards: Sequence[Leaderboard], hidden: Sequence[str]) -> str:
    """Return the digest of all that the pages of tables follow from; "" where that is not known.

    `hidden`: the tracks whose numbers of single images are not published yet.
    """
    code = installed_code()
    if not code or not all(leaderboard.origin and not leaderboard.stale for leaderboard in leaderboards):
        return ""
    pages = [path for folder in PLACES if folder.is_dir() for path in sorted(folder.rglob("*.md"))]
    pages += sorted(path for path in FOLDER.iterdir() if path.is_file())
    texts = {str(path): sha256_of(path.read_bytes()) for path in pages}
    return digest([[leaderboard.model_dump(mode="json") for leaderboard in leaderboards], list(hidden), texts, code])


class Advantages(NamedTuple):
    """The advantages of entries over no defense under one condition, more is better.

    `positions` ``(u,)``: of its units among all units. `numbers` ``(entries, u)``: NaN where not measured.
    """

    positions: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.float64]


Blocks = dict[tuple[tuple[str, str], ...], Advantages]
"""The advantages under each condition, by the sorted facets of the condition."""


def against_secret(
    leaderboards: Sequence[Leaderboard], scores: Mapping[str, list[Scores]], secret: str | Path
) -> list[Leaderboard]:
    """Return public leaderboards in which entries that do worse on the secret split of another store are flagged.

    Raises `UsageError` when the other store has no secret split of any of these tracks, or a leaderboard is of one
    itself.
    """
    store, others = (
        Store(secret),
        {leaderboard.track: leaderboard for leaderboard in current_leaderboards(secret)[0] if leaderboard.secret},
    )
    if not others.keys() & {leaderboard.track for leaderboard in leaderboards} or any(
        leaderboard.secret for leaderboard in leaderboards
    ):
        raise UsageError(
            f"{secret} and the store of the site must hold a secret split and the public images it was made from."
        )
    flagged = []
    for leaderboard in leaderboards:
        other = others.get(leaderboard.track)
        if other is not None:
            secret_scores = {scored.comparison.id: scored for scored in scores_of(other, read_numbers(store, other))}
            pairs = [
                (ranking, _named(scores[leaderboard.track], ranking), secret_scores.get(ranking.comparison))
                for ranking in leaderboard.rankings
            ]
            leaderboard = leaderboard.model_copy(update={"rankings": tuple(_flagged(*pair) for pair in pairs)})
        flagged.append(leaderboard)
    return flagged


def _named(scores: Sequence[Scores], ranking: Ranking) -> Scores | None:
    return next((scored for scored in scores if scored.comparison.id == ranking.comparison), None)


def _flagged(ranking: Ranking, public: Scores | None, secret: Scores | None) -> Ranking:
    """Return a ranking in which entries are flagged where the two leaderboards disagree; flagged entries never win."""
    if public is None or secret is None:
        return ranking
    reasons = {
        label: f"better on public images than on a secret split of them, p = {p:.2g}"
        for label, p in _tested(ranking, public, secret).items()
        if p < ALPHA
    }
    marked = {
        label: position.model_copy(update={"flags": (*position.flags, reasons[label])})
        if label in reasons
        else position
        for label, position in ranking.places.items()
    }
    changes: dict[str, object] = {"places": marked}
    lost = [label for label in ranking.may_be_best if label in reasons]
    if lost:
        why = "; ".join(f"{brief(label)} is {reasons[label]}" for label in lost)
        changes |= {
            "first": "",
            "winner": "",
            "outcome": "nobody",
            "may_be_best": tuple(label for label in ranking.may_be_best if label not in reasons),
            "claim": f"No winner: {why}.",
        }
    if reasons:
        changes["findings"] = tuple(
            finding
            for finding in ranking.findings
            if finding.entry not in reasons
            and not (finding.kind == "may be best" and finding.against.keys() & reasons.keys())
        )
    return ranking.model_copy(update=changes)


def _tested(ranking: Ranking, public: Scores, secret: Scores) -> dict[str, float]:
    """Return label -> corrected p that the entry loses its advantage over no defense on the secret split.

    Advantages are means over the conditions and units that both leaderboards have. Controls are not tested.
    """
    both = set(public.comparison.entries) & set(secret.comparison.entries)
    labels = sorted(label for label in both & set(ranking.places) if not ranking.places[label].control)
    if ranking.undefended not in both or not labels:
        return {}
    _, names, clusters = places(public.comparison)
    index = {name: i for i, name in enumerate(names)}
    public_blocks, secret_blocks = (
        _advantages(scores, [ranking.undefended, *labels], index) for scores in (public, secret)
    )
    sums, count = np.zeros((2, len(labels), len(names))), np.zeros((len(labels), len(names)))
    for facets in public_blocks.keys() & secret_blocks.keys():
        in_public, in_secret = public_blocks[facets], secret_blocks[facets]
        shared, i, j = np.intersect1d(in_public.positions, in_secret.positions, return_indices=True)
        pair = np.stack([in_public.numbers[:, i], in_secret.numbers[:, j]])  # (2, entries, shared units)
        finite = ~np.isnan(pair).any(axis=0)
        sums[:, :, shared] += np.where(finite, pair, 0)
        count[:, shared] += finite
    means = np.divide(sums, count, out=np.full_like(sums, np.nan), where=count > 0)
    nearest = max(float(resolution(scores.vectors).max()) for scores in (public, secret))
    return dict(zip(labels, loses_advantage(means[0], means[1], clusters, nearest).tolist(), strict=True))


def _advantages(scores: Scores, labels: Sequence[str], index: Mapping[str, int]) -> Blocks:
    """Return by condition how much better than the first label the others are; `index`: name of a unit -> position.

    Units that are not in `index` are left out.
    """
    comparison, starts = scores.comparison, scores.comparison.starts()
    rows = [comparison.entries.index(label) for label in labels]
    numbers = (1 if comparison.better == "higher" else -1) * scores.vectors[rows].astype(np.float64)
    blocks: Blocks = {}
    for i, condition in enumerate(comparison.conditions):
        at = np.array([index.get(name, -1) for name in comparison.unit_sets[condition.units]], dtype=np.int64)
        block = numbers[1:, starts[i] : starts[i + 1]] - numbers[:1, starts[i] : starts[i + 1]]
        blocks[tuple(sorted(condition.facets.items()))] = Advantages(at[at >= 0], block[:, at >= 0])
    return blocks

"""A difference has one verdict wherever it appears: headline, findings, ranks, columns, comparisons, terminal, exports.

`tests.recomputed.of_report` checks the leaderboards of all four tracks. This file simulates many small ones: with few
or many entries, normal or skewed differences or many ties, with controls, gates and a second measure.
"""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.naming import discrete, normal, skewed
from tests.verdicts import contradictions, in_words, of_report

from imharness.cli.standings import track_lines
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.pairwise import pairwise_intervals
from imharness.leaderboard import SecondaryMeasure, Wins
from imharness.ranking.comparisons import not_worse
from imharness.tracks import TrackReport

from .test_policy import PROTECTION, blocks, ranked
from .test_power import Draw

ATTACKS = 3


def study(seed: int, draw: Draw) -> TrackReport:
    """Return a report on 1 to 7 entries, better or worse than no defense or too costly, and two further controls."""
    rng = np.random.default_rng(seed)
    count, units = int(rng.integers(1, 8)), int(rng.integers(5, 25))
    labels = ["none", "squeezed", *(f"e{i}" for i in range(count)), "early"]
    level = {label: rng.choice([-2.0, -1.0, 0.0, 0.0, 0.5, 1.0, 3.0]) for label in labels}
    level |= {"none": 0.0, "squeezed": 0.0}
    noise = draw(rng, (len(labels), ATTACKS * units)).reshape(len(labels), ATTACKS, units)
    scores = {label: 20 - level[label] + 0.7 * noise[i] for i, label in enumerate(labels)}
    utility = {label: 0.5 if rng.random() < 0.15 and label not in ("none", "squeezed") else 0.9 for label in labels}
    second = {label: 20 - rng.choice([-1.0, 0.0, 1.0]) + noise[::-1][i] for i, label in enumerate(labels)}
    measure = replace(PROTECTION, key="e", of="d", label="E", wins=Wins("e", "", ""))
    further = [SecondaryMeasure(blocks(second, units), measure)] if rng.random() < 0.5 else []
    return ranked(
        scores,
        units,
        utility=utility,
        secondary_measures=further,
        controls={"none": "no defense", "squeezed": "squeezed scores", "early": "early stopping"},
        matched={"early": "e0"},
        flags={"e1": ("a black box beats it",)} if count > 1 and rng.random() < 0.2 else {},
    )


@pytest.mark.parametrize("draw", [normal, skewed, discrete])
def test_no_leaderboard_says_two_things_of_one_difference(draw: Draw) -> None:
    outcomes: set[str] = set()
    for seed in range(60):
        report = study(seed, draw)
        assert of_report(report) == [], seed
        outcomes.add(report.rankings[0].outcome)
        leaderboard = _leaderboard(report)
        (ranking,) = report.rankings
        screen = [line.text for line in track_lines(leaderboard, 118, whole=True)]
        assert in_words(leaderboard, ranking, screen) == [], seed
    assert {"winner", "leader", "bound"} <= outcomes


def _leaderboard(report: TrackReport) -> Leaderboard:
    return Leaderboard(
        track="test/track",
        title="Test",
        measures="",
        profile="p",
        seed=0,
        limit=None,
        command="",
        finished="2026-01-01T00:00:00+00:00",
        missing=(),
        tasks_done=0,
        tasks_failed=0,
        tasks_missing=0,
        versions={},
        sources="",
        tables=tuple(report.tables),
        rankings=tuple(report.rankings),
    )


def test_no_star_says_that_an_entry_may_be_as_good_as_a_winner() -> None:
    """The rule for a winner has more power than intervals of all pairs, which decide about stars elsewhere."""
    starred = 0
    for seed in range(40):
        report = study(seed, normal)
        (ranking,), (comparison, numbers) = report.rankings, report.comparisons[0].stored()
        if ranking.winner:
            stars = not_worse(comparison, numbers, ranking.winner, ranking)
            assert [label for label in stars if ranking.places[label].eligible] == [], seed
            starred += len(not_worse(comparison, numbers, ranking.winner)) - len(stars)
    assert starred > 0


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"may_be_best": ("e0", "e1")}, "may be best"),
        ({"winner": "e1"}, "wins"),
        ({"claim": "x " * 40}, "words"),
        ({"findings": ()}, "does not say"),
    ],
)
def test_a_leaderboard_that_contradicts_itself_is_found(changes: dict[str, object], line: str) -> None:
    """The report has a winner, and an entry that is worse than no defense; each change contradicts its table."""
    report = _contradictory()
    index, numbers = report.comparisons[0].stored()
    ranking = report.rankings[0].model_copy(update=changes)
    lines = list(contradictions(ranking, report.tables[0], pairwise_intervals(index, numbers), index.entries))
    assert any(line in text for text in lines), lines


def _contradictory() -> TrackReport:
    """Return a report without contradictions, in which "e0" wins and "e1" is worse than no defense."""
    rng = np.random.default_rng(0)
    level = {"none": 0.0, "e0": 3.0, "e1": -2.0, "e2": 0.0}
    noise = normal(rng, (4, 3 * 16)).reshape(4, 3, 16)
    report = ranked(
        {label: 20 - x + noise[i] for i, (label, x) in enumerate(level.items())}, 16, dict.fromkeys(level, 0.9)
    )
    assert report.rankings[0].winner == "e0"
    assert report.rankings[0].places["e1"].against.verdict == "worse"
    return report

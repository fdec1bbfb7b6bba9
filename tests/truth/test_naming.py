"""How often the best entry is named in small studies: the shares of the table in docs/concepts/statistics.md.

`benchmarks.naming` simulates many studies with the verdicts of `Standing` alone. Tests of this file compare them with
whole contests, of which `test_power.py` runs more.
"""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import naming
from benchmarks.naming import DRAWS, FALSE, GOALS, SPAM, Setting, shares, study
from scipy.stats import binom

from imharness.documents.rankings import Ranking
from imharness.leaderboard import SecondaryMeasure, Wins
from imharness.statistics.differences import RESAMPLES

from .studies import most
from .test_policy import PROTECTION, blocks, ranked

ALIKE = 20.0
"""The mean score of entries that are no better than no defense."""


def through_a_contest(setting: Setting, seed: int) -> Ranking:
    """Return the ranking of a study, from scores as a leaderboard gets them.

    Less is better, and three attacks have the same scores.
    """
    rng, draw, labels = np.random.default_rng(seed), DRAWS[setting.scores], [f"{i:02d}" for i in range(setting.entries)]
    controls, matched = {labels[0]: "no defense"}, dict[str, str]()
    if setting.beside == "matched":
        labels.append(f"{setting.entries:02d}")
        controls[labels[-1]], matched = "early stopping", {labels[-1]: labels[-2]}
    labels += [f"{i:02d}" for i in range(setting.entries, setting.entries + SPAM * (setting.beside == "spam"))]
    shape = len(labels), setting.units
    level = dict.fromkeys(labels, 0.0) | dict.fromkeys(labels[1 : 1 + setting.ahead], setting.gap)
    level |= dict.fromkeys(matched, setting.gap + naming.MATCHED_GAP)

    def drawn(level: dict[str, float]) -> dict[str, np.ndarray]:
        noise = draw(rng, shape)
        return {label: np.tile(ALIKE - level[label] - noise[i], (3, 1)) for i, label in enumerate(labels)}

    scores, second = drawn(level), []
    if setting.beside == "deaf":
        measure = replace(PROTECTION, key="e", of="d", label="E", wins=Wins("e", "", ""))
        second = [SecondaryMeasure(blocks(drawn(dict.fromkeys(labels, 0.0)), setting.units), measure)]
    report = ranked(
        scores,
        setting.units,
        utility=dict.fromkeys(labels, 0.9),
        undefended=labels[0],
        controls=controls,
        matched=matched,
        secondary_measures=second,
    )
    return report.rankings[0]


@pytest.mark.parametrize(
    "setting",
    [
        Setting(8, 24, 1.0),
        Setting(8, 36, 0.5, scores="skewed"),
        Setting(8, 12, 1.0, scores="discrete"),
        Setting(8, 12, 0.0, 0),
        Setting(8, 12, 1.0, beside="matched"),
        Setting(8, 12, 2.0, beside="deaf"),
        Setting(5, 12, 2.0, beside="spam"),
    ],
    ids=lambda setting: f"{setting.units}-{setting.gap:g}-{setting.scores}-{setting.beside}",
)
def test_simulations_have_the_verdicts_of_whole_contests(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "RESAMPLES", RESAMPLES)
    for seed in range(2):
        ranking, (standing, level) = through_a_contest(setting, seed), study(setting, seed)
        labels = [f"{i:02d}" for i in range(len(level))]
        assert ranking.winner == ("" if standing.winner is None else labels[standing.winner])
        assert ranking.may_be_best == tuple(labels[i] for i in standing.may_be_best)
        assert ranking.not_behind == tuple(labels[i] for i in standing.not_behind)
        verdicts = {label: position.against.verdict for label, position in ranking.places.items() if position.against}
        assert {label for label, verdict in verdicts.items() if verdict == "better"} == {
            labels[i] for i in standing.candidates if standing.better_than_none(i)
        }
        assert (ranking.outcome == "measures disagree") == (standing.disagreement is not None)


def fewest(studies: int, share: float) -> int:
    """Return the smallest count that passes: a true share falls short of it in at most one of eighty simulations."""
    return int(binom.ppf(1 / 80, studies, share))


@pytest.mark.parametrize(
    ("setting", "studies"), [*zip(GOALS, (100, 20, 20, 10), strict=True)], ids=lambda x: str(getattr(x, "entries", ""))
)
def test_the_better_entry_is_named_as_often_as_promised(setting: Setting, studies: int) -> None:
    got = shares(setting, studies)
    assert got.named * studies >= fewest(studies, setting.named)
    assert got.better * studies >= fewest(studies, setting.better)
    assert got.crowned == 0.0
    assert got.wrong * studies <= most(studies, setting.false)


@pytest.mark.parametrize(("scores", "least"), [("skewed", 0.8), ("discrete", 0.9)])
def test_skewed_and_discrete_scores_take_no_crown_away(scores: str, least: float) -> None:
    got = shares(Setting(8, 24, 1.0, scores=scores), 60)
    assert got.named * 60 >= fewest(60, least)
    assert got.wrong * 60 <= most(60, FALSE)


@pytest.mark.parametrize("beside", ["spam", "matched", "deaf"])
def test_what_says_nothing_of_the_best_entry_takes_its_crown_seldom(beside: str) -> None:
    studies = 15 if beside == "spam" else 60
    got = shares(Setting(8, 24, 1.0, beside=beside), studies)
    assert got.named * studies >= fewest(studies, 0.9)
    assert got.disagree * studies <= most(studies)


@pytest.mark.parametrize("scores", sorted(DRAWS))
@pytest.mark.parametrize("ahead", [0, 2])
def test_of_two_equals_one_is_crowned_seldom_and_where_nothing_helps_little_is_said(ahead: int, scores: str) -> None:
    """All three families together say something false more often where two are ahead."""
    setting = Setting(8, 12, 1.0 * bool(ahead), ahead, scores)
    got = shares(setting, 100)
    assert got.crowned * 100 <= most(100)
    assert got.against * 100 <= most(100)
    assert got.pairs * 100 <= most(100)
    assert got.left_out * 100 <= most(100)
    assert got.wrong * 100 <= most(100, setting.false)

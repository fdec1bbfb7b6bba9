"""The ranking by canaries, the most vulnerable records: found if models learn them by heart, not if never seen."""

from pathlib import Path

import numpy as np
import pytest
from tests.truth.test_membership import PLAIN, study
from tests.truth.test_membership_contest import ELSEWHERE, Elsewhere
from tests.verdicts import of_report

from imharness.tracks import TrackReport
from imharness_membership.tables import report
from imharness_membership.tables.canaries import beyond_others
from imharness_membership.tables.figures import figures
from imharness_membership.tables.rates import figures_at

SPLITS, CANARIES, SEEDS = 6, 128, 200


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> TrackReport:
    """The report on six splits of no defense, of models that learn by heart or never see members, and of a release."""
    names = [PLAIN, "acme/leak", ELSEWHERE, "masking[top_k=1]"]
    options = {"splits": SPLITS, "part": 100, "epochs": 60, "canaries": CANARIES}
    return report(study(tmp_path_factory.mktemp("canaries"), names, ["confidence"], [Elsewhere()], options))


def test_a_model_that_learns_by_heart_gives_every_canary_away_and_one_that_never_sees_them_none(
    outcomes: TrackReport,
) -> None:
    ranking = outcomes.rankings[1]
    (table,) = (table for table in outcomes.tables if table.id == ranking.table == "canaries")
    worst = {row.label: row.values["worst"] for row in table.rows}
    assert worst["acme/leak"].value == 1
    assert worst[ELSEWHERE].value == pytest.approx(0.01, abs=0.03)
    assert worst[PLAIN].value > 0.2
    assert ranking.undefended == PLAIN
    (verdicts,) = (comparison.differences for comparison in outcomes.comparisons if comparison.id == ranking.comparison)
    index = {label: i for i, label in enumerate(sorted(worst))}
    assert verdicts.better[index[ELSEWHERE], index["acme/leak"]]
    assert verdicts.better[index[PLAIN], index["acme/leak"]]


def test_intervals_and_headline_of_canaries_are_those_of_a_share(outcomes: TrackReport) -> None:
    """The column once had no limits, so that ends could be outside of [0, 1], and the headline was not compared."""
    (table,) = (table for table in outcomes.tables if table.id == "canaries")
    for row in table.rows:
        for end in (row.values["worst"].low, row.values["worst"].high):
            assert end is None or 0 <= end <= 1
    assert next(column.limits for column in table.columns if column.key == "worst") == (0, 1)
    assert of_report(outcomes) == []


def test_a_run_without_canaries_has_no_such_ranking(tmp_path: Path) -> None:
    result = report(study(tmp_path, [PLAIN, "acme/nothing"], ["confidence"], (), {"splits": 2}))
    assert len(result.rankings) == 1


def test_canaries_that_models_did_not_learn_are_found_as_often_as_others_are_accused() -> None:
    """Records differ in difficulty; the scores of models do not depend on the records that they saw."""
    rates = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        score = 3 * rng.normal(size=CANARIES) + rng.normal(size=(1, SPLITS, CANARIES))
        inside = rng.permuted(np.tile(np.arange(CANARIES) < CANARIES // 8, (SPLITS, 1)), axis=1)
        moved = beyond_others(score, inside)
        rates += [figures(moved[:, k], inside[k], figures_at())["tpr1"][0] for k in range(SPLITS)]
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= 0.01 + 2.5 * error
    assert np.mean(rates) == pytest.approx(0.009, abs=3 * error)  # 1/113: above the largest of 112 non-members


def test_what_other_models_say_of_a_record_is_taken_from_its_answer() -> None:
    """The mean of the other models that did not see the record is subtracted (one entry, three splits, two records).

    If all others saw it, the mean of all scores of models that did not see their record is subtracted: 7 / 3 here.
    """
    score = np.array([[[5.0, 1.0], [2.0, 4.0], [4.0, 7.0]]])
    inside = np.array([[True, False], [False, True], [False, True]])
    differences = beyond_others(score, inside)
    assert differences[0] == pytest.approx(np.array([[5 - 3, 1 - 7 / 3], [2 - 4, 4 - 1], [4 - 2, 7 - 1]]))

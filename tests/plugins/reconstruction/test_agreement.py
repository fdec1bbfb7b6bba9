"""Which metric ranks models as people do, on a study whose answer is known."""

import numpy as np
import pytest
from scipy import stats

from imharness_reconstruction.agreement import Study, agreement, agreement_table, comparison_table, matrix_table

MODELS, IMAGES = 12, 20


def study() -> Study:
    rng = np.random.default_rng(0)
    leak = np.linspace(0.1, 0.9, MODELS)
    people = (rng.random((MODELS, IMAGES)) < leak[:, None]).astype(float)
    near = leak[:, None] + rng.normal(0, 0.05, (MODELS, IMAGES))
    far = rng.normal(size=(MODELS, IMAGES))
    return Study("d", "harness/a", tuple(f"m{i}" for i in range(MODELS)), {"near": near, "far": far}, people, "people")


def test_agreement_is_that_of_scipy() -> None:
    s = study()
    for ranking, reference in (("rho", stats.spearmanr), ("tau", stats.kendalltau)):
        value = agreement(s, "near", ranking)
        expected = abs(reference(s.scores["near"].mean(axis=1), s.people.mean(axis=1)).statistic)
        assert value.value == pytest.approx(expected)
        assert value.n == MODELS
        assert value.low is not None
        assert value.low <= expected <= value.high + 0.05


def test_tables_order_metrics_and_test_them() -> None:
    s = study()
    table = agreement_table([s])
    assert [row.label for row in table.rows] == ["near", "far"]
    matrix = matrix_table(s)
    assert matrix.rows[0].label == "recognised"
    assert matrix.rows[1].values["c1"].value == pytest.approx(1)
    tests = comparison_table(s)
    assert tests.rows[0].values["c1"].value < 0.05
    assert tests.rows[0].values["c0"].missing == "the same metric"


def test_long_rows_become_a_study_and_few_models_none() -> None:
    s = study()
    columns = {
        "entry": np.repeat(s.models, IMAGES),
        "name": np.tile([f"n{i:02d}" for i in range(IMAGES)], MODELS),
        "metric": np.full(MODELS * IMAGES, "mse"),
        "score": -s.scores["near"].ravel(),
        "closeness": np.full(MODELS * IMAGES, -1),
    }
    votes = {**columns, "score": s.people.ravel(), "who": np.full(MODELS * IMAGES, "people")}
    del votes["closeness"]
    sets = {name: np.array([]) for name in columns}
    found = Study.of("d", "a", columns, sets, votes)
    assert found is not None
    order = np.argsort(np.array(s.models))
    np.testing.assert_allclose(found.scores["mse"], s.scores["near"][order])
    half = {name: values[3:] for name, values in votes.items()}
    kept = Study.of("d", "a", columns, sets, half)
    assert kept is not None
    assert kept.people.shape == (MODELS, IMAGES - 3)
    few = {name: values[: 5 * IMAGES] for name, values in columns.items()}
    assert Study.of("d", "a", few, sets, votes) is None

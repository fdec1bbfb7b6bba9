"""The reversal attack in a run: fitted on one data set and used on another, against metrics of brightness."""

import numpy as np
import pytest
from tests.forking import WITHOUT_SITE

from imharness.ranking.current import records_of
from imharness.ranking.entries import known_entries
from imharness.results.query import ResultQuery
from imharness.results.store import Store

PROFILE = """
name = "truth"
description = "An attack whose direction is known."
[tracks."harness/iqa"]
select = { dataset = ["acme/shades"], metric = ["light/brightness", "light/darkness"], attack = ["harness/ifgsm", "harness/reversal", "harness/reversal-square"], defense = ["harness/none", "harness/flat", "acme/averaging"] }
options = { strengths = ["strong"], shown = [], fit_dataset = "acme/greys", transfer = ["harness/reversal"] }
parameters."harness/reversal-square" = { queries = 20 }
"""  # noqa: E501
MOVED = 8 / 255
GRADIENT, QUERIES = "harness/reversal", "harness/reversal-square[queries=20]"


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory, harness_forked) -> ResultQuery:
    folder = tmp_path_factory.mktemp("reversal")
    (folder / "truth.toml").write_text(PROFILE)
    words = ("run", "--all", "--profile", "truth.toml", "--workers", "0", "--device", "cpu")
    run = harness_forked("-c", WITHOUT_SITE, *words, cwd=folder, packages=("acme-truth",))
    assert run.returncode == 0, run.stderr
    store = Store(folder / "store")
    records = records_of(store, store.latest("harness/iqa"))
    return ResultQuery(store, records, known_entries(store).facts(records))


def moved(query: ResultQuery, defense: str, method: str, adaptive: bool) -> np.ndarray:
    """Return how far an attack moves the brightness of the forty shades, from the darkest to the brightest."""
    change = query(
        "SELECT e.score - d.score AS moved FROM evaluate e JOIN defended d USING (defense, metric, name) WHERE "
        f"e.defense = '{defense}' AND metric = 'light/brightness' AND e.adaptive = {adaptive} "
        f"AND e.method = '{method}' ORDER BY name"
    )["moved"]
    assert len(change) == 40
    return change


@pytest.mark.parametrize(("defense", "adaptive"), [("harness/none", False), ("acme/averaging", True)])
def test_dark_shades_are_brightened_and_bright_ones_darkened(query, defense: str, adaptive: bool) -> None:
    """Shades in the middle are left out: equally many others are within reach on both sides."""
    change = moved(query, defense, GRADIENT, adaptive)
    np.testing.assert_allclose(abs(change), MOVED, atol=1e-6)
    assert (change[:10] > 0).all()
    assert (change[-10:] < 0).all()


def test_queries_move_a_shade_either_way(query) -> None:
    change = moved(query, "harness/none", QUERIES, False)
    assert (change != 0).all()
    assert (change > 0).any()
    assert (change < 0).any()


def test_one_picture_for_all_leaves_nothing_to_move(query) -> None:
    for method in (GRADIENT, QUERIES):
        assert not moved(query, "harness/flat", method, True).any()


def test_the_other_metric_sees_the_same_pairs_reversed(query) -> None:
    rows = query(
        "SELECT 1 - score AS there, e.moved FROM (SELECT judge, metric, name, score FROM transfer_metrics WHERE "
        "metric = 'light/brightness') JOIN (SELECT name, score AS moved FROM evaluate WHERE NOT adaptive AND "
        "metric = 'light/brightness' AND defense = 'harness/none' AND method = 'harness/reversal') e USING (name)"
    )
    assert len(rows["there"]) == 40
    np.testing.assert_allclose(rows["there"], rows["moved"], atol=1e-6)

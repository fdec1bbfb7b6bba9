"""How often a table of Wilcoxon's tests separates equal entries, and how many units separate different ones."""

import numpy as np
import pytest
from tests.long_rows import paired_scores

from imharness.documents.report import PairedScores
from imharness.ranking.tables import win_table
from imharness.statistics.head_to_head import head_to_head
from imharness.statistics.wilcoxon import fewest_units

from .studies import STUDIES, most


def study(means: list[float], units: int, conditions: int, seed: int, grades: int) -> PairedScores:
    """Return scores of entries; half of their variance is common to all entries of a unit.

    With `grades`, scores are rounded to few values, so that differences have ties and many are 0.
    """
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 1, (1, conditions, units))
    values = np.array(means)[:, None, None] + shared + rng.normal(0, 1, (len(means), conditions, units))
    scores = np.round(values * grades / 4) if grades else values
    entry, condition, unit = (indices.ravel() for indices in np.indices(scores.shape))
    texts = {"id": "w", "title": "W", "about": "more", "entry": "e", "measure": "m", "description": "d"}
    return paired_scores(
        np.array([f"e{i}" for i in entry]),
        {"c": np.array([f"c{i}" for i in condition])},
        np.array([f"u{i:03d}" for i in unit]),
        scores.ravel(),
        better="higher",
        **texts,
    )


def tasks(paired: PairedScores) -> np.ndarray:
    """Return the shares of conditions in which an entry (row) beats another (column), in %."""
    table = win_table(paired)
    return np.array([[row.values[label].number_or(np.nan) for label in paired.entries] for row in table.rows])


@pytest.mark.parametrize("grades", [0, 2, 4])
@pytest.mark.parametrize("units", [16, 25, 40])
def test_any_task_of_equal_entries_is_above_0_in_at_most_5_percent_of_studies(units: int, grades: int) -> None:
    """Four entries in two conditions. Up to 25 differences are tested exactly, with ties; more by the normal law."""
    wrong = 0
    for seed in range(STUDIES):
        shares = tasks(study([0.0] * 4, units, 2, seed, grades))
        assert np.isfinite(shares[~np.eye(4, dtype=bool)]).all()
        wrong += bool(np.nanmax(shares) > 0)
    assert wrong <= most()


def test_a_large_effect_is_told_in_each_condition_and_only_in_its_direction() -> None:
    detected = 0
    for seed in range(STUDIES):
        shares = tasks(study([0.0, 0.0, 3.0], 20, 2, seed, 4))
        detected += bool((shares[2, :2] == 100).all())
        assert np.nanmax(shares[:2, 2]) == 0
    assert detected >= 0.8 * STUDIES


@pytest.mark.parametrize(("entries", "conditions"), [(2, 1), (3, 2), (5, 3)])
def test_what_it_needs_is_enough_and_one_unit_less_is_not(entries: int, conditions: int) -> None:
    """Each entry is ahead of the one before it on every unit, by amounts without ties: no study could show more."""
    many = max(fewest_units(entries * (entries - 1) * conditions, 0.05), 1)

    def ladder(units: int) -> PairedScores:
        table = study([0.0] * entries, units, conditions, 0, 0)
        steps = np.arange(entries)[:, None] * (10 + 0.1 * np.arange(units))
        return PairedScores(
            **{
                name: getattr(table, name)
                for name in (
                    "id",
                    "title",
                    "about",
                    "entry",
                    "measure",
                    "description",
                    "better",
                    "entries",
                    "conditions",
                    "units",
                )
            },
            values=tuple(steps for _ in range(conditions)),
        )

    enough, few = win_table(ladder(many)), win_table(ladder(many - 1))
    assert {v.missing for row in few.rows for v in row.values.values() if v.missing != "the same entry"} == {
        f"needs at least {many} images, and has {many - 1}"
    }
    shares = tasks(ladder(many))
    assert shares[np.tril_indices(entries, -1)].tolist() == [100] * (entries * (entries - 1) // 2)
    assert enough.caption.count("corrected by Holm") == 1


@pytest.mark.parametrize(("units", "clusters"), [(12, 0), (20, 0), (60, 12), (40, 0)])
def test_the_corrected_p_of_equal_entries_is_below_5_percent_in_at_most_5_percent_of_studies(
    units: int, clusters: int
) -> None:
    """A comparison of two of three entries counts as six tests; scores are shares of four choices."""
    wrong = 0
    for seed in range(STUDIES):
        rng = np.random.default_rng(seed)
        names = np.arange(units) % clusters if clusters else None
        of_cluster = rng.random((3, clusters))[:, names] if clusters else 0.5
        scores = rng.binomial(4, of_cluster, (3, units)) / 4
        pairs = [head_to_head(scores[i] - scores[j], names, alpha=0.05, tests=6) for i, j in ((0, 1), (0, 2), (1, 2))]
        wrong += any(pair.corrected(p) < 0.05 for pair in pairs for p in (pair.better, pair.worse))
    assert wrong <= most()

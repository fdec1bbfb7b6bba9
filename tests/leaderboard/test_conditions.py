"""The table of every condition: means, intervals and facets, checked by hand."""

import numpy as np
import pytest
from tests.leaderboard.conftest import sample_leaderboard
from tests.long_rows import paired_scores

from imharness.documents.report import PairedScores
from imharness.documents.tables import Table, Value
from imharness.statistics.bootstrap import mean_interval
from imharness_leaderboard.scores import Scores, with_conditions
from imharness_leaderboard.tables import facets_of


def paired(scores: dict[str, dict[str, list[float]]], **facts) -> PairedScores:
    """Return a comparison from entry -> condition -> scores of units u0, u1, ..."""
    rows = [
        (e, c, f"u{i}", v)
        for e, by_condition in scores.items()
        for c, vs in by_condition.items()
        for i, v in enumerate(vs)
    ]
    entries, conditions, units, values = (np.array(column) for column in zip(*rows, strict=True))
    texts = {"id": "x", "title": "Who", "about": "more", "entry": "defense", "measure": "m", "description": "M."}
    return paired_scores(entries, {"metric": conditions}, units, values, better="higher", **texts, **facts)


def table_of(paired: PairedScores) -> Table:
    comparison, numbers = paired.stored()
    leaderboard = sample_leaderboard(tables=(), comparisons=(comparison,), examples=())
    (table,) = with_conditions(leaderboard, [Scores(leaderboard, comparison, numbers)]).tables
    return table


def test_rows_by_condition_hold_means_intervals_and_facets() -> None:
    comparison = paired(
        {"a": {"p": [1, 2, 3, 4, 5], "q": [4, 5, 6, 7, 8]}, "b": {"p": [7, 8, 9, 8, 7]}}, families={"a": "blur"}
    )
    table = table_of(comparison)
    assert [(row.label, dict(row.facets)) for row in table.rows] == [
        ("a", {"defense": "a", "family": "blur", "metric": "p"}),
        ("a", {"defense": "a", "family": "blur", "metric": "q"}),
        ("b", {"defense": "b", "metric": "p"}),
    ]
    value, expected = table.rows[0].values["m"], mean_interval([1, 2, 3, 4, 5])
    assert (value.value, value.low, value.high, value.n) == pytest.approx((3, expected.low, expected.high, 5))


def test_the_values_of_a_facet_come_by_name_and_one_alone_is_no_choice() -> None:
    table = table_of(paired({"a": {letter: [1, 2] for letter in "hgfedcba"}}, families={"a": "blur"}))
    assert facets_of(table) == {"metric": list("abcdefgh")}


@pytest.mark.parametrize("units", [1, 4])
def test_few_units_have_a_number_without_an_interval(units: int) -> None:
    table = table_of(paired({"a": {"p": units * [2.5]}, "b": {"p": units * [1.5]}}))
    assert [row.values["m"] for row in table.rows] == [Value(value=v, n=units) for v in (2.5, 1.5)]

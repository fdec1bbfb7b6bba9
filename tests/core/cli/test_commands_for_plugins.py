"""Functions for commands of plugin packages: run one step by hand, find components, import external results."""

import pytest

from imharness.cli.commands import add_external, component, context, find, query
from imharness.errors import StoreError, Unavailable, UsageError

ROWS = {
    "name": ["a", "b"], "dataset": ["external: x"] * 2, "metric": ["m"] * 2, "method": ["t"] * 2,
    "strength": ["weak"] * 2, "defense": ["d (external)"] * 2, "adaptive": [False] * 2, "score": [5.0, 6.0],
    "source": [4.0, 4.0], "attacked": [7.0, 7.0], "defended": [4.0, 4.0], "mos": [1.0, 2.0],
    "lower": [0.0] * 2, "upper": [10.0] * 2,
}  # fmt: skip
"""Two external rows of the evaluation step of iqa. Scores of defended attacked images are 5 and 6, those of clean
images 4, and the range is 10 wide: the mean deviation is 15 % of it."""


def test_a_step_runs_by_hand_with_nothing_stored() -> None:
    from imharness_iqa import steps

    roles = {
        "dataset": component("dataset", "severity-ladder[severities=[2],size=32]"),
        "metric": component("metric", "embedded-cnn"),
    }
    output = steps.clean(context(roles, limit=3))
    assert len(output.rows["name"]) == len(output.rows["score"]) == 3


def test_what_is_missing_is_said() -> None:
    assert component("defense", "disco").label == "harness/disco"
    with pytest.raises(Unavailable):
        find("dataset", "folder")
    with pytest.raises(UsageError, match="no metric is called"):
        find("metric", "nonesuch")


def row_of(leaderboard) -> dict:
    """Return the one row of the table of means over attacks."""
    (row,) = next(table for table in leaderboard.tables if table.id == "defenses").rows
    return row.values


def test_an_import_replaces_itself_and_stands_beside_what_was_run(tmp_path) -> None:
    with pytest.raises(StoreError, match="has no results of harness/iqa"):
        query(tmp_path, "iqa")
    first = add_external(tmp_path, "harness/iqa", ROWS, "x")
    assert row_of(first)["fixed_d"].value == pytest.approx(15)
    again = add_external(tmp_path, "harness/iqa", {**ROWS, "score": [5.0, 5.0]}, "x")
    assert row_of(again)["fixed_d"].value == pytest.approx(10)
    assert again.tasks_done == 1
    with pytest.raises(UsageError, match=r"rows of copy stand in .* imported from x, and would count twice"):
        add_external(tmp_path, "harness/iqa", {**ROWS, "score": [5.0, 5.0]}, "copy")


def test_a_file_that_grows_replaces_itself_alone(tmp_path) -> None:
    grown = {**ROWS, "score": [5.0, 5.0]}
    add_external(tmp_path, "harness/iqa", ROWS, "votes", replace=False, source="first")
    again = add_external(tmp_path, "harness/iqa", grown, "votes", replace=False, source="first")
    assert row_of(again)["fixed_d"].value == pytest.approx(10)
    with pytest.raises(UsageError, match="has other rows that were imported from a file votes; give --replace"):
        add_external(tmp_path, "harness/iqa", ROWS, "votes", replace=False, source="second")
    with pytest.raises(UsageError, match="has other rows that were imported from a file votes; give --replace"):
        add_external(tmp_path, "harness/iqa", ROWS, "votes", replace=False)
    with pytest.raises(UsageError, match=r"rows of more stand in .* imported from votes, and would count twice"):
        add_external(tmp_path, "harness/iqa", ROWS, "more", replace=False, source="first")
    replaced = add_external(tmp_path, "harness/iqa", ROWS, "votes", source="second")
    assert row_of(replaced)["fixed_d"].value == pytest.approx(15)

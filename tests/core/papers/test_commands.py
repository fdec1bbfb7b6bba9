"""The commands that compute the numbers of published tables: each plans what a row needs, and nothing else."""

from __future__ import annotations

import functools
import shlex

import pytest
from tests.typed_commands import read

from imharness.components.registry import installed
from imharness.contracts.component import SELECTABLE
from imharness.papers.commands import Ask, ask_of, names_for, runs
from imharness.papers.comparison import compare
from imharness.papers.published import PublishedTable, find_table, published_tables
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profiles import load_profile

POINTED = [table for table in published_tables() if compare(table, None).series]
"""Published tables with numbers that the harness can compute."""


def options_of(command: str) -> dict[str, list[str]]:
    """Return what a command selects by kind, and its profile and track; the command line must read it."""
    words = shlex.split(command)
    read(words)
    options: dict[str, list[str]] = {}
    for option, value in zip(words[2::2], words[3::2], strict=True):
        options.setdefault(option.removeprefix("--"), []).append(value)
    assert set(options) <= {"profile", "track", *SELECTABLE}
    return options


@functools.cache
def planned(command: str, *, first: bool = False) -> Graph:
    """Return what a command plans, as if everything were on this machine; `first`: with one name of each kind."""
    options = options_of(command)
    (profile,), (track,) = options.pop("profile"), options.pop("track")
    for kind, names in options.items():
        assert all(installed().find(kind, name) for name in names)
    name, loaded_profile = installed().track(track).info.id, load_profile(profile)
    only = (
        {kind: names[:1] for kind, names in (dict(loaded_profile.tracks[name].select) | options).items()}
        if first
        else options
    )
    return plan_track(name, loaded_profile, installed(), only=only, whole=True)


def asks(table: PublishedTable, row: str = "", column: str = "") -> list[Ask]:
    """Return what the numbers of a table need, or those of one row and of one column."""
    rows = [table_row for table_row in table.rows if table_row.ours and row in ("", table_row.label)]
    columns = [
        table_column for table_column in table.columns if table_column.ours and column in ("", table_column.label)
    ]
    return (
        [ask_of(table, table_row) for table_row in rows]
        if table.matrix
        else [ask_of(table, r, c) for r in rows for c in columns]
    )


@pytest.mark.parametrize("table", POINTED, ids=lambda table: table.address)
def test_every_command_is_read_and_plans_cells(table: PublishedTable) -> None:
    required_runs = runs(table, asks(table))
    assert not required_runs.without
    assert required_runs.commands
    for command in required_runs.commands:
        assert planned(command, first=True).tasks


def evaluated(graph: Graph) -> set[str]:
    """Return the addresses of the evaluation tasks of a plan."""
    return {task.address for task in graph.tasks.values() if task.spec.step == "evaluate"}


def test_the_command_of_a_row_plans_what_the_row_is_made_of() -> None:
    table = find_table("membership/2")
    (command,) = runs(table, asks(table, "Texas100, early stopping", "confidence")).commands
    assert command == (
        "harness run --profile song-mittal --track membership --dataset harness/texas100 --model "
        "'harness/mlp[activation=tanh]' --defense harness/advreg --evaluator harness/confidence"
    )
    evaluations = evaluated(planned(command))
    assert len(evaluations) == 5 * 2 * 2  # splits, adaptive or not, the defense and early stopping at its accuracy
    whole = plan_track(
        "harness/membership",
        load_profile("paper"),
        installed(),
        whole=True,
        only={"dataset": ["texas100"], "evaluator": ["*"]},
    )
    wanted = {
        a
        for a in evaluated(whole)
        if "model=harness/mlp[activation=tanh]" in a and "evaluator=harness/confidence " in f"{a} " and "advreg" in a
    }
    assert evaluations == wanted


def test_the_command_of_a_purification_plans_the_published_part_of_each_data_set() -> None:
    table = find_table("iqa/2")
    (command,) = runs(table, asks(table, "Flip")).commands
    options, profile = options_of(command), load_profile("paper").tracks["harness/iqa"].select
    assert [name.partition("/")[2] for name in options["dataset"]] == list(profile["dataset"])
    assert {name.partition("/")[2] for name in options["metric"]} == set(profile["metric"])
    assert len(options["attack"]) == 14
    assert options["defense"] == ["harness/flip"]
    used = {
        task.spec.components["defense"].label
        for task in planned(command, first=True).tasks.values()
        if "defense" in task.spec.components
    }
    assert used == {"harness/flip"}


@pytest.mark.parametrize(
    ("pointer", "selected", "whole", "expected"),
    [
        ("a/x", ["x", "x[s=1]"], False, ["a/x"]),
        ("a/x[*]", ["x", "x[s=1]", "y"], False, ["a/x", "a/x[s=1]"]),
        ("a/x[*]", ["x[*]"], False, ["a/x[*]"]),
        ("a/x[s=1]", ["x[*]"], False, ["a/x[s=1]"]),
        ("a/x[s=1,*]", ["x[s=1,t=2]", "x[t=2]"], False, ["a/x[s=1,t=2]"]),
        ("a/x[*]", ["*", "!x[s=1]"], False, ["a/x"]),
        ("a/x", ["x[s=1]"], False, []),
        ("a/x", ["x[s=1]"], True, ["a/x[s=1]"]),
        ("a/x", ["b/x"], False, []),
    ],
)
def test_pointers_become_names_of_the_profile(
    pointer: str, selected: list[str], whole: bool, expected: list[str]
) -> None:
    assert names_for(pointer, selected, whole=whole) == expected

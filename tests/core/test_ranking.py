"""Order of rows, in which missing numbers are last; blocks of scores from long rows; rankings from blocks."""

import numpy as np
import pytest

from imharness.errors import UsageError
from imharness.leaderboard import Column, ColumnSpec, Row, Table, Value, Wins, missing, ranked, ranking
from imharness.ranking.ranking import winner
from imharness.results.blocks import Blocks
from imharness.results.query import ResultQuery
from imharness.results.store import Store

VALUES = {"a": 2.0, "b": None, "c": -1.0, "d": float("nan"), "e": 2.0}


def rows() -> list[Row]:
    return [Row(label=k, values={"d": missing("no task") if v is None else Value(value=v)}) for k, v in VALUES.items()]


@pytest.mark.parametrize(("better", "order"), [("lower", "caebd"), ("higher", "aecbd"), ("", "acebd")])
def test_missing_numbers_stand_last_and_ties_keep_their_order(better: str, order: str) -> None:
    spec = ColumnSpec(key="d", label="D", description="", better=better)
    assert "".join(row.label for row in ranked(rows(), spec)) == order
    table = Table(id="t", title="", caption="", entry="x", columns=(spec,), rows=tuple(rows()))
    assert winner(table, "d") == (order[0] if better else "")
    assert winner(table, "other") == ""
    assert winner(table.model_copy(update={"rows": tuple(rows()[1:2])}), "d") == ""


def test_ties_are_broken_by_the_next_column() -> None:
    first = ColumnSpec(key="x", label="", description="", better="higher")
    second = ColumnSpec(key="y", label="", description="", better="lower")
    rows = [Row(label=n, values={"x": Value(value=1.0), "y": Value(value=y)}) for n, y in (("a", 3.0), ("b", 2.0))]
    assert [row.label for row in ranked(rows, first, second)] == ["b", "a"]


@pytest.fixture
def query(tmp_path) -> ResultQuery:
    """Return a query over no results, with facts of two components."""
    return ResultQuery(Store(tmp_path), [], [{"kind": "metric", "label": "m", "lower": 0.5}, {"kind": "attack"}])


# Entry e, set s, unit u, value v and fact k of a unit.
LONG = """
SELECT * FROM (VALUES ('x/b', 'set 2', 'u2', 1.5, 10),
                      ('x/b', 'set 1', 'u10', 2.5, 30), ('x/b', 'set 1', 'u1', 0.5, 20),
                      ('x/a', 'set 1', 'u1', 4.0, 20), ('x/c', 'set 2', 'u2', NULL, 10)) t(e, s, u, v, k)
"""


def test_blocks_hold_what_the_long_rows_say(query: ResultQuery) -> None:
    blocks = query.blocks(LONG, entry="e", by=["s"], unit="u", measures=["v"], about=["k"])
    assert blocks.entries == ("x/a", "x/b", "x/c")
    assert blocks.conditions == ({"s": "set 1"}, {"s": "set 2"})
    assert [units.tolist() for units in blocks.units] == [["u1", "u10"], ["u2"]]
    assert [facts.tolist() for facts in blocks.about["k"]] == [[20, 30], [10]]
    np.testing.assert_array_equal(blocks.values["v"][0], [[4.0, np.nan], [0.5, 2.5], [np.nan, np.nan]])
    np.testing.assert_array_equal(blocks.values["v"][1], [[np.nan], [1.5], [np.nan]])
    assert blocks.of("v", "x/b").tolist() == [0.5, 2.5, 1.5]
    assert blocks.of("v", "x/b", [1, 0]).tolist() == [1.5, 0.5, 2.5]
    assert blocks.where(s="set 2") == [1]
    subset = blocks.subset([1])
    assert (subset.entries, subset.conditions) == (("x/b",), ({"s": "set 2"},))
    assert (subset.values["v"][0].tolist(), subset.about["k"][0].tolist()) == ([[1.5]], [10])
    assert blocks.subset([]).entries == ()


def test_blocks_equal_a_loop_over_rows_whatever_their_order(query: ResultQuery) -> None:
    rng = np.random.default_rng(0)
    long = {
        (f"e{e}", f"c{c}", f"u{u}"): float(np.float32(rng.normal()))
        for e in range(4)
        for c in range(3)
        for u in range(20)
        if rng.random() < 0.7
    }
    keys = list(long)
    rng.shuffle(keys)
    values = ", ".join(f"('{e}', '{c}', '{u}', CAST({long[e, c, u]!r} AS REAL))" for e, c, u in map(tuple, keys))
    blocks = query.blocks(f"SELECT * FROM (VALUES {values}) t(e, c, name, score)", entry="e", by=["c"])
    assert blocks.values["score"][0].dtype == np.float32
    for condition, units, block in zip(blocks.conditions, blocks.units, blocks.values["score"], strict=True):
        for entry, scores in zip(blocks.entries, block, strict=True):
            wanted = [long.get((entry, condition["c"], unit), np.nan) for unit in units]
            np.testing.assert_array_equal(scores, np.float32(wanted))
    once = blocks.once("score", "e1")
    by_unit = {}
    for (e, _, u), value in long.items():
        if e == "e1":
            by_unit.setdefault(u, []).append(value)
    np.testing.assert_allclose(once, [np.mean(by_unit[u]) for u in sorted(by_unit)])


@pytest.mark.parametrize("run", [100, 200, 7])
def test_blocks_are_the_same_whether_rows_of_one_task_come_together_or_not(query: ResultQuery, run: int) -> None:
    """Rows come in runs of `run` rows of one task, or in an arbitrary order."""
    rows = "SELECT 'e' || (i // 400) AS e, 'c' || (i // 200 % 2) AS c, 'u' || (i % 200) AS name, i, sin(i) AS score"
    table = f"{rows} FROM range(1600) t(i) WHERE i % 37 <> 0"
    blocks, mixed = (
        query.blocks(f"SELECT * FROM ({table}) ORDER BY {order}", entry="e", by=["c"])
        for order in (f"i % 400 // {run}, i", "hash(i)")
    )
    assert (blocks.entries, blocks.conditions) == (mixed.entries, mixed.conditions)
    assert blocks.entries == ("e0", "e1", "e2", "e3")
    for c in range(2):
        assert blocks.units[c].tolist() == mixed.units[c].tolist()
        np.testing.assert_array_equal(blocks.values["score"][c], mixed.values["score"][c])
        numbers = [int(unit[1:]) for unit in blocks.units[c]]
        wanted = [[np.nan if (i := 400 * e + 200 * c + u) % 37 == 0 else np.sin(i) for u in numbers] for e in range(4)]
        np.testing.assert_allclose(blocks.values["score"][c], wanted)


def test_two_numbers_for_one_unit_are_an_error(query: ResultQuery) -> None:
    beside = LONG.replace("u10", "u1").replace("('x/a'", "('x/b', 'set 1', 'u3', 0.5, 20), ('x/a'")
    with pytest.raises(UsageError, match="x/b has two rows for u u1"):
        query.blocks(beside, entry="e", by=["s"], unit="u", measures=["v"])


def test_nothing_found_gives_no_condition(query: ResultQuery) -> None:
    blocks = query.blocks(f"{LONG} WHERE e = 'none'", entry="e", by=["s"], unit="u", measures=["v"])
    assert (blocks.entries, blocks.conditions) == ((), ())


def test_facts_of_components_are_a_view(query: ResultQuery) -> None:
    assert query("SELECT label FROM components WHERE lower < 1")["label"].tolist() == ["m"]
    assert query("SELECT kind FROM components WHERE lower IS NULL")["kind"].tolist() == ["attack"]


def scores() -> Blocks:
    """Return scores of the entries a, b and c on three units in one condition; c has none."""
    numbers = np.array([[3.0, 4.0, 5.0], [1.0, 2.0, 3.0], [np.nan] * 3])
    names = np.array(["u1", "u2", "u3"], dtype=object)
    return Blocks(("a", "b", "c"), ({"set": "s"},), (names,), {"d": (numbers,)}, {"half": (np.array(["x", "y", "y"]),)})


def test_a_ranking_makes_table_comparison_and_chart() -> None:
    wins = Wins("wins", "Who wins", "lower D")
    column = Column("d", "D", "How far.", "lower", wins=wins)
    report = ranking(
        scores(), column, id="t", title="T", caption="", entry="x", chart="Bars.", last=[Row(label="people", values={})]
    )
    (table,), (compared,), (chart,) = report.tables, report.comparisons, report.charts
    assert [row.label for row in table.rows] == ["b", "a", "c", "people"]
    assert table.rows[0].values["d"].value == 2.0
    assert table.rows[2].values["d"].missing
    assert (compared.table, compared.column, compared.measure, compared.better) == ("t", "d", "D", "lower")
    assert (chart.table, chart.x, chart.title) == ("t", "d", "D")
    assert len((report + report).tables) == 2


def test_a_fact_of_units_can_tell_conditions_apart() -> None:
    split = scores().split("half", "part")
    assert split.conditions == ({"set": "s", "part": "x"}, {"set": "s", "part": "y"})
    assert split.of("d", "a", split.where(part="y")).tolist() == [4.0, 5.0]

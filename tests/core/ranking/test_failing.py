"""An entry whose tasks all failed has a row with the reason in each table of its kind, and cannot win."""

from pathlib import Path

import pytest
from tests.core.ranking.sweeping import catalogue, sweep_of
from tests.core.ranking.test_leaderboards import Reporting, record

from imharness.documents.report import TrackReport
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.exports import sheet_of
from imharness.ranking.leaderboard import make_leaderboard
from imharness.results.store import Store
from imharness.results.sweeps import NEEDS

WHY = "acme/nan: ContractError: acme/nan: 3 of 9 values are NaN"


class Tables(Reporting):
    """The ranked table, another one of defenses, and one of metrics."""

    def report(self, query: object) -> TrackReport:
        original = super().report(query)
        columns = tuple(ColumnSpec(key=key, label=key, description=key) for key in ("w", "x"))
        others = [
            Table(id=kind, title="t", caption="c", entry=kind, columns=columns, rows=(row,))
            for kind in ("defense", "metric")
            for row in (Row(label=f"acme/{kind}", values={"w": Value(value=1.0)}),)
        ]
        return TrackReport(tables=[*original.tables, *others], rankings=original.rankings)


def leaderboard_of(tmp_path: Path, failed: dict[str, str]):
    """Return the leaderboard of one finished task and of failed ones, address -> reason."""
    store, done = Store(tmp_path), record("1", "1")
    store.commit(done, {"x": [1.0]}, {})
    sweep = sweep_of("acme/t", [done]).model_copy(update={"failed": failed})
    return make_leaderboard(store, Tables(), sweep, catalogue())


def test_an_entry_of_which_all_tasks_failed_stands_in_each_table_of_its_kind(tmp_path: Path) -> None:
    tasks = {
        "evaluate metric=acme/metric defense=acme/nan[a=1,b=x] strength=weak": f"{NEEDS}{WHY})",
        "purify defense=acme/nan[a=1,b=x]": WHY,
    }
    leaderboard = leaderboard_of(tmp_path, tasks)
    rows = {table.id: {row.label: row for row in table.rows} for table in leaderboard.tables}
    assert rows["metric"].keys() == {"acme/metric"}
    for table in ("main", "defense"):
        assert [*rows[table]] == ["acme/defense", "acme/nan[a=1,b=x]"]
        values = rows[table]["acme/nan[a=1,b=x]"].values.values()
        assert {(value.value, value.missing) for value in values} == {(None, "failed: acme/nan: 3 of 9 values are NaN")}
    position = leaderboard.rankings[0].places["acme/nan[a=1,b=x]"]
    assert (position.complete, position.able, position.gate) == (False, False, "not measured")
    sheet = sheet_of(leaderboard.tables[0], leaderboard)
    notes = [text for _, text in sheet.notes]
    assert "No number: failed: acme/nan: 3 of 9 values are NaN." in notes
    assert "Cannot win: it was not measured." in notes


@pytest.mark.parametrize(
    "failed",
    [
        {"evaluate metric=acme/metric defense=acme/defense strength=weak": WHY},
        {"other metric=acme/metric defense=acme/defense": WHY},
        {"train": WHY},
        {},
    ],
    ids=["one setting", "another step", "no component", "nothing"],
)
def test_who_has_a_row_keeps_it(tmp_path: Path, failed: dict[str, str]) -> None:
    leaderboard = leaderboard_of(tmp_path, failed)
    assert [len(table.rows) for table in leaderboard.tables] == [1, 1, 1]
    assert all(position.complete for position in leaderboard.rankings[0].places.values())
    assert leaderboard.tables[0].rows[0].values["v"].value == 1.0

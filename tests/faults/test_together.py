"""Several runs of one study in one store, at once."""

import json
import time
from pathlib import Path

from tests.faults.forked import STUDY, Command, digests, remains

from imharness.cli.stores import compact, verify
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

RUN = ["run", "--all", "--profile", "study.toml", "--device", "cpu", "--json", "--limit", "2", "--workers", "0"]


def test_runs_that_share_a_store_end_with_the_rows_and_the_one_board_of_a_run_alone(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    commands = [
        Command([*RUN, "--store", store, "--site", f"site{number}"], tmp_path, tmp_path / f"{number}.log")
        for number, store in enumerate(("alone", "shared", "shared"))
    ]
    for command in commands:
        command.wait()
    assert [command.code for command in commands] == [0, 0, 0], [command.log.read_text() for command in commands]
    said = [json.loads(command.log.read_text()[command.log.read_text().index("{\n") :]) for command in commands]
    assert [(facts["done"], facts["failed"], facts["claims"]) for facts in said[1:]] == [
        (said[0]["cells"], {}, said[0]["claims"])
    ] * 2
    found = digests(tmp_path / "shared")
    assert found
    assert found == digests(tmp_path / "alone")
    boards = [Store(tmp_path / store).board("harness/iqa") for store in ("alone", "shared")]
    rows = [{table.id: [row.label for row in table.rows] for table in board.tables} for board in boards]
    assert rows[0] == rows[1]
    assert remains(tmp_path / "shared") == []


def rows(store: Path) -> dict[str, dict[str, list[object]]]:
    """Return the rows of all finished cells of a store by their keys."""
    found = {}
    for key, record in Store(store).records():
        assert isinstance(record, TaskRecord), record
        found[key] = {name: column.tolist() for name, column in Store(store).rows(record).items()}
    return found


def test_runs_that_share_a_store_lose_nothing_while_it_is_packed(tmp_path: Path) -> None:
    """One of them computes everything anew."""
    (tmp_path / "study.toml").write_text(STUDY)
    commands = [
        Command([*RUN, *more, "--store", store, "--site", f"site{number}"], tmp_path, tmp_path / f"{number}.log")
        for number, (store, *more) in enumerate((("alone",), ("shared",), ("shared", "--fresh")))
    ]
    shared, packed = tmp_path / "shared", 0
    while not all(command.ended for command in commands):
        packed += compact(Store(shared))
        time.sleep(0.05)
    assert [command.code for command in commands] == [0, 0, 0], [command.log.read_text() for command in commands]
    assert packed
    assert rows(shared) == rows(tmp_path / "alone")
    assert list(verify(Store(shared))) == []

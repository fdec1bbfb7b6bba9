"""Several runs of one study in one store, at once."""

import json
from pathlib import Path

from tests.faults.forked import STUDY, Command, digests, remains

from imharness.results.store import Store

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

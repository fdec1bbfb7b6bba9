"""Several runs of one study in one store, at once."""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.conftest import Harness, without_site
from tests.faults.forked import STUDY, Command, digests, remains

from imharness.cli.stores import verify
from imharness.documents.stored import read_leaderboard
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

RUN = ["run", "--all", "--profile", "study.toml", "--device", "cpu", "--json", "--limit", "2", "--workers", "0"]


class Alone(NamedTuple):
    """The store of a run without others beside it, and the facts that it printed."""

    store: Path
    facts: dict[str, Any]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, harness_here: Harness) -> Alone:
    folder = tmp_path_factory.mktemp("alone")
    (folder / "study.toml").write_text(STUDY)
    with without_site():
        done = harness_here(*RUN, "--store", "store", "--site", "site", cwd=folder)
    assert done.returncode == 0, done.stderr
    return Alone(folder / "store", said_by(done.stdout))


def said_by(text: str) -> dict[str, Any]:
    """Return the JSON at the end of a command's output."""
    facts: dict[str, Any] = json.loads(text[text.index("{\n") :])
    return facts


def shared_by(folder: Path, *runs: tuple[str, ...]) -> list[Command]:
    """Start runs with these further words in one store."""
    (folder / "study.toml").write_text(STUDY)
    return [
        Command([*RUN, *more, "--store", "shared", "--site", f"site{number}"], folder, folder / f"{number}.log")
        for number, more in enumerate(runs)
    ]


def test_runs_that_share_a_store_end_with_the_rows_and_the_one_leaderboard_of_a_run_alone(
    alone: Alone, tmp_path: Path
) -> None:
    commands = shared_by(tmp_path, (), ())
    for command in commands:
        command.wait()
    assert [command.code for command in commands] == [0, 0], [command.log.read_text() for command in commands]
    outputs = [said_by(command.log.read_text()) for command in commands]
    assert [(facts["done"], facts["failed"], facts["headlines"]) for facts in outputs] == [
        (alone.facts["tasks"], {}, alone.facts["headlines"])
    ] * 2
    shared_digests = digests(tmp_path / "shared")
    assert shared_digests
    assert shared_digests == digests(alone.store)
    leaderboards = [read_leaderboard(Store(store), "harness/iqa") for store in (alone.store, tmp_path / "shared")]
    rows = [
        {table.id: [row.label for row in table.rows] for table in leaderboard.tables} for leaderboard in leaderboards
    ]
    assert rows[0] == rows[1]
    assert remains(tmp_path / "shared") == []


def rows(store: Path) -> dict[str, dict[str, list[object]]]:
    """Return the rows of all finished tasks of a store by their keys."""
    contents = {}
    for key, record in Store(store).records():
        assert isinstance(record, TaskRecord), record
        contents[key] = {name: repr(column.tolist()) for name, column in Store(store).rows(record).items()}
    return contents


def test_runs_that_share_a_store_lose_nothing_while_one_computes_everything_anew(alone: Alone, tmp_path: Path) -> None:
    commands, shared = shared_by(tmp_path, (), ("--fresh",)), tmp_path / "shared"
    while not all(command.ended for command in commands):
        assert list(verify(Store(shared))) == []
        time.sleep(0.05)
    assert [command.code for command in commands] == [0, 0], [command.log.read_text() for command in commands]
    assert rows(shared) == rows(alone.store)
    assert list(verify(Store(shared))) == []

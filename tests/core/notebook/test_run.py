"""`imharness.run`: a part of a profile from Python has the tasks, rows and tables of the same command line."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Harness, without_site
from tests.rows_of import files_of

import imharness as ih
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard, read_numbers
from imharness.errors import UsageError
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

# PART and WORDS select the same tasks.
PART = {"track": "perceptual", "metric": ["l2", "mae"], "limit": 3, "workers": 0, "device": "cpu"}
WORDS = (
    "run",
    "--track",
    "perceptual",
    "--metric",
    "l2",
    "--metric",
    "mae",
    "--limit",
    "3",
    "--workers",
    "0",
    "--device",
    "cpu",
)
OF_THE_RUN = {"command": True, "origin": True, "finished": True, "entries": {"__all__": {"seconds"}}}
"""Fields of a leaderboard that differ between two runs of the same tasks."""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory, harness_here) -> Path:
    folder = tmp_path_factory.mktemp("command")
    with without_site():
        result = harness_here(*WORDS, cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("python")


@pytest.fixture(scope="module")
def result(folder: Path) -> ih.Result:
    return ih.run(store=folder / "store", site=folder / "site", progress=False, **PART)


def rows_of(store: Store) -> dict[str, dict[str, bytes | list[Any]]]:
    """Return task -> column -> its numbers as bytes, or its texts, of all tasks of a store."""
    rows_by_task = {}
    for key, record in store.records(list(store.all_keys())):
        assert isinstance(record, TaskRecord)
        assert record.status == "done"
        columns = {**store.rows(record), **store.arrays(record)}
        rows_by_task[key] = {name: v.tolist() if v.dtype == object else v.tobytes() for name, v in columns.items()}
    return rows_by_task


def leaderboard_of(folder: Path) -> Leaderboard:
    leaderboard = read_leaderboard(Store(folder / "store"), "harness/perceptual")
    assert leaderboard is not None
    return leaderboard


def timeless(leaderboard: Leaderboard) -> dict[str, Any]:
    """Return a leaderboard without the times and the command of its run."""
    facts = json.loads(leaderboard.model_dump_json(exclude=OF_THE_RUN))
    for row in (row for table in facts["tables"] for row in table["rows"]):
        row["values"].pop("ms", None)
    return facts


def test_tasks_rows_and_tables_are_those_of_the_command_line(command: Path, folder: Path, result: ih.Result) -> None:
    here, there = Store(folder / "store"), Store(command / "store")
    assert rows_of(here) == rows_of(there)
    assert timeless(leaderboard_of(folder)) == timeless(leaderboard_of(command))
    assert leaderboard_of(folder).command == "imharness.run"
    assert [table.id for table in result.table_list] == [table.id for table in leaderboard_of(command).tables]
    numbers, others = read_numbers(here, leaderboard_of(folder)), read_numbers(there, leaderboard_of(command))
    assert {name: column.tolist() for name, column in numbers.items()} == {k: v.tolist() for k, v in others.items()}


def test_the_result_has_frames_rows_and_pages(folder: Path, result: ih.Result) -> None:
    pytest.importorskip("pandas")
    frame = result.table().to_dataframe()
    assert sorted(label.rpartition("/")[2] for label in result.table().labels) == ["l2", "mae"]
    assert len(frame) == 2
    assert result.failed == {}
    assert set(result.steps) == {
        address.partition(" ")[0] for address in Store(folder / "store").latest("harness/perceptual").tasks
    }
    assert (folder / "site" / "index.html").is_file()


def test_the_same_call_again_computes_nothing(folder: Path, result: ih.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(folder / "store")
    assert before
    times = [file.stat().st_mtime_ns for file in before]
    monkeypatch.setattr("imharness.running.executor.Worker.run", None)
    again = ih.run(store=folder / "store", progress=False, **PART)
    assert [file.stat().st_mtime_ns for file in before] == times
    assert again.table_list == result.table_list


def test_a_script_runs_once_however_many_workers_compute(tmp_path: Path, harness_forked: Harness) -> None:
    """Workers are copies of the process of a script, but do not run the lines of the script again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import imharness as ih\nprint('once')\n"
        "result = ih.run(track='perceptual', metric='l2', limit=2, workers=2, device='cpu', progress=False)\n"
        "print(*result.table().labels)\n"
    )
    code = "import runpy, sys\nrunpy.run_path(sys.argv[1], run_name='__main__')"
    ran = harness_forked("-c", code, str(script), cwd=tmp_path)
    assert ran.stdout.splitlines() == ["once", "harness/l2"], ran.stderr


def test_a_notebook_shows_a_bar(folder: Path, result: ih.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[str] = []

    class Handle:
        update = staticmethod(displayed.append)

    class ZMQInteractiveShell:
        pass

    display = types.SimpleNamespace(HTML=str, display=lambda value, display_id: displayed.append(value) or Handle)
    ipython = types.SimpleNamespace(get_ipython=ZMQInteractiveShell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    ih.run(store=folder / "store", **PART)
    tasks = len(list(Store(folder / "store").all_keys()))
    assert f"{tasks} of {tasks} tasks" in displayed[-2]
    assert displayed[-1] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "embeded"}, "^profile: no profile is called 'embeded'.* embedded"),
        ({"track": []}, "^track: name at least one"),
        ({"track": "perceptal"}, "^track: .*perceptual"),
        ({"track": "iqa", "evaluator": "lira"}, "^evaluator: profile embedded has none to choose from in harness/iqa"),
        ({"track": "perceptual", "metric": ["mae", "!mae"]}, "^metric: harness/mae is both asked for and left out"),
        ({"metric": 3}, "^metric: expected a name or a list of names, got 3"),
        ({"metric": "maee"}, "^metric: .*maee.*mae"),
        ({"track": "iqa", "dataset": str(Path(__file__).parent)}, "^dataset: .* is a folder; write folder:"),
        ({"limit": 0}, "^limit: expected a whole number from 1 or None, got 0"),
        ({"workers": -1}, "^workers: expected a whole number from 0 or None, got -1"),
        ({"device": "gpu"}, "^device: "),
        ({"seed": -1}, "^seed: "),
        ({"fresh": "no"}, "^fresh: "),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        ih.run(**{"store": tmp_path / "store", **arguments})
    assert not (tmp_path / "store").exists()

"""A part of a profile from Python: the same cells, rows and tables as those of the command line."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Harness, without_site

import imharness as ih
from imharness.errors import UsageError
from imharness.results.boards import Board
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

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
OF_THE_RUN = {"command": True, "finished": True, "entries": {"__all__": {"seconds"}}}
"""What tells two runs of the same cells apart."""


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
    """All columns of all cells, numbers to their last bit."""
    found = {}
    for key, record in store.records(list(store.all_keys())):
        assert isinstance(record, TaskRecord)
        assert record.status == "done"
        columns = {**store.rows(record), **store.arrays(record)}
        found[key] = {name: v.tolist() if v.dtype == object else v.tobytes() for name, v in columns.items()}
    return found


def board_of(folder: Path) -> Board:
    board = Store(folder / "store").board("harness/perceptual")
    assert board is not None
    return board


def timeless(board: Board) -> dict[str, Any]:
    """What a board says beside the times of its run."""
    found = json.loads(board.model_dump_json(exclude=OF_THE_RUN))
    for row in (row for table in found["tables"] for row in table["rows"]):
        row["values"].pop("ms", None)
    return found


def test_cells_rows_and_tables_are_those_of_the_command_line(command: Path, folder: Path, result: ih.Result) -> None:
    here, there = Store(folder / "store"), Store(command / "store")
    assert rows_of(here) == rows_of(there)
    assert timeless(board_of(folder)) == timeless(board_of(command))
    assert board_of(folder).command == "imharness.run"
    assert [table.id for table in result.made] == [table.id for table in board_of(command).tables]
    numbers, others = here.numbers(board_of(folder)), there.numbers(board_of(command))
    assert {name: own.tolist() for name, own in numbers.items()} == {k: v.tolist() for k, v in others.items()}


def test_the_result_has_frames_rows_and_pages(folder: Path, result: ih.Result) -> None:
    pytest.importorskip("pandas")
    frame = result.table().to_dataframe()
    assert sorted(label.rpartition("/")[2] for label in result.table().labels) == ["l2", "mae"]
    assert len(frame) == 2
    assert result.failed == {}
    assert set(result.steps) == {
        address.partition(" ")[0] for address in Store(folder / "store").latest("harness/perceptual").cells
    }
    assert (folder / "site" / "index.html").is_file()


def test_the_same_call_again_computes_nothing(folder: Path, result: ih.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted((folder / "store" / "tasks").rglob("*.json"))
    times = [file.stat().st_mtime_ns for file in before]
    monkeypatch.setattr("imharness.running.executor.Worker.run", None)
    again = ih.run(store=folder / "store", progress=False, **PART)
    assert [file.stat().st_mtime_ns for file in before] == times
    assert again.made == result.made


def test_a_script_runs_once_however_many_workers_compute(tmp_path: Path, harness_forked: Harness) -> None:
    """Workers are started as copies of this process; the lines of a script that asks for them are not theirs."""
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
    shown: list[str] = []

    class Handle:
        update = staticmethod(shown.append)

    class ZMQInteractiveShell:
        pass

    display = types.SimpleNamespace(HTML=str, display=lambda value, display_id: shown.append(value) or Handle)
    ipython = types.SimpleNamespace(get_ipython=ZMQInteractiveShell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    ih.run(store=folder / "store", **PART)
    cells = len(list(Store(folder / "store").all_keys()))
    assert f"{cells} of {cells} cells" in shown[-2]
    assert shown[-1] == ""


@pytest.mark.parametrize(
    ("given", "message"),
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
def test_a_wrong_argument_is_named(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        ih.run(**{"store": tmp_path / "store", **given})
    assert not (tmp_path / "store").exists()

"""Who is told of new tables, when, and what happens when that fails."""

import json
import subprocess
import sys
import types
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from tests.core.exports.boards import board
from tests.leaderboard.contested import JPEG

from imharness.components import loading
from imharness.components.loading import load_plugins
from imharness.errors import Unavailable, UsageError
from imharness.exports import listeners
from imharness.exports.listeners import announce, may_listen, open_listeners
from imharness.tracks import Board, hookimpl


class Told:
    """Keeps what it is told; fails if that is wanted."""

    def __init__(self, address: str = "") -> None:
        self.address, self.calls = address, list[tuple[str, tuple[str, ...], str | None]]()

    @hookimpl
    def board_finished(self, store: str, boards: Sequence[Board], release: str | None) -> None:
        self.calls.append((store, tuple(own.track for own in boards), release))
        if self.address == "fail":
            raise RuntimeError("no\nconnection")
        if self.address == "exit":
            raise SystemExit(3)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    """Offer `told` as a destination; return those that were opened."""
    found: list[Told] = []

    def open_listener(address: str) -> Told:
        found.append(Told(address))
        return found[-1]

    point = types.SimpleNamespace(name="told", load=lambda: open_listener)
    points = {listeners.GROUP: [point]}
    metadata = types.SimpleNamespace(entry_points=lambda group: points.get(group, []))
    monkeypatch.setattr(listeners, "importlib", types.SimpleNamespace(metadata=metadata))
    return found


def test_one_that_raises_gives_a_line_and_the_others_are_told(opened: list[Told], monkeypatch) -> None:
    made = board()
    module = types.ModuleType("acme_listener")
    module.calls = []  # type: ignore[attr-defined]

    @hookimpl
    def board_finished(boards: Sequence[Board]) -> None:
        module.calls.append(len(boards))

    module.board_finished = board_finished  # type: ignore[attr-defined]
    monkeypatch.setattr(loading.importlib, "import_module", lambda path: module)
    loaded = load_plugins([EntryPoint("acme", "acme_listener", loading.GROUP)])
    assert not loaded.failures
    monkeypatch.setattr(listeners, "load_plugins", lambda points: loaded)
    wanted, lines = open_listeners(["told:fail", "told:exit", "told:a:b"]), list[str]()
    announce("s", [made], "2026", wanted, lines.append)
    assert [own.calls for own in opened] == [[("s", ("acme/contest",), "2026")]] * 3
    assert opened[2].address == "a:b"
    assert module.calls == [1]
    assert lines == [
        "--log-to told:exit could not take the tables: SystemExit: 3",
        "--log-to told:fail could not take the tables: RuntimeError: no connection",
    ]


def test_plugins_that_cannot_listen_are_not_imported_to_tell_of_tables() -> None:
    code = (
        "import sys; from imharness.exports.listeners import announce; announce('s', [], None, {}, print); "
        "assert 'torch' not in sys.modules; assert 'imharness_iqa' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=400)


def test_a_module_listens_if_its_source_names_the_hook_or_cannot_be_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_silent.py").write_text("1 / 0\n")
    (tmp_path / "acme_ears" / "inner").mkdir(parents=True)
    (tmp_path / "acme_ears" / "__init__.py").write_text("1 / 0\n")
    (tmp_path / "acme_ears" / "inner" / "hook.py").write_text("def board_finished(): ...\n")
    (tmp_path / "acme_edited").mkdir()
    (tmp_path / "acme_edited" / "__init__.py").write_text("1 / 0\n")
    (tmp_path / "acme_edited" / ".#open.py").symlink_to("nobody@nowhere.1")  # as Emacs marks a file that is edited
    names = ("acme_silent", "acme_ears", "acme_ears.inner:x", "acme_absent", "acme_edited")
    assert [may_listen(name) for name in names] == [False, True, True, True, True]


def test_a_wrong_name_names_the_others(opened: list[Told]) -> None:
    with pytest.raises(UsageError, match=r"nothing is called 'tld'\. Did you mean 'told'\? Known: told\."):
        open_listeners(["tld:x"])


def test_a_run_and_a_ranking_tell_once_after_their_tables(opened: list[Told], tmp_path: Path, harness_here) -> None:
    words = ("--track", "perceptual", "--metric", "psnr", "--limit", "4", "--workers", "0")
    ran = harness_here("run", *words, "--log-to", "told:fail", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("could not take the tables") == 1
    assert (tmp_path / "site" / "index.html").is_file()
    assert harness_here("results", "rank", "--log-to", "told:x", cwd=tmp_path).returncode == 0
    assert [own.calls for own in opened] == [[("store", ("harness/perceptual",), None)]] * 2
    refused = harness_here("run", *words, "--fresh", "--log-to", "nowhere", cwd=tmp_path)
    assert refused.returncode == 2


@pytest.mark.parametrize("name", ["mlflow", "wandb", "tensorboard"])
def test_what_is_missing_is_said_before_anything_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unavailable) as caught:
        importlib.import_module(f"imharness_adapters.{name}").open_listener("place")
    assert caught.value.remedy == f"pip install 'image-privacy-harness[{name}]'"


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore")  # of MLflow's own code
def test_mlflow_has_a_run_for_the_board_and_for_each_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    import imharness_adapters.mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    address, made = (tmp_path / "runs").as_uri(), board()
    client = MlflowClient(tracking_uri=address)
    client.create_experiment("acme/contest", artifact_location=(tmp_path / "artifacts").as_uri())
    for _ in range(2):
        imharness_adapters.mlflow.open_listener(address).board_finished("s", [made], "first")
    experiment = client.get_experiment_by_name("acme/contest").experiment_id
    runs = client.search_runs([experiment])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert len(runs) == 2 * (1 + len(made.tables[0].rows))
    assert {run.data.tags["winner"] for run in parents} == {JPEG}
    assert {run.data.tags["release"] for run in parents} == {"first"}
    assert {run.info.status for run in runs} == {"FINISHED"}
    row = next(row for row in made.tables[0].rows if row.label == JPEG)
    own = next(run for run in runs if run.info.run_name == JPEG)
    assert own.data.metrics["worst"] == row.values["worst"].value
    assert own.data.metrics["worst.high"] == row.values["worst"].high
    assert own.data.tags["mlflow.parentRunId"] in {run.info.run_id for run in parents}
    text = (tmp_path / "artifacts").rglob("board.json")
    assert {json.loads(path.read_text())["tables"][0]["id"] for path in text} == {made.tables[0].id}


@pytest.mark.extra
def test_wandb_offline_writes_each_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import imharness_adapters.wandb

    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true", "CACHE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staging"))
    imharness_adapters.wandb.open_listener("project").board_finished("s", [board()], None)
    (table,) = tmp_path.rglob("*.table.json")
    facts = json.loads(table.read_text())
    place = facts["columns"].index("worst")
    row = next(row for row in board().tables[0].rows if row.label == JPEG)
    assert {own[0]: own[place] for own in facts["data"]}[JPEG] == row.values["worst"].value
    assert list(tmp_path.rglob("*.wandb"))
    with pytest.raises(UsageError, match="needs a project"):
        imharness_adapters.wandb.open_listener("")


@pytest.mark.extra
def test_tensorboard_reads_the_numbers_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    import imharness_adapters.tensorboard

    made = board(run_configuration="c" * 64)
    later = board(run_configuration="c" * 64, finished="2026-01-03T03:04:05+00:00")
    for own in (made, later):
        imharness_adapters.tensorboard.open_listener(str(tmp_path)).board_finished("s", [own], None)
    found = EventAccumulator(str(tmp_path / "acme-contest" / ("c" * 12)))
    found.Reload()
    table = made.tables[0]
    row = next(row for row in table.rows if row.label == JPEG)
    scalars = found.Scalars(f"{table.id}/worst/{JPEG}")
    assert [own.value for own in scalars] == pytest.approx([row.values["worst"].value] * 2)
    assert scalars[1].step - scalars[0].step == 24 * 3600

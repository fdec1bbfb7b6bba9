"""Listeners, which receive new tables: who is called, with what, and what is said when one fails.

The packages acme-... lie in tests/packages.
"""

import json
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.core.exports.leaderboards import sample_leaderboard
from tests.forking import WITHOUT_SITE
from tests.leaderboard.contested import JPEG

from imharness.components import loading
from imharness.errors import PluginError, Unavailable, UsageError
from imharness.ranking.listeners import announce, open_listeners
from imharness.tracks import Leaderboard, hookimpl


class Intervals:
    """A listener that records its calls, and raises after that if its address is "fail" or "exit"."""

    def __init__(self, address: str = "") -> None:
        self.address, self.calls = address, list[tuple[str, tuple[str, ...], str | None]]()

    @hookimpl
    def leaderboard_finished(self, store: str, leaderboards: Sequence[Leaderboard], release: str | None) -> None:
        self.calls.append((store, tuple(leaderboard.track for leaderboard in leaderboards), release))
        if self.address == "fail":
            raise RuntimeError("no\nconnection")
        if self.address == "exit":
            raise SystemExit(3)


def destination(monkeypatch: pytest.MonkeyPatch, **modules: types.ModuleType) -> None:
    """Install modules under the entry points ``acme.HOOK``, beside what is installed."""
    points = [EntryPoint(f"acme.{hook}", module.__name__, loading.GROUP) for hook, module in modules.items()]
    for module in modules.values():
        monkeypatch.setitem(sys.modules, module.__name__, module)
    all_points = [*entry_points(group=loading.GROUP), *points]
    monkeypatch.setattr(loading.importlib.metadata, "entry_points", lambda group: all_points)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Intervals]:
    """Offer a destination called told; return the list of its listeners, which grows as they are opened."""
    started_listeners: list[Intervals] = []

    def open_listener(address: str) -> Intervals:
        started_listeners.append(Intervals(address))
        return started_listeners[-1]

    module = types.ModuleType("acme_told")

    @hookimpl
    def listeners() -> dict[str, Callable[[str], object]]:
        return {"told": open_listener}

    module.listeners = listeners  # type: ignore[attr-defined]
    destination(monkeypatch, listeners=module)
    return started_listeners


def test_one_that_raises_gives_a_line_and_the_others_are_told(opened: list[Intervals], monkeypatch) -> None:
    leaderboard, module, calls = sample_leaderboard(), types.ModuleType("acme_listener"), list[int]()
    wanted, lines = open_listeners(["told:fail", "told:exit", "told:a:b"]), list[str]()

    @hookimpl
    def leaderboard_finished(leaderboards: Sequence[Leaderboard]) -> None:
        calls.append(len(leaderboards))

    module.leaderboard_finished = leaderboard_finished  # type: ignore[attr-defined]
    broken = types.ModuleType("acme_deaf")
    destination(monkeypatch, leaderboard_finished=module)
    announce("s", [leaderboard], "2026", wanted, lines.append)
    assert [listener.calls for listener in opened] == [[("s", ("acme/contest",), "2026")]] * 3
    assert opened[2].address == "a:b"
    assert calls == [1]
    assert lines == [
        "--log-to told:exit could not take the tables: SystemExit: 3",
        "--log-to told:fail could not take the tables: RuntimeError: no connection",
    ]
    destination(monkeypatch, leaderboard_finished=broken)
    lines.clear()
    announce("s", [leaderboard], "2026", {}, lines.append)
    assert lines == [
        "unknown:acme_deaf is not called with the tables: does not implement the hook; write a function "
        "leaderboard_finished() and mark it with @hookimpl"
    ]


def test_plugins_that_cannot_listen_are_not_imported_to_tell_of_tables() -> None:
    code = (
        "import sys; from imharness.ranking.listeners import announce; announce('s', [], None, {}, print); "
        "assert 'torch' not in sys.modules; assert 'imharness_iqa' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=400)


def test_a_wrong_name_names_the_others(opened: list[Intervals]) -> None:
    names_pattern = r"Did you mean 'told'\? Known: mlflow, tensorboard, told, wandb\."
    with pytest.raises(UsageError, match=rf"nothing is called 'tld'\. {names_pattern}"):
        open_listeners(["tld:x"])


def test_a_name_of_a_module_that_does_not_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    destination(monkeypatch, listeners=types.ModuleType("acme_told"))
    with pytest.raises(PluginError, match=r"nothing is called 'told'.* unknown:acme_told is left out: does not impl"):
        open_listeners(["told:x"])
    with pytest.raises(UsageError, match="needs a folder"):
        open_listeners(["tensorboard"])


def test_a_name_that_two_packages_offer_is_refused(opened: list[Intervals], monkeypatch: pytest.MonkeyPatch) -> None:
    twin = types.ModuleType("acme_twin_told")

    @hookimpl
    def listeners() -> dict[str, Callable[[str], object]]:
        return {"wandb": Intervals}

    twin.listeners = listeners  # type: ignore[attr-defined]
    destination(monkeypatch, listeners=twin)
    with pytest.raises(PluginError, match=r"--log-to: unknown:acme_twin_told offers 'wandb', which is taken; rename"):
        open_listeners(["wandb:x"])


def test_a_package_from_outside_is_told_of_a_run_and_a_ranking(tmp_path: Path, harness_forked) -> None:
    words = ("--track", "perceptual", "--metric", "psnr", "--limit", "4", "--workers", "0")
    ran = harness_forked(
        "-c", WITHOUT_SITE, "run", *words, "--log-to", "lines:told.jsonl", cwd=tmp_path, packages=("acme-hooks",)
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads((tmp_path / "told.jsonl").read_text()) == {
        "store": "store",
        "track": "harness/perceptual",
        "release": None,
    }
    assert (tmp_path / "store.told").read_text() == "1"
    words = ("results", "rank", "--log-to", "lines:nowhere/told.jsonl")
    ranked = harness_forked(*words, cwd=tmp_path, packages=("acme-hooks",))
    assert ranked.returncode == 0, ranked.stderr
    assert ranked.stderr.count("--log-to lines:nowhere/told.jsonl could not take the tables: FileNotFoundError") == 1
    refused = harness_forked("results", "rank", "--log-to", "lines", cwd=tmp_path, packages=("acme-hooks",))
    assert refused.returncode == 2
    assert "usage: --log-to lines needs a file: lines:FILE." in refused.stderr


@pytest.mark.parametrize("name", ["mlflow", "wandb", "tensorboard"])
def test_what_is_missing_is_said_before_anything_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Unavailable) as caught:
        importlib.import_module(f"imharness_adapters.{name}").open_listener("place")
    assert caught.value.remedy == f"pip install 'image-privacy-harness[{name}]'"


def test_wandb_is_told_what_every_ranking_says() -> None:
    from imharness_adapters.wandb import Listener

    leaderboard = sample_leaderboard()
    (ranking,) = leaderboard.rankings
    second = ranking.model_copy(update={"table": "second", "winner": "", "claim": "No winner."})
    wandb = MagicMock()
    Listener(wandb, "project").leaderboard_finished(
        "s", [leaderboard.model_copy(update={"rankings": (ranking, second)})], None
    )
    updates = wandb.init.return_value.__enter__.return_value.summary.update.call_args_list
    summaries = {name: fact for call in updates for name, fact in call.args[0].items() if "/" in name}
    assert summaries == {
        f"{ranking.table}/winner": JPEG,
        f"{ranking.table}/claim": ranking.claim,
        "second/winner": "",
        "second/claim": "No winner.",
    }


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore")  # of MLflow's own code
def test_mlflow_has_a_run_for_the_leaderboard_and_for_each_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    import imharness_adapters.mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    address, leaderboard = (tmp_path / "runs").as_uri(), sample_leaderboard()
    client = MlflowClient(tracking_uri=address)
    client.create_experiment("acme/contest", artifact_location=(tmp_path / "artifacts").as_uri())
    for _ in range(2):
        imharness_adapters.mlflow.open_listener(address).leaderboard_finished("s", [leaderboard], "first")
    experiment = client.get_experiment_by_name("acme/contest").experiment_id
    runs = client.search_runs([experiment])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert len(runs) == 2 * (1 + len(leaderboard.tables[0].rows))
    (ranking,) = leaderboard.rankings
    assert {run.data.tags[f"{ranking.table}.winner"] for run in parents} == {JPEG}
    assert {run.data.tags[f"{ranking.table}.claim"] for run in parents} == {ranking.claim}
    assert {run.data.tags["release"] for run in parents} == {"first"}
    assert {run.info.status for run in runs} == {"FINISHED"}
    row = next(row for row in leaderboard.tables[0].rows if row.label == JPEG)
    entry_run = next(run for run in runs if run.info.run_name == JPEG)
    assert entry_run.data.metrics["worst"] == row.values["worst"].value
    assert entry_run.data.metrics["worst.high"] == row.values["worst"].high
    assert entry_run.data.tags["mlflow.parentRunId"] in {run.info.run_id for run in parents}
    text = (tmp_path / "artifacts").rglob("leaderboard.json")
    assert {json.loads(path.read_text())["tables"][0]["id"] for path in text} == {leaderboard.tables[0].id}


@pytest.mark.extra
def test_wandb_offline_writes_each_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import imharness_adapters.wandb

    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true", "CACHE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staging"))
    imharness_adapters.wandb.open_listener("project").leaderboard_finished("s", [sample_leaderboard()], None)
    (table,) = tmp_path.rglob("*.table.json")
    facts = json.loads(table.read_text())
    index = facts["columns"].index("worst")
    row = next(row for row in sample_leaderboard().tables[0].rows if row.label == JPEG)
    assert {row_values[0]: row_values[index] for row_values in facts["data"]}[JPEG] == row.values["worst"].value
    assert list(tmp_path.rglob("*.wandb"))
    with pytest.raises(UsageError, match="needs a project"):
        imharness_adapters.wandb.open_listener("")


@pytest.mark.extra
def test_tensorboard_reads_the_numbers_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    import imharness_adapters.tensorboard

    earlier = sample_leaderboard(run_configuration="c" * 64)
    later = sample_leaderboard(run_configuration="c" * 64, finished="2026-01-03T03:04:05+00:00")
    for leaderboard in (earlier, later):
        imharness_adapters.tensorboard.open_listener(str(tmp_path)).leaderboard_finished("s", [leaderboard], None)
    events = EventAccumulator(str(tmp_path / "acme-contest" / ("c" * 12)))
    events.Reload()
    table = earlier.tables[0]
    row = next(row for row in table.rows if row.label == JPEG)
    scalars = events.Scalars(f"{table.id}/worst/{JPEG}")
    assert [scalar.value for scalar in scalars] == pytest.approx([row.values["worst"].value] * 2)
    assert scalars[1].step - scalars[0].step == 24 * 3600

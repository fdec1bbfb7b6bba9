"""Executors: every one gives the same rows, one from outside needs no change inside, and workers are prepared."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from tests.rows_of import rows_of

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.errors import PluginError, UsageError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running import executor
from imharness.running.executor import Preparation, find_executor, open_executor
from imharness.running.sweep import RunResult, execute
from imharness.tracks import Info, Planner, Query, Selection, StepContext, StepResult, Track, TrackReport, step

BATCH = 4


@pytest.fixture(scope="module")
def graph() -> Graph:
    only = {
        "attack": ["square[queries=20]"],
        "metric": ["embedded-cnn"],
        "defense": ["none", "random-noise"],
        "dataset": ["harness/severity-ladder[severities=[3],size=48]"],
    }
    return plan_track("harness/iqa", load_profile("embedded"), installed(), only=only, limit=3)


def run(graph: Graph, folder: Path, **settings: Any) -> tuple[RunResult, dict[str, str]]:
    store = Store(folder)
    outcome = execute([graph], store, lambda: open_executor(store.root, devices=["cpu"], batch_size=BATCH, **settings))
    return outcome, rows_of(folder)


def test_every_executor_gives_the_same_bytes(graph: Graph, tmp_path: Path, install_packages) -> None:
    install_packages("acme-executor")
    whole, expected = run(graph, tmp_path / "local", workers=2)
    assert whole.done == set(graph.tasks)
    assert len(expected) > 3
    for name, settings in {
        "outside": {"name": "threads", "workers": 2, "settings": {"thread_name": "own"}},
        "here": {"name": "in-process"},
        "none": {"name": "threads", "workers": 0},
    }.items():
        outcome, rows = run(graph, tmp_path / name, **settings)
        assert not outcome.failed
        assert rows == expected, name


def test_the_command_line_takes_an_executor_from_outside(
    tmp_path: Path, harness_here, no_site: None, install_packages
) -> None:
    install_packages("acme-executor")
    words = ["run", "--track", "perceptual", "--dataset", "harness/severity-ladder[size=192]", "--metric", "mse",
             "--attack", "square", "--limit", "3", "--device", "cpu", "--executor"]  # fmt: skip
    result = harness_here(*words, "threads", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    unknown = harness_here(*words, "thread", cwd=tmp_path)
    assert unknown.returncode == 2
    (line,) = unknown.stderr.strip().splitlines()
    assert line == (
        "usage: no executor is called 'thread'. Did you mean 'threads'? Known: in-process, local, ray, threads."
    )


def test_its_settings_are_options_and_a_help_text_imports_no_torch(tmp_path: Path, harness, install_packages) -> None:
    install_packages("acme-executor")
    code = (
        "import sys; from imharness.cli.run import run; print(run.get_help(run.make_context('run', [], "
        "resilient_parsing=True))); loaded = {'torch', 'ray', 'acme_threads', 'imharness_iqa'} & set(sys.modules); "
        "assert not loaded, loaded"
    )
    paths = os.pathsep.join(map(str, sys.path))
    process = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": paths}, capture_output=True)
    assert process.returncode == 0, process.stderr
    assert b"(--executor threads)" in process.stdout
    assert b"--thread-name" in process.stdout


def test_an_executor_that_offers_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        executor.importlib.metadata,
        "entry_points",
        lambda group, name="": [EntryPoint("odd", "imharness.errors:HarnessError", group)],
    )
    with pytest.raises(PluginError, match=r"executor odd \(imharness.errors:HarnessError\) has no attribute settings"):
        find_executor("odd")


def test_an_executor_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = tmp_path / "acme_gone-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-gone\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[imharness.executors]\ngone = acme_gone:Executor\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError, match=r"executor gone \(acme_gone:Executor\) cannot be loaded: No module"):
        find_executor("gone")
    with pytest.raises(UsageError, match="Known: gone, in-process, local, ray"):
        find_executor("nonesuch")


@step(version="1")
def first(context: StepContext) -> StepResult:
    return StepResult(rows={"name": ["a"], "number": [1.0]})


@step(version="1")
def second(context: StepContext) -> StepResult:
    return StepResult(rows={"name": ["a"], "number": context.need("first").rows["number"] + 1})


class Counting(Track):
    """Two tasks that write down a number; the second needs the first."""

    info = Info(id="acme/counting", version="1")
    title = "Counting"
    measures = "Nothing."
    steps = (first, second)

    def plan(self, planner: Planner, selection: Selection) -> None:
        planner.task(second, needs={"first": planner.task(first)})

    def report(self, query: Query) -> TrackReport:
        return TrackReport()


ENTRY = Registered(Counting(), "acme", Provenance("acme", "1"))


def prepare(facts: Mapping[str, Any]) -> Preparation:
    """Bring the track, and write down what happens."""
    log = Path(facts["log"])

    def end_task(failed: bool) -> list[str]:
        return [facts["note"]]

    return Preparation([ENTRY], end_task, lambda: log.write_text("closed"))


def test_a_worker_is_prepared_by_a_function_it_is_told(tmp_path: Path) -> None:
    profile = Profile(name="tiny", description="", tracks={"acme/counting": TrackProfile(select={})})
    graph = plan_track("acme/counting", profile, installed().joined([ENTRY]))
    settings = {"log": str(tmp_path / "log"), "note": "was here"}
    outcome, rows = run(graph, tmp_path / "store", workers=0, prepare=[(f"{__name__}:prepare", settings)])
    assert len(outcome.done) == len(rows) == 2, outcome.failed
    records = [Store(tmp_path / "store").record(key) for key in outcome.done]
    assert [record.notes for record in records if record is not None] == [("was here",)] * 2
    needed, needing = sorted((record for record in records if record is not None), key=lambda r: len(r.spec.needs))
    assert (needed.read, needing.read) == ({}, {"first": needed.outcome}), "it keeps which result it was made from"
    assert (tmp_path / "log").read_text() == "closed"


@step(version="1")
def telling(context: StepContext) -> StepResult:
    for _ in range(2):
        context.progress(1, 4)
    context.progress(9, 4)  # more than the whole
    context.progress(0, 0)
    return StepResult(rows={"x": [1.0]})


class Telling(Counting):
    steps = (telling,)
    info = Info(id="acme/telling", version="1")

    def plan(self, planner: Planner, selection: Selection) -> None:
        planner.task(telling)


def tell(facts: Mapping[str, Any]) -> Preparation:
    return Preparation(components=[Registered(Telling(), "acme", Provenance("acme", "1"))])


def test_a_worker_passes_on_which_share_of_a_task_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SHARE_S", 0.0)
    registry = installed().joined([Registered(Telling(), "acme", Provenance("acme", "1"))])
    profile = Profile(name="p", description="", tracks={"acme/telling": TrackProfile(select={})})
    (task,) = plan_track("acme/telling", profile, registry).tasks.values()
    config = executor.WorkerConfig(str(tmp_path), "cpu", 1, ((f"{__name__}:tell", {}),))
    shares = list[float]()
    result = executor.Worker(config).run(task.key, task.spec, shares.append)
    assert (result.status, shares) == ("done", [0.25, 0.25])

"""The executor on Ray, with several nodes on this machine: whatever happens, rows are those of a local run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import install
from tests.plugins.ray.naps import naps
from tests.rows_of import rows_of

from imharness.components.registry import installed
from imharness.errors import HarnessError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running.executor import Executor, TaskResult, open_executor
from imharness.running.schedule.sharding import Sharded
from imharness.running.sweep import RunResult, execute
from imharness_ray.parity import facts

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

OTHER_TRACKS = """
name = "tiny"
description = "Two tracks beside iqa."
[tracks."harness/membership"]
select = { dataset = ["harness/digits"], model = ["harness/mlp"], defense = ["plain-training"], \
evaluator = ["confidence"] }
options = { splits = 1, part = 40, epochs = 2, references = 3, copies = 1 }
parameters."harness/mlp" = { hidden = [16] }
[tracks."harness/reconstruction"]
select = { dataset = ["harness/thumbnails[size=20]"], model = ["harness/convnet8"], attack = ["invgrad"], \
defense = ["plain-gradient"], metric = ["psnr"] }
options = { epochs = 1, batch_size = 64, learning_rate = 0.05, judge = "harness/convnet8[width=2]" }
parameters."harness/convnet8" = { width = 2 }
parameters."harness/invgrad" = { steps = 8 }
"""
NAPS = "tests.plugins.ray.naps:prepare"
NODE = {"num_cpus": 1, "memory": 2_000_000_000, "object_store_memory": 80_000_000, "include_log_monitor": False}
STARTS, WAIT_S, BATCH = 5, 900.0, 2
"""Attempts to start a node, for each of which Ray allows 30 s; the longest wait for anything, s; images in a batch."""
Rows = dict[str, str]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Install a package of a stranger for this process and for the nodes that it starts."""
    folder = install(tmp_path_factory.mktemp("site"), "acme-median-smoothing")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("HARNESS_TEST_RAY", str(folder))
        installed.cache_clear()
        yield folder
    installed.cache_clear()


@pytest.fixture(scope="module")
def cluster(plugin: Path) -> Iterator[Any]:
    """One node with one core, to which tests add others."""
    from ray.cluster_utils import Cluster

    import imharness_ray.cluster  # noqa: F401  (sets what Ray reads when it is imported)

    head = {**NODE, "include_dashboard": False}
    ray_cluster = tried(lambda: Cluster(initialize_head=True, head_node_args=head))
    yield ray_cluster
    ray_cluster.shutdown()


def tried(start: Callable[[], Any]) -> Any:
    """Start a node, again where the machine was too busy for what Ray allows."""
    for tries in reversed(range(STARTS)):
        try:
            return start()
        except Exception:  # Ray raises the base class itself
            if not tries:
                raise
    raise AssertionError


def alone(graphs: Sequence[Graph], folder: Path) -> Rows:
    """Return the rows of a run in this process."""
    start = lambda: open_executor(folder, devices=["cpu"], workers=0, batch_size=BATCH, prepare=[(NAPS, {})])  # noqa: E731
    assert not execute(graphs, Store(folder), start).failed
    return rows_of(folder)


def on_ray(cluster: Any, folder: Path, log: Path, limit: float = WAIT_S) -> Executor:
    settings = {"ray_address": cluster.address, "memory_per_worker": 0.4}
    prepare = [(NAPS, {"log": str(log)})]
    return open_executor(
        folder, name="ray", devices=["cpu"], batch_size=BATCH, prepare=prepare, settings=settings, time_limit_s=limit
    )


def run_on_ray(
    cluster: Any,
    graphs: Sequence[Graph],
    folder: Path,
    log: Path,
    watch: Callable[[int], None] = lambda done: None,
    limit: float = WAIT_S,
    split: Callable[[str], int] = lambda key: 1,
) -> tuple[RunResult, Rows]:
    """Return the outcome and the rows of a run on the cluster.

    Workers write to `log`; `watch` gets the number of tasks that have ended; `split` says into how many shards a task
    is cut.
    """
    log.mkdir()
    Store(folder).prepare()
    start = lambda: Sharded(on_ray(cluster, folder, log, limit), split, Store(folder))  # noqa: E731
    observer = lambda ended, running: watch(len(ended.done) + len(ended.failed))  # noqa: E731
    outcome = execute(graphs, Store(folder), start, watch=observer)
    return outcome, rows_of(folder)


def workers(log: Path) -> list[dict[str, Any]]:
    """Return what workers wrote down, in the order in which they started."""
    return [json.loads(path.read_text()) for path in sorted(log.glob("*.json"), key=lambda path: path.stat().st_mtime)]


def once(after: int, act: Callable[[], None]) -> Callable[[int], None]:
    """Return a watch that acts when so many tasks are done."""
    waiting = [act]
    return lambda done: waiting.pop()() if done >= after and waiting else None


def test_every_track_gives_the_rows_of_a_local_run(cluster: Any, tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(OTHER_TRACKS)
    tiny, registry = load_profile(str(path)), installed()
    only = {
        "attack": ["square[queries=20]", "reversal-square"],
        "metric": ["embedded-cnn"],
        "defense": ["none", "acme/median-smoothing"],
        "dataset": ["harness/severity-ladder[severities=[3],size=48]"],
    }
    graphs = [plan_track("harness/iqa", load_profile("embedded"), registry, only=only, limit=3)]
    graphs += [plan_track(name, tiny, registry, limit=4) for name in tiny.tracks]
    shared = {key for graph in graphs for key, task in graph.tasks.items() if graph.track.step(task.spec.step).shared}
    split = lambda key: 2 if key in shared else 1  # noqa: E731
    outcome, rows = run_on_ray(cluster, graphs, tmp_path / "ray", tmp_path / "log", split=split)
    assert not outcome.failed
    assert len(rows) > 10
    assert len(shared) > 10
    assert rows == alone(graphs, tmp_path / "alone")
    (worker,) = workers(tmp_path / "log")
    assert (worker["environment"], worker["torch"]) == ("1", 1)
    assert sorted(Store(tmp_path / "ray").all_keys()) == sorted(Store(tmp_path / "alone").all_keys())


def test_a_killed_worker_and_one_that_takes_too_long_cost_no_row(cluster: Any, tmp_path: Path) -> None:
    """The last nap waits until a worker has been killed, so that the run cannot end before."""
    killed, store, log = tmp_path / "killed", tmp_path / "ray", tmp_path / "log"
    graph = naps(1000.0, *[0.2] * 8, until=str(killed), position=8)

    def watch(done: int) -> None:
        if len(rows_of(store)) >= 3 and not killed.exists():
            os.kill(workers(log)[-1]["pid"], signal.SIGKILL)
            killed.touch()

    outcome, rows = run_on_ray(cluster, [graph], store, log, watch, limit=20)
    ((key, late),) = outcome.failed.items()
    assert late == "took longer than the time limit of 20 s"
    assert len(workers(log)) >= 3
    others = replace(graph, tasks={other: task for other, task in graph.tasks.items() if other != key})
    assert rows == alone([others], tmp_path / "alone")


def test_a_node_that_comes_is_used_and_one_that_goes_while_busy_costs_no_row(cluster: Any, tmp_path: Path) -> None:
    """The first node is busy until the second has gone, so that the second has work whenever it comes."""
    gone, log, node = tmp_path / "gone", tmp_path / "log", []
    graph = naps(*[0.5] * 16, until=str(gone))
    come = once(0, lambda: node.append(tried(lambda: cluster.add_node(**NODE))))

    def watch(done: int) -> None:
        if workers(log):
            come(done)
        if done and node and any(worker["node"] == node[0].node_id for worker in workers(log)):
            done_counts.append(done)
            if len(done_counts) == 6:
                cluster.remove_node(node[0], allow_graceful=False)
                gone.touch()

    done_counts: list[int] = []
    outcome, rows = run_on_ray(cluster, [graph], tmp_path / "ray", log, watch)
    assert len(done_counts) > 6
    assert not outcome.failed
    assert rows == alone([graph], tmp_path / "alone")


def test_without_a_node_that_is_alike_the_run_says_why(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imharness_ray.executor.facts", lambda names: {**facts(names), "torch": "0.1"})
    with pytest.raises(HarnessError, match=r"no node of the cluster can compute: .*: torch is .* there and 0\.1 here"):
        run_on_ray(cluster, [naps(0.1)], tmp_path / "ray", tmp_path / "log")
    assert list(Store(tmp_path / "ray").all_keys()) == []


@contextmanager
def hiding(cluster: Any, folder: Path) -> Iterator[None]:
    """Let a node join to which this folder looks empty, as it does on another machine."""
    ray = str(Path(sys.executable).with_name("ray"))
    command = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(folder), "--die-with-parent", ray, "start", "--block"]
    command += ["--num-cpus=1", "--memory=2000000000", "--object-store-memory=80000000", "--resources", '{"hidden": 1}']
    command += [f"--address={cluster.address}"]
    start = lambda: subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: E731
    node, until = start(), time.monotonic() + WAIT_S
    try:
        while not any(node["Alive"] and "hidden" in node["Resources"] for node in cluster.global_state.node_table()):
            assert time.monotonic() < until, "the node did not come"
            if node.poll() is not None:
                node = start()
            time.sleep(0.3)
        yield
    finally:
        node.kill()
        node.wait()


def test_nodes_that_differ_are_named_with_what_differs_and_take_no_part(
    cluster: Any, plugin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer, store, log = tmp_path / "newer", tmp_path / "ray", tmp_path / "log"
    shutil.copytree(plugin, newer)
    (facts,) = newer.glob("*.dist-info/METADATA")
    facts.write_text(facts.read_text().replace("Version: 0.1.0", "Version: 0.2.0"))
    store.mkdir()
    log.mkdir()
    strange = [{**NODE, "env_vars": {"PYTHONPATH": path}} for path in (str(newer), "")]
    nodes = [tried(lambda node_options=options: cluster.add_node(**node_options)) for options in strange]
    named = tmp_path / "named"
    tasks, finished, printed = naps(*[0.5] * 8, until=str(named)).tasks, list[TaskResult](), ""
    with hiding(cluster, store):
        executor, until = on_ray(cluster, store, log, WAIT_S), time.monotonic() + WAIT_S
        for key, task in tasks.items():
            executor.submit(key, task.spec)
        while (len(finished) < 8 or printed.count("is left out") < 3) and time.monotonic() < until:
            finished += executor.reports(0.2)
            printed += capsys.readouterr().err
            if printed.count("is left out") == 3:
                named.touch()  # only now there is no more work, for which workers are started
        executor.close()
    for node in nodes:
        cluster.remove_node(node)
    assert printed.count("is left out: ") == 3
    assert "is left out: acme-median-smoothing is 0.2.0 there and 0.1.0 here" in printed
    assert "is left out: acme-median-smoothing is missing there" in printed
    assert f"is left out: the store {store} is a different one there: what this run wrote is not in it" in printed
    assert {(result.key, result.status) for result in finished} == {(key, "done") for key in tasks}
    assert len(workers(log)) == 1
    assert sorted(Store(store).all_keys()) == sorted(tasks)

"""The sweep: order, retries, failures that stay where they belong."""

import pytest

from imharness.components.registry import installed
from imharness.errors import StoreError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running.executor import TaskResult
from imharness.running.sweep import execute


class Scripted:
    """An executor whose tasks end as `answers` says: step -> (status, line) of each try; all others are done."""

    def __init__(self, store: Store, answers: dict[str, list[tuple[str, str]]]) -> None:
        self.answers, self.order, self.pending = answers, [], []
        self.closed = False

    @property
    def idle(self) -> int:
        return 2 - len(self.pending)

    def submit(self, key: str, spec: TaskSpec) -> None:
        self.order.append(key)
        self.pending.append((key, spec))

    def reports(self, seconds: float):
        key, spec = self.pending.pop(0)
        script = self.answers.get(spec.step, [])
        yield TaskResult(key, *(script.pop(0) if script else ("done", "")))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def graph() -> Graph:
    only = {"attack": ["uap"], "metric": ["embedded-cnn"], "defense": ["none"]}
    return plan_track("harness/iqa", load_profile("embedded"), installed(), only=only)


def run(graph: Graph, tmp_path, **answers):
    store = Store(tmp_path)
    executor = Scripted(store, answers)
    return execute([graph], store, lambda: executor), executor


def test_needs_come_first_and_everything_runs_once(graph: Graph, tmp_path) -> None:
    outcome, executor = run(graph, tmp_path)
    assert outcome.done == set(graph.tasks)
    assert len(executor.order) == len(set(executor.order)) == len(graph.tasks)
    for position, key in enumerate(executor.order):
        assert set(graph.tasks[key].spec.needs.values()) <= set(executor.order[:position])
    assert executor.closed


def test_a_task_whose_worker_died_is_tried_once_more(graph: Graph, tmp_path) -> None:
    outcome, executor = run(graph, tmp_path, fit=[("died", "the worker ended with code -9")])
    assert outcome.done == set(graph.tasks)
    assert len(executor.order) == len(graph.tasks) + 1


def test_the_second_death_is_a_failure_and_takes_only_dependents_along(graph: Graph, tmp_path) -> None:
    outcome, _ = run(graph, tmp_path, fit=[("died", "code -9"), ("died", "code -9")])
    steps = {graph.tasks[key].spec.step for key in outcome.failed}
    assert steps == {"fit", "attack", "evaluate"}
    others = {"purify", "clean", "defended", "graded", "unaware", "audit"}
    assert {graph.tasks[key].spec.step for key in outcome.done} == others
    lines = [line for key, line in outcome.failed.items() if graph.tasks[key].spec.step == "evaluate"]
    assert all("needs a task that failed" in line and "code -9" in line for line in lines)


def test_a_store_that_fails_stops_the_run_and_ends_the_workers(graph: Graph, tmp_path) -> None:
    store = Store(tmp_path)
    executor = Scripted(store, {"clean": [("store", "the disk is full")]})
    with pytest.raises(StoreError, match="disk is full"):
        execute([graph], store, lambda: executor)
    assert executor.closed

"""Logs of tasks: what is said is kept, bounded and harmless, also of tasks that fail, die or run."""

import importlib
import logging
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.core.running.test_executors import Counting, run

from imharness.cli import cli
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.store import Store
from imharness.running import logs
from imharness.running.executor import Preparation
from imharness.running.logs import FIRST, LAST, Lines, keeping, keys_of_logs, log_of, log_output
from imharness.running.schedule.state import Busy, Part, new_state
from imharness.tracks import Info, Planner, Selection, StepContext, StepResult, step


@step(version="1")
def silent(context: StepContext) -> StepResult:
    return StepResult(rows={"name": ["a"], "number": [1.0]})


@step(version="1")
def talks(context: StepContext) -> StepResult:
    sys.stdout.write("printed \x1b[31mred\x1b[0m \x1b]0;title\x07\r50 %\r100 %\n")
    logging.getLogger("acme").warning("logged")
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("warned", UserWarning, stacklevel=1)
    return StepResult(rows={"name": ["a"], "number": [1.0]})


@step(version="1")
def fails(context: StepContext) -> StepResult:
    sys.stderr.write("about to fail\n")
    raise ValueError("it is bad")


class Talking(Counting):
    """A task that says nothing, one that says something and one that fails."""

    info = Info(id="acme/talking", version="1")
    steps = (silent, talks, fails)

    def plan(self, planner: Planner, selection: Selection) -> None:
        for function in (silent, talks, fails):
            planner.task(function)


ENTRY = Registered(Talking(), "acme", Provenance("acme", "1"))


def prepare(facts: object) -> Preparation:
    return Preparation([ENTRY])


def planned(entry: Registered) -> Graph:
    track = entry.component.info.id
    profile = Profile(name="tiny", description="", tracks={track: TrackProfile(select={})})
    return plan_track(track, profile, installed().joined([entry]))


def key_of(graph: Graph, name: str) -> str:
    return next(key for key, task in graph.tasks.items() if task.spec.step == name)


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Graph]:
    folder, graph = tmp_path_factory.mktemp("talked"), planned(ENTRY)
    run(graph, folder, workers=0, prepare=[(f"{__name__}:prepare", {})])
    return Store(folder), graph


def shown_log(store: Store, key: str) -> str:
    result = CliRunner().invoke(cli, ["results", "show", key[:12], "--store", store.address])
    assert result.exit_code == 0, result.output
    return result.output


def test_what_a_task_says_is_shown_with_its_result(talked: tuple[Store, Graph]) -> None:
    store, graph = talked
    output = shown_log(store, key_of(graph, "talks"))
    for phrase in ("printed red", "100 %", "WARNING acme: logged", "UserWarning: warned"):
        assert phrase in output
    assert "\x1b" not in output
    assert "\x07" not in output
    assert "\r" not in output


def test_a_failed_task_shows_its_log_and_its_traceback(talked: tuple[Store, Graph]) -> None:
    store, graph = talked
    output = shown_log(store, key_of(graph, "fails"))
    assert output.index('raise ValueError("it is bad")') < output.index("about to fail")


def test_a_task_that_says_nothing_leaves_no_log(talked: tuple[Store, Graph]) -> None:
    store, graph = talked
    assert log_of(store, key_of(graph, "silent")) is None
    assert keys_of_logs(store, "") == sorted([key_of(graph, "talks"), key_of(graph, "fails")])


def test_rows_and_records_know_nothing_of_logs(talked: tuple[Store, Graph]) -> None:
    store, graph = talked
    records = [store.record(key_of(graph, name)) for name in ("silent", "talks")]
    assert records[0] is not None
    assert records[1] is not None
    assert records[0].rows == records[1].rows != ""
    assert "printed" not in records[1].model_dump_json()


def test_a_worker_that_dies_leaves_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    graph = planned(importlib.import_module("dying").ENTRY)
    outcome, _ = run(graph, tmp_path, workers=1, prepare=[("dying:prepare", {})])
    (key,) = graph.tasks
    assert outcome.failed == {key: "the worker ended with code 7"}
    output = shown_log(Store(tmp_path), key)
    assert "no result; its worker ended" in output
    assert output.rstrip().endswith("last words")


def test_a_running_task_is_shown_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "EVERY_S", 0.01)
    store, key = Store(tmp_path), "ab" * 32
    state = new_state("harness run --all", {"a/t": Part(done=0, total=1)}, 0)
    busy = Busy(track="a/t", task="attack cnn uap", seconds=12.4, key=key)
    state.model_copy(update={"running": (busy,)}).save(store)
    with keeping(store, key):
        sys.stdout.write("half way\n")
        while log_of(store, key) is None:
            time.sleep(0.01)
        output = shown_log(store, key)
    assert "running for 12 s in the run of" in output
    assert "half way" in output
    status = CliRunner().invoke(cli, ["status", "--store", store.address]).output
    assert key[:12] in status


def test_a_log_of_an_earlier_try_is_not_shown_with_a_later_result(talked: tuple[Store, Graph]) -> None:
    store, graph = talked
    key = key_of(graph, "silent")
    early = {"started": "2020-01-01T00:00:00+00:00", "updated": "2020-01-01T00:00:01+00:00"}
    store.replace(logs._file(key), logs.TaskLog(key=key, host="h", pid=1, text="old", **early))
    assert "old" not in shown_log(store, key)
    late = {"started": "2999-01-01T00:00:00+00:00", "updated": "2999-01-01T00:00:01+00:00"}
    store.replace(logs._file(key), logs.TaskLog(key=key, host="h", pid=1, text="new", **late))
    assert "log of a later attempt, which has no result" in shown_log(store, key)
    Path(store.root, logs._file(key)).unlink()


def test_a_long_log_keeps_its_beginning_and_its_end() -> None:
    for size in (7, 1000, 200_000):
        lines = Lines()
        whole = "".join(f"{i:06d}," for i in range(60_000))
        for start in range(0, len(whole), size):
            lines.add(whole[start : start + size])
        text = str(lines)
        assert len(text) <= FIRST + LAST + size + 100
        assert text.startswith(whole[:FIRST])
        assert text.endswith(whole[-LAST:])
        assert f"{lines.dropped:,} characters are left out" in text


def test_what_other_threads_say_is_not_in_the_log(tmp_path: Path) -> None:
    store, go, over = Store(tmp_path), threading.Event(), threading.Event()

    def other() -> None:
        go.wait()
        sys.stdout.write("of somebody else\n")
        over.set()

    threading.Thread(target=other).start()
    with keeping(store, "k"):
        go.set()
        over.wait()
        other_thread = threading.Thread(target=lambda: sys.stdout.write("of its own thread\n"))
        other_thread.start()
        other_thread.join()
        log_output("of a guest \ud800\u202e\n")
    log = log_of(store, "k")
    assert log is not None
    assert log.text == "of its own thread\nof a guest   \n"


def test_a_store_that_takes_no_log_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder")
    done = []
    with keeping(Store(tmp_path), "k"):
        sys.stdout.write("words\n")
        done.append("all")
    assert done == ["all"]
    assert (tmp_path / "logs").read_text() == "no folder"

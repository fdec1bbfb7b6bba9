"""A run that is watched: its lines, its states in the store, `harness status`, and tables that are made meanwhile."""

import json
import math
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from tests.core.running.schedule.test_times import stored, task

from imharness.cli import cli, console
from imharness.cli.progress import line_of
from imharness.documents.tables import ColumnSpec, Row, Table
from imharness.errors import HarnessError, StoreError
from imharness.planning.plan import Graph, Task
from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running import publishing, views
from imharness.running.executor import TaskResult
from imharness.running.publishing import TablesMeanwhile
from imharness.running.schedule.estimates import Times, learnt_times
from imharness.running.schedule.state import Busy, Part, RunState, new_state, run_states
from imharness.running.sweep import RunResult, execute
from imharness.running.views import Nothing
from imharness.running.watching import RunWatch


class Recording(Nothing):
    """Keeps every state it is shown."""

    every_s = 0.0

    def __init__(self) -> None:
        self.states: list[RunState] = []

    def show(self, state: RunState) -> None:
        self.states.append(state)


class Storing:
    """An executor that stores a record for each task, one after the other; a metric "a/bad" fails."""

    def __init__(self, store: Store, stop_at: int = -1) -> None:
        self.store, self.order, self.stop_at = store, list[str](), stop_at
        self.pending: list[Task] = []

    @property
    def idle(self) -> int:
        return 2 - len(self.pending)

    def submit(self, key, spec) -> None:
        if len(self.order) == self.stop_at:
            raise KeyboardInterrupt
        self.order.append(key)
        self.pending.append(Task(key, key, spec))

    def reports(self, seconds: float):
        item = self.pending.pop(0)
        if any(ref.id == "a/bad" for ref in item.spec.components.values()):
            yield TaskResult(item.key, "failed", "it is bad")
            return
        stored(self.store, item, 2.0)
        yield TaskResult(item.key, "done")

    def close(self) -> None:
        pass


def graph(track: str = "a/t", count: int = 10, bad: int = 0) -> Graph:
    tasks = [task("clean", f"metric:a/m{i}") for i in range(count)] + [task("clean", "metric:a/bad")] * bad
    result = Graph(SimpleNamespace(info=SimpleNamespace(id=track), steps=()), "configuration")  # type: ignore[arg-type]
    result.tasks = {item.key: item for item in tasks}
    return result


def watched(store: Store, run_graph: Graph, **settings) -> tuple[RunResult, Recording]:
    view = Recording()
    with RunWatch([run_graph], store, view, Times("cpu"), **settings) as watch:
        result = execute([run_graph], store, lambda: Storing(store), order=watch.order, watch=watch.watch)
    return result, view


def test_a_run_tells_how_far_it_is_and_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "NOTICED_S", float("inf"))
    store, run_graph = Store(tmp_path), graph(bad=1)
    result, view = watched(store, run_graph)
    assert len(result.done) == 10
    counts = [state.done for state in view.states]
    assert counts == sorted(counts)
    assert {len(state.running) for state in view.states} == {0, 1, 2}
    (last,) = run_states(store, pytest.fail)
    assert last == view.states[-1]
    assert (last.state, last.done, last.total, last.failed) == ("finished", 10, 11, 1)
    assert list(last.failing.values()) == ["it is bad"]
    assert view.states[-3].left_s is not None


def test_a_run_of_very_many_tasks_is_not_held_up_by_saying_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where showing the state takes long, it is shown only at the start and at the end."""
    monkeypatch.setattr(views, "NOTICED_S", 0.0)
    monkeypatch.setattr(views, "SHARE", 1e-9)
    _, view = watched(Store(tmp_path), graph())
    assert [state.state for state in view.states] == ["running", "finished"]
    assert view.states[-1].done == 10


def test_what_a_run_learns_is_there_for_the_next(tmp_path: Path) -> None:
    store, run_graph = Store(tmp_path), graph()
    watched(store, run_graph)
    times = learnt_times(store, "cpu")
    assert len(times.earlier) > 1
    assert {total.seconds / total.tasks for total in times.earlier.values()} == {2.0}


def test_a_run_that_is_broken_off_says_so(tmp_path: Path) -> None:
    store, run_graph = Store(tmp_path), graph()
    with (
        pytest.raises(KeyboardInterrupt),
        RunWatch([run_graph], store, Nothing(), Times("cpu")) as watch,
    ):
        execute([run_graph], store, lambda: Storing(store, stop_at=5), order=watch.order, watch=watch.watch)
    (state,) = run_states(store, pytest.fail)
    assert state.state == "interrupted"
    assert 0 < state.done < 10


def test_the_first_tables_start_first(tmp_path: Path) -> None:
    store, run_graph = Store(tmp_path), graph()
    first, executor = list(run_graph.tasks)[7:9], Storing(store)
    with RunWatch([run_graph], store, Nothing(), Times("cpu"), first=[first]) as watch:
        execute([run_graph], store, lambda: executor, order=watch.order, watch=watch.watch)
    assert executor.order[:2] == first
    assert executor.order[2:] == [key for key in run_graph.tasks if key not in first]


def state(**changes: object) -> RunState:
    tracks = {"a/t": Part(done=1200, total=5000), "b/u": Part(done=4, total=42)}
    run_state = new_state("harness run --all", tracks, 3)
    later = datetime.fromisoformat(run_state.started) + timedelta(seconds=754)
    facts = {"updated": later.isoformat(), "left_s": 1260.0, "failed": 2, **changes}
    return run_state.model_copy(update=facts)


def test_a_line_says_what_a_log_should_hold() -> None:
    busy = (Busy(track="a/t", task="attack cnn uap", seconds=12.4),)
    assert line_of(state(running=busy)) == (
        "12:34: 1,204 of 5,042 tasks (t 1,200/5,000, u 4/42), about 21 min left, 2 failed, now attack cnn uap (12 s)"
    )
    assert "time left not known yet, 2 failed" in line_of(state(left_s=None))
    assert "time left not known yet, at least 21 min, 2 failed" in line_of(state(at_least=True))
    assert "time left not known yet, 2 failed" in line_of(state(at_least=True, left_s=64.0))
    after_two_days = datetime.fromisoformat(state().started) + timedelta(days=2, seconds=61)
    assert line_of(state().model_copy(update={"updated": after_two_days.isoformat()})).startswith("48:01:0")
    done = {"a/t": Part(done=5, total=7)}
    assert line_of(state(tracks=done)).endswith("(t 5/7), making tables and pages, 2 failed")
    assert line_of(state(state="finished", failed=0)).endswith("(t 1,200/5,000, u 4/42), finished")


@pytest.mark.parametrize(
    ("wanted", "quiet", "form"),
    [
        ("auto", False, "plain"),
        ("auto", True, "none"),
        ("json", True, "json"),
        ("bar", False, "bar"),
    ],
)
def test_what_a_log_gets(wanted: str, quiet: bool, form: str) -> None:
    assert console.progress_form(wanted, quiet=quiet) == form


def status(store: Store, *words: str) -> str:
    result = CliRunner().invoke(cli, ["status", "--store", str(store.root), *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_status_shows_runs_that_go_on_and_names_those_that_fell_silent(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / "leaderboards").mkdir()
    (tmp_path / "leaderboards" / "x.json").write_text("{}")
    assert "no run" in status(store)
    now = datetime.now(UTC)
    going = state(id="1", updated=now.isoformat(), rate=31.0, failing={"clean metric=a/bad": "it is bad"})
    gone = state(id="2", updated=(now - timedelta(minutes=10)).isoformat(), host="lost")
    gone.save(store)
    assert "no word for 10 min" in status(store)
    going.save(store)
    text = status(store)
    for phrase in ("1,204 of 5,042", "31 tasks per minute", "it is bad", "about 21 min left"):
        assert phrase in text
    assert "lost" not in text
    facts = json.loads(status(store, "--json"))["runs"]
    assert [run_facts["alive"] for run_facts in facts] == [True, False]
    (tmp_path / "runs" / "3.json").write_text("{")
    assert "1,204" in status(store)


def test_status_knows_of_a_run_of_this_machine_whose_process_is_gone(tmp_path: Path) -> None:
    store, now = Store(tmp_path), datetime.now(UTC)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    killed = state(id="1", updated=now.isoformat(), pid=ended.pid)
    killed.save(store)
    assert [run_facts["alive"] for run_facts in json.loads(status(store, "--json"))["runs"]] == [False]
    assert "no word for" in status(store)
    killed.model_copy(update={"pid": 10**30}).save(store)
    assert "no word for" in status(store)
    killed.model_copy(update={"host": "elsewhere"}).save(store)
    assert "no word for" not in status(store)
    after = (now + timedelta(hours=1)).isoformat()
    state(id="2", state="finished", started=after, updated=after, pid=4, running=()).save(store)
    assert "finished" in status(store)  # it started later than the first, which seems to go on


def test_a_line_names_a_few_tasks() -> None:
    busy = tuple(Busy(track="a/t", task=f"attack {n}", seconds=n) for n in range(40))
    assert line_of(state(running=busy)).endswith(
        "now attack 39 (39 s); attack 38 (38 s); attack 37 (37 s); attack 36 (36 s); 36 more"
    )
    assert line_of(state(running=busy[:4])).endswith("attack 0 (0 s)")


def test_what_an_executor_holds_back_does_not_run(tmp_path: Path) -> None:
    seen = list[dict[str, float]]()

    class Holding:
        """Takes everything at once, and ends one task at a time."""

        def __init__(self) -> None:
            self.submitted = list[str]()

        idle = property(lambda self: 8)
        waiting = property(lambda self: self.submitted[1:])

        def submit(self, key: str, spec: TaskSpec) -> None:
            self.submitted.append(key)

        def reports(self, seconds: float) -> list[TaskResult]:
            return [TaskResult(self.submitted.pop(0), "done")]

        def close(self) -> None:
            pass

    execute([graph(count=4)], Store(tmp_path), Holding, watch=lambda outcome, running: seen.append({**running}))
    begun = [sum(map(math.isfinite, running.values())) for running in seen]
    assert [len(running) for running in seen] == [0, 4, 3, 2, 1, 0]
    assert begun == [0, 1, 1, 1, 1, 0]


def sample_leaderboard(waiting: int, rows: int = 1) -> SimpleNamespace:
    column = ColumnSpec(key="v", label="v", description="v")
    some = tuple(Row(label=str(i), values={}) for i in range(rows))
    table = Table(id="t", title="t", caption="t", entry="e", columns=(column,), rows=some)
    return SimpleNamespace(tables=(table,), track="a/t", waiting=waiting)


class Publishing:
    """A publisher, and what it did: for how many finished tasks it made tables, and what it noted and warned of."""

    def __init__(self, tmp_path: Path, run_graph: Graph, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publishing, "LOOK_S", 0.0)
        monkeypatch.setattr(publishing, "AFTER_S", 0.0)
        self.leaderboards: list[int] = []
        self.built = threading.Semaphore(0)
        self.fails: Exception | None = None
        self.keys = list(run_graph.tasks)
        self.noted, self.warned = list[str](), list[str]()
        self.tables = TablesMeanwhile(
            [run_graph],
            Store(tmp_path),
            tmp_path / "site",
            first={"a/t": set(self.keys[:first])},
            leaderboard_of=self.make,
            build=lambda store, site: self.built.release(),
            note=self.noted.append,
            warn=self.warned.append,
        )

    def make(self, run_graph: Graph, outcome: RunResult) -> SimpleNamespace:
        if self.fails is not None:
            raise self.fails
        self.leaderboards.append(len(outcome.done))
        return sample_leaderboard(len(self.keys) - len(outcome.done))

    def offer(self, done: int, left_s: float | None = None) -> None:
        self.tables.offer(RunResult(set(self.keys[:done])), left_s)
        self.tables.finish()


def test_the_first_tables_are_made_when_their_tasks_are_done_and_later_ones_cost_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publishing(tmp_path, graph(count=100), 3, monkeypatch)
    publisher.offer(0)
    publisher.offer(2)
    assert publisher.leaderboards == []
    assert publisher.tables.page == ""
    publisher.offer(3)
    assert publisher.leaderboards == [3]
    assert publisher.noted == [f"first tables of t: {tmp_path / 'site' / 'index.html'}"]
    publisher.offer(5, left_s=1e6)
    assert publisher.leaderboards == [3]  # too early: less than a minute later, and less than 10 % more tasks
    publisher.tables.spent_s = 100.0
    publisher.offer(20, left_s=100.0)
    assert publisher.leaderboards == [3]  # tables took 100 s already, and 100 s are left
    publisher.offer(20, left_s=1e6)
    assert publisher.leaderboards == [3, 20]
    assert len(publisher.noted) == 1


def test_a_run_that_is_over_at_once_makes_its_tables_at_its_end_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publishing(tmp_path, graph(count=100), 3, monkeypatch)
    monkeypatch.setattr(publishing, "AFTER_S", 1e6)
    for done in (0, 3, 100):
        publisher.offer(done)
    assert publisher.leaderboards == []
    assert publisher.tables.final == {}
    assert publisher.tables.page == ""


def test_tables_of_a_track_that_has_ended_are_made_while_others_compute_and_its_pages_when_time_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publishing(tmp_path, graph(count=100), 3, monkeypatch)
    publisher.offer(3)
    publisher.tables.spent_s = 100.0
    publisher.offer(99, left_s=100.0)
    publisher.offer(100, left_s=100.0)
    publisher.offer(100, left_s=100.0)
    assert publisher.leaderboards == [3, 100]
    assert publisher.tables.final.keys() == {"a/t"}
    assert publisher.built.acquire(timeout=120)
    assert not publisher.built.acquire(blocking=False)  # one build, of the first tables


def test_tables_that_are_not_possible_yet_are_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publishing(tmp_path, graph(count=100), 3, monkeypatch)
    publisher.fails = HarnessError("too few")
    publisher.offer(3, left_s=1e6)
    assert publisher.tables.page == ""
    publisher.fails = None
    publisher.offer(4, left_s=1e6)
    assert publisher.leaderboards == []
    publisher.offer(13, left_s=1e6)
    assert publisher.leaderboards == [13]
    assert publisher.tables.page


def test_pages_that_cannot_be_written_end_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    publisher = Publishing(tmp_path, graph(count=100), 3, monkeypatch)

    def full(store: Path, site: Path) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(publisher.tables, "_build", full)
    publisher.offer(3)
    assert publisher.warned == ["the pages could not be renewed: the disk is full"]
    assert publisher.tables.page == ""


def test_a_track_that_names_no_first_tasks_is_published_after_a_tenth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publishing(tmp_path, graph(count=100), 0, monkeypatch)
    publisher.offer(9, left_s=1e6)
    publisher.offer(10, left_s=1e6)
    assert publisher.leaderboards == [10]
    assert publisher.tables.final == {}
    publisher.offer(100, left_s=1e6)
    assert publisher.tables.final.keys() == {"a/t"}


def test_a_broken_store_hides_no_other_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, run_graph = Store(tmp_path), graph()

    def broken(self: RunState, store: Store) -> None:
        raise StoreError("the disk is full")

    def broken_off() -> None:
        with RunWatch([run_graph], store, Nothing(), Times("cpu")) as watch:
            watch.watch(RunResult(), {})
            monkeypatch.setattr(RunState, "save", broken)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()

"""Times learnt from finished tasks, checked by hand."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imharness.planning.plan import Task
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.schedule.cost import cost_of, read_budget, within_budget
from imharness.running.schedule.forecast import Forecast
from imharness.running.schedule.order import chains, first_tasks, priorities
from imharness.running.schedule.times import KEPT, Times, learnt_times, place_of


def spec(step: str, *names: str, limit: int | None = None, needs: tuple[str, ...] = (), split: int = 0) -> TaskSpec:
    """A task of a step; components are named "kind:label"."""
    parts = {}
    for name in names:
        kind, _, label = name.partition(":")
        parts[kind] = ComponentRef(kind=kind, id=label.partition("[")[0], version="1", label=label, parameters={})
    return TaskSpec(
        track="a/t", step=step, version="1", components=parts, options={"split": split}, limit=limit, seed=0,
        needs={str(place): need for place, need in enumerate(needs)},
    )  # fmt: skip


def task(*words: str, needs: tuple[str, ...] = (), split: int = 0) -> Task:
    own = spec(*words, needs=needs, split=split)
    return Task(digest(own.identity()), own.describe(), own)


def graph(*tasks: Task) -> dict[str, Task]:
    return {own.key: own for own in tasks}


def seconds(times: Times, *words: str, limit: int | None = None) -> float | None:
    return times.seconds(place_of(spec(*words, limit=limit)))


@pytest.fixture
def times() -> Times:
    found = Times("cpu")
    for took in (1.0, 2.0, 9.0):
        found.add(spec("attack", "metric:a/m", "attack:a/slow"), took, 100)
    found.add(spec("attack", "metric:a/m", "attack:a/fast"), 0.5, 10)
    found.add(spec("clean", "metric:a/m"), 0.25, 1)
    return found


def test_the_estimate_is_of_the_most_alike(times: Times) -> None:
    assert seconds(times, "attack", "metric:a/m", "attack:a/slow") == 2.0
    assert seconds(times, "attack", "metric:a/other", "attack:a/slow") == 2.0  # the attack alone
    assert seconds(times, "attack", "metric:a/m", "attack:a/new") == 1.25  # the metric alone: 0.5 and 2
    assert seconds(times, "attack", "metric:a/x", "attack:a/y") == 1.25  # the step
    assert seconds(times, "fit", "metric:a/m") is None
    assert times.size(place_of(spec("attack", "metric:a/m", "attack:a/slow"))) == 100


def test_estimates_of_new_kinds_add_up_to_what_kinds_like_them_took_together() -> None:
    times = Times("cpu")
    took = [0.1] * 9 + [9.1]  # a median would say 0.1
    for number, value in enumerate(took):
        times.add(spec("attack", "metric:a/m", f"attack:a/{number}"), value)
    assert sum(seconds(times, "attack", "metric:a/m", f"attack:b/{n}") or 0 for n in range(10)) == pytest.approx(10.0)


@given(
    learnt=st.lists(
        st.tuples(
            st.sampled_from(["attack", "fit"]), st.sampled_from("abc"), st.sampled_from("xyz"), st.floats(0, 1e4)
        ),
        max_size=40,
    )
)
def test_what_is_learnt_while_estimates_are_asked_for_is_what_is_learnt_before(
    learnt: list[tuple[str, str, str, float]],
) -> None:
    """Estimates are kept up to date task by task; asked for once at the end, they are made of all kinds at once."""
    asked, last = Times("cpu"), Times("cpu")
    places = [(step, f"metric:a/{m}", f"attack:a/{a}") for step in ("attack", "fit") for m in "abcd" for a in "xyzw"]
    for step, metric, attack, took in learnt:
        for times in (asked, last):
            times.add(spec(step, f"metric:a/{metric}", f"attack:a/{attack}"), took)
        seconds(asked, *places[0])
    for place in places:
        expected = seconds(last, *place)
        assert seconds(asked, *place) == (None if expected is None else pytest.approx(expected, abs=1e-9))


def test_of_several_components_the_costliest_counts(times: Times) -> None:
    times.add(spec("attack", "metric:a/cheap", "attack:a/fast"), 0.1)
    assert seconds(times, "attack", "metric:a/cheap", "attack:a/slow") == 2.0


def test_tasks_on_another_number_of_images_say_nothing(times: Times) -> None:
    assert seconds(times, "attack", "metric:a/m", "attack:a/slow", limit=2) is None


def test_the_last_tasks_of_a_kind_count(times: Times) -> None:
    for _ in range(KEPT):
        times.add(spec("clean", "metric:a/m"), 4.0)
    assert seconds(times, "clean", "metric:a/m") == 4.0
    assert max(len(kind.seconds) for kind in times.kinds.values()) == KEPT


def stored(store: Store, own: Task, took: float, device: str = "cpu") -> None:
    record = TaskRecord(
        key=own.key, spec=own.spec, status="done", started=datetime.now(UTC).isoformat(), seconds=took, device=device,
        versions={},
    )  # fmt: skip
    store.commit(record, {"x": [1.0]}, {})


def test_a_store_remembers_times_and_without_a_memory_its_records_tell(tmp_path: Path) -> None:
    store, own = Store(tmp_path), task("clean", "metric:a/m")
    stored(store, own, 3.0)
    stored(store, task("clean", "metric:a/n"), 50.0, device="a GPU")
    found = learnt_times(store, "cpu")
    assert found.seconds(place_of(own.spec)) == 3.0
    found.add(own.spec, 5.0)
    found.keep(store)
    assert learnt_times(store, "cpu").seconds(place_of(own.spec)) == 4.0
    assert learnt_times(store, "a GPU").seconds(place_of(own.spec)) == 50.0
    next((tmp_path / "times").glob("*.json")).write_text("{")
    assert learnt_times(store, "cpu").seconds(place_of(own.spec)) == 3.0


def test_the_longest_chain_starts_first_and_the_first_tables_before_it() -> None:
    fit = task("fit", "metric:a/m")
    attack = task("attack", "metric:a/m", needs=(fit.key,))
    alone, first = task("clean", "metric:a/m"), task("clean", "metric:a/n")
    tasks = graph(alone, fit, attack, first)
    took = {fit.key: 1.0, attack.key: 10.0, alone.key: 4.0, first.key: 0.1}
    assert chains(tasks, took) == {alone.key: 4.0, fit.key: 11.0, attack.key: 10.0, first.key: 0.1}
    found = priorities(tasks, took, [{first.key}])
    assert sorted(tasks, key=lambda key: found[key]) == [first.key, fit.key, attack.key, alone.key]


def test_chains_of_about_the_same_length_keep_the_planned_order() -> None:
    tasks = graph(*(task("clean", f"metric:a/{name}") for name in "abcd"))
    found = priorities(tasks, dict(zip(tasks, (1.0, 1.9, 1.2, 1.5), strict=True)), [])
    assert len(set(found.values())) == 1


def test_of_two_first_tables_the_one_with_less_work_comes_first() -> None:
    small, large = task("clean", "metric:a/m"), task("clean", "metric:a/n")
    found = priorities(graph(large, small), {small.key: 1.0, large.key: 9.0}, [{large.key}, {small.key}])
    assert found[small.key] < found[large.key]


def test_the_tasks_of_a_first_table_bring_what_they_need() -> None:
    attack = task("attack", "metric:a/m", "attack:a/x[eps=1]")
    wanted = task("evaluate", "metric:a/m", "attack:a/x[eps=1]", needs=(attack.key,))
    other = task("evaluate", "metric:a/n", "attack:a/x[eps=1]")
    tasks = graph(attack, wanted, other, task("gallery", "metric:a/m"))
    first = {"step": ["evaluate"], "metric": ["a/m"], "attack": ["a/x"]}
    assert first_tasks(tasks, first) == {attack.key, wanted.key}
    assert first_tasks(tasks, {}) == set()


def test_the_forecast_follows_the_run(times: Times, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("imharness.running.schedule.forecast.time", SimpleNamespace(monotonic=lambda: clock.now))
    tasks = graph(*(task("attack", "metric:a/m", "attack:a/slow", split=split) for split in range(40)))
    forecast = Forecast(times, tasks)
    assert forecast.left_s({}) is None
    forecast.expect(tasks)
    forecast.busy(2)
    assert forecast.left_s({}) == pytest.approx(40 * 2.0 / 2)
    for key in list(tasks)[:20]:
        clock.now += 2.0  # two at a time take 4 s each, twice as long as expected
        forecast.ended(key)
    assert forecast.left_s({}) == pytest.approx(20 * 4.0 / 2)
    forecast.busy(30)  # an executor that takes many tasks at once is no faster
    assert forecast.left_s({}) == pytest.approx(20 * 4.0 / 2)


def test_the_forecast_says_nothing_while_most_tasks_are_new(times: Times) -> None:
    known, new = task("attack", "metric:a/m", "attack:a/slow"), task("fit", "metric:a/m")
    newer = task("fit", "metric:a/n")
    forecast = Forecast(times, graph(known, new, newer))
    forecast.expect([known.key, new.key])
    assert forecast.left_s({}) == pytest.approx(4.0)
    forecast.expect([newer.key])
    assert forecast.left_s({}) is None


def test_the_cost_of_tasks(times: Times) -> None:
    first = task("attack", "metric:a/m", "attack:a/slow")
    second = task("attack", "metric:a/m", "attack:a/fast", needs=(first.key,))
    cost = cost_of(graph(first, second, task("fit", "metric:a/m")), times)
    assert cost is not None
    assert (cost.cells, cost.known, cost.seconds, cost.longest_s) == (3, 2, 2.0 + 0.5 + 1.25, 2.5)
    assert cost.bytes == pytest.approx(110 * 3 / 2)
    assert cost.wall_s(1) == 3.75
    assert cost.wall_s(100) == 2.5
    assert cost_of(graph(task("fit", "metric:a/m")), times) is None


@pytest.mark.parametrize(("text", "wanted"), [("90m", 5400), ("40h", 144_000), ("1.5d", 129_600), ("30s", 30)])
def test_budgets(text: str, wanted: float) -> None:
    assert read_budget(text) == wanted


def test_every_entry_gets_a_first_number_before_any_gets_a_second() -> None:
    tasks = graph(*(task("clean", f"metric:a/{name}", split=split) for name in "abc" for split in range(5)))
    took = {key: 1.0 + int(own.spec.options["split"]) for key, own in tasks.items()}
    kept = within_budget(tasks, took, 3.5)
    assert sorted((own.spec.components["metric"].label, own.spec.options["split"])
                  for key, own in tasks.items() if key in kept) == [("a/a", 0), ("a/b", 0), ("a/c", 0)]  # fmt: skip


def test_a_budget_pays_for_what_its_tasks_need() -> None:
    fit = task("fit", "metric:a/m")
    dear, cheap = task("attack", "metric:a/m", needs=(fit.key,)), task("clean", "metric:a/n")
    tasks, took = graph(fit, dear, cheap), {fit.key: 5.0, dear.key: 1.0, cheap.key: 1.0}
    assert within_budget(tasks, took, 5.5) == {cheap.key}
    assert within_budget(tasks, took, 7.0) == set(tasks)

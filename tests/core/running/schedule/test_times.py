"""Times learnt from finished tasks, checked by hand."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from imharness.planning.plan import Task
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.budget import read_budget, within_budget
from imharness.running.schedule.estimates import Cost, Estimate, Running, Times, cost_of, learnt_times, step_of
from imharness.running.schedule.order import chains, first_tasks, priorities, samples


def spec(step: str, *names: str, limit: int | None = None, needs: tuple[str, ...] = (), split: int = 0) -> TaskSpec:
    """Return the specification of a task of a step; components are named "kind:label"."""
    components = {}
    for name in names:
        kind, _, label = name.partition(":")
        components[kind] = ComponentRef(kind=kind, id=label.partition("[")[0], version="1", label=label, parameters={})
    return TaskSpec(
        track="a/t",
        step=step,
        version="1",
        components=components,
        options={"split": split},
        limit=limit,
        seed=0,
        needs={str(index): need for index, need in enumerate(needs)},
    )


def task(*words: str, needs: tuple[str, ...] = (), split: int = 0) -> Task:
    task_spec = spec(*words, needs=needs, split=split)
    return Task(digest(task_spec.identity()), task_spec.describe(), task_spec)


def graph(*tasks: Task) -> dict[str, Task]:
    return {item.key: item for item in tasks}


def seconds(times: Times, *words: str, limit: int | None = None) -> float | None:
    cost = times.cost(spec(*words, limit=limit))
    return None if cost is None else cost.seconds


@pytest.fixture
def times() -> Times:
    learnt = Times("cpu")
    for took in (1.0, 2.0, 9.0):
        learnt.add(spec("attack", "metric:a/m", "attack:a/slow"), took, 100)
    learnt.add(spec("attack", "metric:a/m", "attack:a/fast"), 2.0, 20)
    learnt.add(spec("clean", "metric:a/m"), 0.25, 1)
    return learnt


def test_a_task_takes_the_mean_of_those_with_its_components_or_of_its_step(times: Times) -> None:
    assert seconds(times, "attack", "metric:a/m", "attack:a/slow") == (3.5 + 4.0) / 2
    assert seconds(times, "attack", "metric:a/other", "attack:a/slow") == 4.0  # the attack alone
    assert seconds(times, "attack", "metric:a/x", "attack:a/y") == 3.5  # the step
    assert seconds(times, "clean", "metric:a/m") == 0.25  # and no other step
    assert seconds(times, "fit", "metric:a/m") is None
    assert times.cost(spec("attack", "attack:a/slow")) == Cost(4.0, 100.0)
    assert times.mean(step_of(spec("attack"))) == Cost(3.5, 80.0)


def test_this_run_goes_before_earlier_ones(times: Times, tmp_path: Path) -> None:
    times.keep(Store(tmp_path))
    again = learnt_times(Store(tmp_path), "cpu")
    assert seconds(again, "attack", "attack:a/slow") == 4.0
    again.add(spec("attack", "metric:a/m", "attack:a/slow"), 20.0)
    assert seconds(again, "attack", "attack:a/slow") == 20.0
    assert seconds(again, "clean", "metric:a/m") == 0.25


def test_tasks_on_another_number_of_images_say_nothing(times: Times) -> None:
    assert seconds(times, "attack", "metric:a/m", "attack:a/slow", limit=2) is None


def stored(store: Store, item: Task, took: float, device: str = "cpu") -> None:
    record = TaskRecord(
        key=item.key,
        spec=item.spec,
        status="done",
        started=datetime.now(UTC).isoformat(),
        seconds=took,
        device=device,
        versions={},
    )
    store.commit(record, {"x": [1.0]}, {})


def test_a_store_remembers_times_of_each_device(tmp_path: Path) -> None:
    store, clean = Store(tmp_path), task("clean", "metric:a/m")
    for device, took in (("cpu", 3.0), ("a GPU", 50.0)):
        learnt = learnt_times(store, device)
        assert learnt.cost(clean.spec) is None
        learnt.add(clean.spec, took, 10)
        learnt.keep(store)
    again = learnt_times(store, "cpu")
    assert again.cost(clean.spec) == Cost(3.0, 10.0)
    again.add(clean.spec, 5.0, 20)
    again.keep(store)
    assert learnt_times(store, "cpu").cost(clean.spec) == Cost(4.0, 15.0)
    assert learnt_times(store, "a GPU").cost(clean.spec) == Cost(50.0, 10.0)
    for file in (tmp_path / "times").glob("*.json"):
        file.write_text("{")
    assert learnt_times(store, "cpu").cost(clean.spec) is None


def test_a_record_of_this_device_counts_for_as_long_as_its_worker_was_busy(tmp_path: Path) -> None:
    store, learnt = Store(tmp_path), Times("cpu")
    for number, (device, busy_s) in enumerate([("cpu", 0.0), ("cpu", 8.0), ("a GPU", 99.0)]):
        clean = task("clean", "metric:a/m", split=number)
        stored(store, clean, 4.0, device)
        record = store.record(clean.key)
        assert record is not None
        learnt.learn(record, busy_s)
    assert seconds(learnt, "clean", "metric:a/m") == 6.0


def test_the_longest_chain_starts_first_and_the_first_tables_before_it() -> None:
    fit = task("fit", "metric:a/m")
    attack = task("attack", "metric:a/m", needs=(fit.key,))
    alone, first = task("clean", "metric:a/m"), task("clean", "metric:a/n")
    tasks = graph(alone, fit, attack, first)
    took = {fit.key: 1.0, attack.key: 10.0, alone.key: 4.0, first.key: 0.1}
    assert chains(tasks, took) == {alone.key: 4.0, fit.key: 11.0, attack.key: 10.0, first.key: 0.1}
    order = priorities(tasks, took, [{first.key}])
    assert sorted(tasks, key=lambda key: order[key]) == [first.key, fit.key, attack.key, alone.key]


def test_chains_of_about_the_same_length_keep_the_planned_order() -> None:
    tasks = graph(*(task("clean", f"metric:a/{name}") for name in "abcd"))
    order = priorities(tasks, dict(zip(tasks, (1.0, 1.9, 1.2, 1.5), strict=True)), [])
    assert len(set(order.values())) == 1


def test_of_two_first_tables_the_one_with_less_work_comes_first() -> None:
    small, large = task("clean", "metric:a/m"), task("clean", "metric:a/n")
    order = priorities(graph(large, small), {small.key: 1.0, large.key: 9.0}, [{large.key}, {small.key}])
    assert order[small.key] < order[large.key]


def test_the_tasks_of_a_first_table_bring_what_they_need() -> None:
    attack = task("attack", "metric:a/m", "attack:a/x[eps=1]")
    wanted = task("evaluate", "metric:a/m", "attack:a/x[eps=1]", needs=(attack.key,))
    other = task("evaluate", "metric:a/n", "attack:a/x[eps=1]")
    tasks = graph(attack, wanted, other, task("gallery", "metric:a/m"))
    first = {"step": ["evaluate"], "metric": ["a/m"], "attack": ["a/x"]}
    assert first_tasks(tasks, first) == {attack.key, wanted.key}
    assert first_tasks(tasks, {}) == set()


def test_what_is_known_of_nothing_is_run_first_as_a_sample() -> None:
    """A task of each step, then one of each component in a step that has not run yet, and what these need."""
    fit = task("fit", "metric:a/m")
    attacks = [task("attack", f"metric:a/{name}", needs=(fit.key,)) for name in "mno"]
    clean = [task("clean", f"metric:a/{name}", split=split) for name in "mn" for split in range(2)]
    tasks, times = graph(fit, *attacks, *clean), Times("cpu")
    assert samples(tasks, times, ()) == (
        {fit.key, attacks[0].key, clean[0].key},
        {fit.key, attacks[1].key, attacks[2].key, clean[2].key},
    )
    assert samples(tasks, times, [chosen_task.key for chosen_task in (fit, *attacks)]) == (
        {clean[0].key},
        {clean[2].key},
    )
    for item in tasks.values():
        times.add(item.spec, 1.0)
    assert samples(tasks, times, ()) == (set(), set())
    steps, components = {clean[1].key}, {clean[0].key}
    order = priorities(tasks, dict.fromkeys(tasks, 1.0), [{clean[2].key}], (steps, components))
    assert sorted(tasks, key=lambda key: order[key])[:4] == [clean[2].key, clean[1].key, clean[0].key, fit.key]


def test_what_is_left_is_the_mean_times_the_number_over_the_workers(times: Times) -> None:
    tasks = [task("attack", "metric:a/m", "attack:a/slow", split=split) for split in range(40)]
    estimate, step = Estimate(times), step_of(tasks[0].spec)
    estimate.expect(tasks)
    estimate.busy(2)
    assert estimate.remaining() == (40 * 3.5 / 2, False)
    assert estimate.remaining([Running(step, 0.5), Running(step, 1.5)]) == ((40 * 3.5 - 2) / 2, False)
    assert estimate.remaining([Running(step, 60.0)]) == (39 * 3.5 / 2, False)
    for item in tasks[:20]:
        estimate.ended(item.spec)
    assert estimate.remaining() == (20 * 3.5 / 2, False)


def test_a_running_task_of_an_unknown_step_counts_by_the_share_that_it_told(times: Times) -> None:
    tasks = [task("fit", f"metric:a/{name}") for name in "mn"]
    estimate, step = Estimate(times), step_of(tasks[0].spec)
    estimate.expect(tasks)
    assert estimate.remaining([Running(step, 30.0)]) is None
    assert estimate.remaining([Running(step, 30.0, share=0.25)]) == (90.0, True)
    times.add(tasks[0].spec, 40.0)
    assert estimate.remaining([Running(step, 30.0, share=0.25)]) == (50.0, False)


def test_of_a_step_that_never_ran_a_bound_is_said_and_of_nothing_nothing(times: Times) -> None:
    learnt, new = task("attack", "metric:a/m", "attack:a/slow"), task("fit", "metric:a/m")
    estimate = Estimate(times)
    estimate.expect([learnt, new])
    assert estimate.remaining() == (3.5, True)
    estimate.ended(learnt.spec)
    assert estimate.remaining() is None
    estimate.ended(new.spec)
    assert estimate.remaining() == (0.0, False)


def test_what_tasks_cost(times: Times) -> None:
    slow, fast, fit = (task("attack", "attack:a/slow"), task("attack", "attack:a/fast"), task("fit", "metric:a/m"))
    assert cost_of([slow, fast, fit], times) == (3, 1, 6.0, pytest.approx(120 * 3 / 2))
    assert cost_of([fit], times) is None
    assert cost_of([], times) == (0, 0, 0.0, 0.0)


@pytest.mark.parametrize(("text", "wanted"), [("90m", 5400), ("40h", 144_000), ("1.5d", 129_600), ("30s", 30)])
def test_budgets(text: str, wanted: float) -> None:
    assert read_budget(text) == wanted


def test_every_entry_gets_a_first_number_before_any_gets_a_second() -> None:
    tasks = graph(*(task("clean", f"metric:a/{name}", split=split) for name in "abc" for split in range(5)))
    took = {key: 1.0 + int(item.spec.options["split"]) for key, item in tasks.items()}
    selected = within_budget(tasks, took, 3.5)
    assert sorted(
        (item.spec.components["metric"].label, item.spec.options["split"])
        for key, item in tasks.items()
        if key in selected
    ) == [("a/a", 0), ("a/b", 0), ("a/c", 0)]


def test_a_budget_pays_for_what_its_tasks_need() -> None:
    fit = task("fit", "metric:a/m")
    over_budget, cheap = task("attack", "metric:a/m", needs=(fit.key,)), task("clean", "metric:a/n")
    tasks, took = graph(fit, over_budget, cheap), {fit.key: 5.0, over_budget.key: 1.0, cheap.key: 1.0}
    assert within_budget(tasks, took, 5.5) == {cheap.key}
    assert within_budget(tasks, took, 7.0) == set(tasks)
    alone, behind = task("clean", "metric:a/o"), task("clean", "metric:a/o", needs=(fit.key,), split=1)
    tasks, took = graph(fit, over_budget, alone, behind), {**took, alone.key: 7.0, behind.key: 3.0}
    assert within_budget(tasks, took, 13.5) == {fit.key, over_budget.key, behind.key}, "the fit is paid for already"

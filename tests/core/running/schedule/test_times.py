"""Times learnt from finished tasks, checked by hand."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imharness.planning.plan import Task
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.budget import read_budget, within_budget
from imharness.running.schedule.estimates import (
    KEPT,
    SMALL_S,
    SURE_S,
    Estimate,
    Times,
    bytes_of,
    chains,
    learnt_times,
    left_of,
    place_of,
)
from imharness.running.schedule.order import first_tasks, priorities, samples


def spec(step: str, *names: str, limit: int | None = None, needs: tuple[str, ...] = (), split: int = 0) -> TaskSpec:
    """A task of a step; components are named "kind:label"."""
    parts = {}
    for name in names:
        kind, _, label = name.partition(":")
        parts[kind] = ComponentRef(kind=kind, id=label.partition("[")[0], version="1", label=label, parameters={})
    return TaskSpec(
        track="a/t",
        step=step,
        version="1",
        components=parts,
        options={"split": split},
        limit=limit,
        seed=0,
        needs={str(place): need for place, need in enumerate(needs)},
    )


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
    assert seconds(times, "attack", "metric:a/x", "attack:a/y") == 1.25  # the step: the mean of its two kinds
    assert seconds(times, "clean", "metric:a/m") == 0.25
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


def test_the_components_of_a_task_count_alike(times: Times) -> None:
    times.add(spec("attack", "metric:a/cheap", "attack:a/fast"), 0.1)
    assert seconds(times, "attack", "metric:a/cheap", "attack:a/slow") == pytest.approx((0.1 + 2.0) / 2)


def test_a_component_that_is_new_in_a_step_takes_what_it_is_worth_in_others() -> None:
    times = Times("cpu")
    for name, took in (("plain", 1.0), ("slow", 9.0)):
        times.add(spec("train", f"defense:a/{name}"), took)
    times.add(spec("references", "defense:a/plain"), 20.0)
    worth = (9.0 + SMALL_S) / (5.0 + SMALL_S)  # of the mean in training
    assert seconds(times, "references", "defense:a/slow") == pytest.approx(20.0 * worth)
    assert seconds(times, "stop", "defense:a/slow") is None


def test_an_earlier_run_tells_what_this_one_does_not_at_the_pace_of_this_one() -> None:
    earlier = Times("cpu")
    for number in range(40):
        earlier.add(spec("train", f"defense:a/{number}"), 10.0)
    times = Times("cpu", earlier.kinds)
    assert seconds(times, "train", "defense:a/39") == 10.0
    for number in range(30):
        times.add(spec("train", f"defense:a/{number}"), 20.0)
    pace = (30 * 20.0 + SURE_S) / (30 * 10.0 + SURE_S)
    assert seconds(times, "train", "defense:a/39") == pytest.approx(10.0 * pace)
    assert seconds(times, "train", "defense:a/0") == 20.0


def test_tasks_on_another_number_of_images_say_nothing(times: Times) -> None:
    assert seconds(times, "attack", "metric:a/m", "attack:a/slow", limit=2) is None


def test_the_last_tasks_of_a_kind_count(times: Times) -> None:
    for _ in range(KEPT):
        times.add(spec("clean", "metric:a/m"), 4.0)
    assert seconds(times, "clean", "metric:a/m") == 4.0
    assert max(len(kind.seconds) for kind in times.kinds.values()) == KEPT


def stored(store: Store, own: Task, took: float, device: str = "cpu") -> None:
    record = TaskRecord(
        key=own.key,
        spec=own.spec,
        status="done",
        started=datetime.now(UTC).isoformat(),
        seconds=took,
        device=device,
        versions={},
    )
    store.commit(record, {"x": [1.0]}, {})


def test_a_store_remembers_times_of_each_device(tmp_path: Path) -> None:
    store, own = Store(tmp_path), task("clean", "metric:a/m")
    for device, took in (("cpu", 3.0), ("a GPU", 50.0)):
        found = learnt_times(store, device)
        assert found.seconds(place_of(own.spec)) is None
        found.add(own.spec, took)
        found.keep(store)
    again = learnt_times(store, "cpu")
    assert again.seconds(place_of(own.spec)) == 3.0
    again.add(own.spec, 5.0)
    again.keep(store)
    assert learnt_times(store, "cpu").seconds(place_of(own.spec)) == 4.0
    assert learnt_times(store, "a GPU").seconds(place_of(own.spec)) == 50.0
    for file in (tmp_path / "times").glob("*.json"):
        file.write_text("{")
    assert learnt_times(store, "cpu").seconds(place_of(own.spec)) is None


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


def test_what_is_known_of_nothing_is_run_first_as_a_sample() -> None:
    """A task of each step, then one of each component that has not been seen, and what these need."""
    fit = task("fit", "metric:a/m")
    attacks = [task("attack", f"metric:a/{name}", needs=(fit.key,)) for name in "mno"]
    clean = [task("clean", f"metric:a/{name}") for name in "mnp"]
    tasks, times = graph(fit, *attacks, *clean), Times("cpu")
    assert samples(tasks, times, ()) == (
        {fit.key, attacks[0].key, clean[0].key},
        {
            fit.key,
            attacks[1].key,
            attacks[2].key,
            clean[2].key,
        },
    )
    assert samples(tasks, times, [own.key for own in (fit, *attacks)]) == ({clean[0].key}, {clean[2].key})
    for own in tasks.values():
        times.add(own.spec, 1.0)
    assert samples(tasks, times, ()) == (set(), set())
    steps, components = {clean[1].key}, {clean[0].key}
    found = priorities(tasks, dict.fromkeys(tasks, 1.0), [{clean[2].key}], (steps, components))
    assert sorted(tasks, key=lambda key: found[key])[:4] == [clean[2].key, clean[1].key, clean[0].key, fit.key]


def test_the_estimate_follows_the_run(times: Times) -> None:
    tasks = graph(*(task("attack", "metric:a/m", "attack:a/slow", split=split) for split in range(40)))
    estimate = Estimate(times)
    estimate.expect(tasks)
    estimate.busy(2)
    assert estimate.left({}) == (40 * 2.0 / 2, False)
    assert estimate.left(dict.fromkeys(list(tasks)[:2], 0.5)) == (39.5 * 2.0 / 2, False)
    for key in list(tasks)[:20]:
        estimate.lasted(2.5, 2.0)
        estimate.ended(key)
    assert estimate.left({}) == (20 * 2.5 / 2, False)


def test_a_task_that_takes_longer_than_expected_is_not_taken_to_end_at_once(times: Times) -> None:
    own = task("attack", "metric:a/m", "attack:a/slow")
    estimate = Estimate(times)
    estimate.expect(graph(own))
    assert estimate.left({own.key: 60.0}) == (0.0, True)


def test_a_running_task_that_tells_its_share_ends_when_its_pace_says(times: Times) -> None:
    own, like = (task("attack", "metric:a/new", "attack:a/new", split=split) for split in range(2))
    estimate = Estimate(times)
    estimate.expect(graph(own, like))
    usual = seconds(times, "attack", "metric:a/new", "attack:a/new")
    estimate.told(own.key, 0.1, 6.0)  # which says nothing yet: until then it prepared, too
    assert seconds(times, "attack", "metric:a/new", "attack:a/new") == usual
    estimate.told(own.key, 0.2, 8.0)
    left = estimate.left({own.key: 8.0})
    assert left == (pytest.approx(0.8 * 20.0 + 20.0), False)  # a tenth takes 2 s, of those like it, too
    assert seconds(times, "attack", "metric:a/new", "attack:a/new") == pytest.approx(20.0)
    estimate.told(own.key, 0.1, 9.0)  # a second part of the task begins
    assert estimate.left({own.key: 9.0}) != left
    times.add(own.spec, 30.0)
    estimate.ended(own.key)
    assert estimate.left({}) == (30.0, False)


def test_what_a_task_prepared_is_not_expected_of_those_like_it(times: Times) -> None:
    own, estimate = task("attack", "x/new"), Estimate(times)
    estimate.expect({own.key: own})
    estimate.told(own.key, 0.25, 20.0)
    assert estimate.prepared(own.key) == 0  # one share does not say how fast it is
    estimate.told(own.key, 0.75, 22.0)
    assert estimate.prepared(own.key) == pytest.approx(19)  # all of it takes 4 s, the first quarter 1 s
    estimate.told(own.key, 0.5, 30.0)
    estimate.told(own.key, 1.0, 32.0)
    assert estimate.prepared(own.key) == 0  # what comes before a second part is its first part


def test_what_running_tasks_were_taken_to_last_is_forgotten_whole(times: Times) -> None:
    before = {
        words: seconds(times, *words)
        for words in [("attack", "metric:a/m", "attack:a/x"), ("fit", "metric:a/m"), ("clean", "metric:a/z")]
    }
    times.suppose({place_of(spec("fit", "metric:a/m")): [7.0], place_of(spec("attack", "metric:a/z")): [50.0]})
    assert seconds(times, "fit", "metric:a/m") == 7.0
    assert seconds(times, "attack", "metric:a/m", "attack:a/x") == before["attack", "metric:a/m", "attack:a/x"]
    times.suppose({})
    assert {words: seconds(times, *words) for words in before} == before


def test_of_a_step_that_never_ran_a_bound_is_said_and_of_nothing_nothing(times: Times) -> None:
    known, new = task("attack", "metric:a/m", "attack:a/slow"), task("fit", "metric:a/m")
    estimate = Estimate(times)
    estimate.expect(graph(known, new))
    assert estimate.left({}) == (2.0, True)
    estimate.ended(known.key)
    assert estimate.left({}) is None
    estimate.ended(new.key)
    assert estimate.left({}) == (0.0, False)


def test_what_tasks_cost(times: Times) -> None:
    first = task("attack", "metric:a/m", "attack:a/slow")
    second = task("attack", "metric:a/m", "attack:a/fast", needs=(first.key,))
    tasks = graph(first, second, task("fit", "metric:a/m"))
    left = left_of(tasks, times)
    assert left is not None
    assert (left.cells, left.unknown, left.seconds, left.longest_s) == (3, 1, 2.5, 2.5)
    assert bytes_of(tasks.values(), times) == pytest.approx(110 * 3 / 2)
    more = left_of(graph(first, task("attack", "metric:a/m", "attack:a/fast")), times)
    assert more is not None
    assert more.wall_s(1) == 2.5
    assert more.wall_s(100) == 2.0
    assert left_of(graph(task("fit", "metric:a/m")), times) is None


@pytest.mark.parametrize(("text", "wanted"), [("90m", 5400), ("40h", 144_000), ("1.5d", 129_600), ("30s", 30)])
def test_budgets(text: str, wanted: float) -> None:
    assert read_budget(text) == wanted


def test_every_entry_gets_a_first_number_before_any_gets_a_second() -> None:
    tasks = graph(*(task("clean", f"metric:a/{name}", split=split) for name in "abc" for split in range(5)))
    took = {key: 1.0 + int(own.spec.options["split"]) for key, own in tasks.items()}
    kept = within_budget(tasks, took, 3.5)
    assert sorted(
        (own.spec.components["metric"].label, own.spec.options["split"]) for key, own in tasks.items() if key in kept
    ) == [("a/a", 0), ("a/b", 0), ("a/c", 0)]


def test_a_budget_pays_for_what_its_tasks_need() -> None:
    fit = task("fit", "metric:a/m")
    dear, cheap = task("attack", "metric:a/m", needs=(fit.key,)), task("clean", "metric:a/n")
    tasks, took = graph(fit, dear, cheap), {fit.key: 5.0, dear.key: 1.0, cheap.key: 1.0}
    assert within_budget(tasks, took, 5.5) == {cheap.key}
    assert within_budget(tasks, took, 7.0) == set(tasks)

"""Plans of tasks: equal arguments give equal keys, and tasks that do not differ are planned once."""

from collections import Counter

import pytest

from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.planning.plan import Graph, GraphPlanner, plan_track
from imharness.planning.profile import Profile
from imharness.results.identity import digest
from imharness.results.tasks import TaskSpec

IQA = "harness/iqa"


SELECT = {
    "dataset": ["harness/severity-ladder[size=96]"],
    "metric": ["embedded-cnn"],
    "attack": ["ifgsm", "uap"],
    "defense": ["none", "jpeg", "gaussian-blur"],
}


def plan(**changes) -> Graph:
    track_settings = {
        "select": SELECT,
        **changes.pop("part", {}),
    }
    profile = Profile(name="test", description="", tracks={IQA: track_settings})
    return plan_track(IQA, profile, installed(), **changes)


def test_one_attack_serves_all_defenses_and_each_gets_its_own() -> None:
    graph = plan()
    counts = graph.by_step()
    # 2 attacks x 3 strengths: once without a defense, shared by all, and once through each of gaussian-blur and jpeg
    assert counts["attack"] == 2 * 3 * 3
    assert counts["evaluate"] == 2 * 3 * (3 + 2)  # of 3 defenses, and of 2 of them under attacks through themselves
    assert counts["fit"] == 3  # uap is trained once for all strengths, and once through each of the two defenses
    through = [t.spec for t in graph.tasks.values() if t.spec.step == "attack" and "stand_in" in t.spec.components]
    labels = {(s.components["defense"].label, s.components["stand_in"].label) for s in through}
    assert labels == {("harness/jpeg", "harness/diffjpeg")}
    evaluated = [t.spec for t in graph.tasks.values() if t.spec.step == "evaluate" and not t.spec.options["adaptive"]]
    assert set(Counter(spec.needs["attacked"] for spec in evaluated).values()) == {3}


def test_a_graph_says_what_the_profile_sets() -> None:
    track_settings = {"options": {"strengths": ("medium",)}, "parameters": {"harness/uap": {"epochs": 1}}}
    set_up = plan(part=track_settings).set_up
    assert set_up == {"options": {"strengths": ["medium"]}, "parameters": {"harness/uap": {"epochs": 1}}}


def test_every_task_stands_behind_those_it_needs() -> None:
    seen: set[str] = set()
    for key, task in plan().tasks.items():
        assert set(task.spec.needs.values()) <= seen
        seen.add(key)


def test_keys_are_digests_of_what_identifies_tasks() -> None:
    tasks = plan().tasks
    assert [digest(task.spec.identity()) for task in tasks.values()] == list(tasks)


def test_the_key_depends_on_what_the_result_depends_on() -> None:
    base = set(plan().tasks)
    assert base == set(plan().tasks)
    assert not base & set(plan(seed=1).tasks)
    assert not base & set(plan(limit=3).tasks)
    narrower = set(plan(only={"defense": ["none"]}).tasks)
    assert narrower < base


def test_parameters_of_a_profile_reach_the_components_but_not_over_their_own() -> None:
    select = {
        "dataset": ["severity-ladder"],
        "metric": ["embedded-cnn"],
        "attack": ["ifgsm", "ifgsm[iterations=3]"],
        "defense": [],
    }
    graph = plan(part={"select": select, "parameters": {"harness/ifgsm": {"iterations": 7}}})
    used = {
        t.spec.components["attack"].parameters["iterations"] for t in graph.tasks.values() if t.spec.step == "attack"
    }
    assert used == {3, 7}


def defenses(graph: Graph) -> set[str]:
    return {
        component.label.removeprefix("harness/")
        for component in graph.components.values()
        if component.kind == "defense"
    }


@pytest.mark.parametrize(
    ("names", "remaining"),
    [
        (["none", "jpeg", "jpeg[quality=10]", "!jpeg"], {"none"}),
        (["none", "jpeg[quality=10]", "!harness/jpeg"], {"none"}),
        (["none", "jpeg[*]", "jpeg[quality=10]", "!jpeg[*]"], {"none"}),
        (["none", "jpeg[quality=10]", "jpeg[quality=30]", "!jpeg[quality=10]"], {"none", "jpeg[quality=30]"}),
        (["none", "diffjpeg", "!jpeg"], {"none", "diffjpeg"}),
        (["!jpeg", "none", "jpeg[quality=10]"], {"none", "jpeg[quality=10]"}),
    ],
)
def test_a_name_that_is_left_out_is_left_out_with_all_its_variants(names: list[str], remaining: set[str]) -> None:
    select = {**SELECT, "defense": names}
    assert defenses(plan(part={"select": select, "options": {"adaptive": ()}})) == remaining


def test_a_command_may_leave_out_what_the_profile_selects() -> None:
    assert defenses(plan(only={"defense": ["!jpeg"]})) == defenses(plan(only={"defense": ["none", "gaussian-blur"]}))
    assert "gaussian-blur" in defenses(plan(only={"defense": ["!jpeg"]}))
    assert "jpeg" not in defenses(plan(only={"defense": ["none", "jpeg", "!jpeg"]}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"part": {"options": {"adaptve": True}}}, "adaptve"),
        ({"part": {"select": {"defence": ["none"]}}}, "not a kind of component"),
        ({"part": {"parameters": {"harness/ifgsm": {"iterations": 0}}}}, "parameters of harness/ifgsm: iterations"),
        ({"only": {"metric": ["embeded-cnn"]}}, "Did you mean"),
        ({"part": {"options": {"strengths": ["huge"]}}}, "no strength 'huge'"),
    ],
)
def test_wrong_profiles_are_explained(changes: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(**changes)


def test_missing_weights_make_tasks_unavailable_with_the_remedy(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    monkeypatch.setattr("imharness.contracts.assets.cache_folder", lambda: tmp_path)
    select = {"dataset": ["harness/severity-ladder"], "metric": ["lpips[net=squeeze]", "mse"]}
    profile = Profile(name="test", description="", tracks={"harness/perceptual": {"select": select}})
    graph = plan_track("harness/perceptual", profile, installed())
    assert len(graph.tasks) == 1
    (gap,) = graph.missing.values()
    assert (gap.what, gap.remedy) == ("harness/lpips[net=squeeze]", "harness assets get squeezenet1-1-features")


def test_a_task_is_worked_out_once_however_often_it_is_asked_for(monkeypatch) -> None:
    graph = plan()
    planner = GraphPlanner(Graph(graph.track, ""), installed(), 0, None)
    specs: list[object] = []
    monkeypatch.setattr(TaskSpec, "key_with", lambda spec, pieces: specs.append(spec) or str(len(specs)))
    spec = next(iter(graph.tasks.values())).spec
    step, roles = spec.step, spec.named()
    components = {role: installed().one(ref.kind, ref.label) for role, ref in roles.items()}
    first = planner.task(step, components, options={"images": 1})
    assert planner.task(step, components, options={"images": 1}) is first
    assert planner.within({"images": 1}, **components).task(step) is first
    others = [planner.task(step, components, options={"images": value}) for value in (True, 1.0, 2)]
    others.append(planner.task(step, components, options={"images": 1}, needs={"before": first}))
    assert len(specs) == len({first.key, *(task.key for task in others)}) == 5

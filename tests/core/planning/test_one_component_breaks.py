"""A component of an outside package that fails is left out and named; all other tasks of the track are planned."""

import math
from types import ModuleType
from typing import Any, ClassVar

import pluggy
import pytest

from imharness.components import hookspecs
from imharness.components.hookspecs import hookimpl
from imharness.components.loading import Loaded, Plugin
from imharness.components.provenance import Provenance
from imharness.components.registry import Registry, build_registry, installed
from imharness.contracts.metric_defense import DefenseInfo
from imharness.contracts.purification import Purification
from imharness.errors import HarnessError, PluginError, UsageError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile
from imharness_submissions.sandbox.proxies import proxy

IQA = "harness/iqa"
SELECT = {
    "dataset": ["harness/severity-ladder[size=48]"],
    "metric": ["embedded-cnn"],
    "attack": ["ifgsm"],
    "defense": ["none", "jpeg"],
}
FACTS = DefenseInfo.model_fields


def defense(fields: dict[str, tuple[Any, Any]] | None = None, /, method: str = "bad", **overrides: Any) -> Purification:
    """Return a defense acme/METHOD with fields, name -> (type, default).

    `overrides` are values of its info, such as a version, or attributes and methods of its class.
    """
    facts = {
        name: overrides.pop(name)
        for name in list(overrides)
        if name in FACTS and not isinstance(overrides[name], property)
    }
    info = DefenseInfo(**{"id": f"acme/{method}", "version": "1", "differentiable": True, **facts})
    defaults = {name: default for name, (_, default) in (fields or {}).items()}
    types = {name: kind for name, (kind, _) in (fields or {}).items()} | {"info": ClassVar[DefenseInfo]}
    body = {"__doc__": "A defense.", "__module__": __name__, "__annotations__": types, "info": info}
    body["build"] = lambda self, device: lambda images, rng: images
    return type("Bad", (Purification,), {**body, **defaults, **overrides})()


def breaks(*arguments: object) -> Any:
    raise RuntimeError("on\npurpose")


def exits(*arguments: object) -> Any:
    raise SystemExit(3)


def offered(*components: Purification, distribution: str = "acme") -> Registry:
    """Return what a package with these components registers."""
    module = ModuleType("acme")
    vars(module)["components"] = hookimpl(lambda: list(components))
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(module, name="acme")
    loaded = Loaded(manager, "components", {}, [Plugin("acme", module, Provenance(distribution, "1"))])
    return build_registry(loaded)


def plan(registry: Registry, *further: str) -> Graph:
    """Plan the quality track with further defenses."""
    track_settings = {"select": {**SELECT, "defense": [*SELECT["defense"], *further]}}
    return plan_track(IQA, Profile(name="t", description="", tracks={IQA: track_settings}), registry)


@pytest.fixture(scope="module")
def alone() -> frozenset[str]:
    """Return the keys of the tasks that are planned with the installed components alone."""
    return frozenset(plan(installed()).tasks)


NUMBER, TEXT = {"x": (float, 1.0)}, {"x": (str, "a")}  # fields of a defense


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (defense({"x": (float, math.inf)}), "Out of range float"),
        (defense({"x": (float, math.nan)}), "Out of range float"),
        (defense({"x": (int, 10**5000)}), "4300 digits"),
        (defense({"x": (Any, object())}), "Unable to serialize"),
        (defense({"x": (str, "\ud800")}), "surrogates not allowed"),
        (defense({"x": (list, [1])}), "unhashable"),
        (defense({"x": (str, "y" * 200_000)}), "parameters of 200008 characters"),
        (defense(NUMBER, grid={"x": [2.0, math.inf]}), "Out of range float"),
        (defense(NUMBER, grid={"x": range(10**9)}), "more than 200 values"),
        (defense(NUMBER, grid={"x": ["a"]}), "its parameter study: x"),
        (defense(NUMBER, grid={"y": [1]}), "its parameter study: y: no such field"),
        (defense(TEXT, grid={"x": ["b\nc"]}), "line break"),
        (defense(TEXT, grid={"x": ["\u202eb"]}), "direction character"),
        (defense(TEXT, grid={"x": ["y" * 5000]}), "its label has 5012 characters"),
        (defense(group="g" * 10**6), "1000000 characters"),
        (defense(group="a\nb"), "line break"),
        (defense(version="1\u202e"), "direction character"),
        (defense(control="a\x1b[2J"), "control"),
        (defense(paper={"title": "t\n", "authors": "a", "year": 2020}), "line break"),
        (defense(variants=breaks), "on purpose"),
        (defense(variants=exits), "SystemExit"),
        (defense(variants=lambda self: None), "NoneType"),
        (defense(variants=lambda self: [object()]), "components of its own class"),
        (defense(control=property(breaks)), "on purpose"),
        (defense(label=property(breaks)), "on purpose"),
        (defense(label=property(lambda self: "harness/jpeg")), "does not begin with its id"),
    ],
)
def test_what_nothing_can_be_planned_with_is_left_out_and_named(bad: Purification, why: str) -> None:
    registry = offered(bad, defense(method="good"))
    assert [c.info.id for c in registry.of_kind("defense")] == ["acme/good"]
    (failure,) = registry.failures
    assert why in failure.reason
    assert "acme/bad" in failure.reason
    assert failure.reason.isprintable()
    assert len(failure.reason) < 500


@pytest.mark.parametrize(
    "bad",
    [
        defense(stand_in="acme/nobody", differentiable=False),
        defense(require=breaks),
        defense(require=exits),
        defense(assets=breaks),
        defense(content=breaks),
        defense(content=lambda self: object()),
        defense(ref=breaks),
    ],
)
def test_what_breaks_while_a_track_is_planned_is_left_out_and_named(bad: Purification, alone: frozenset[str]) -> None:
    registry = installed().joined(offered(bad, defense(method="good")).entries.values())
    graph = plan(registry, "acme/bad", "acme/good")
    good = {key for key, task in graph.tasks.items() if "acme/good" in task.address}
    assert good
    assert graph.tasks.keys() - good == alone
    gap = graph.missing["defense acme/bad"]
    assert gap.what == "acme/bad"
    assert gap.reason.startswith("no plan can be made with it: ")
    assert gap.reason.isprintable()


def test_whoever_does_not_break_is_planned_in_whatever_order_names_are_given(alone: frozenset[str]) -> None:
    some = [defense(method=method) for method in ("first", "second")]
    broken = [defense(method=method, require=breaks) for method in ("bad", "worse")]
    registry = installed().joined(offered(*broken, *some).entries.values())
    names = ["acme/bad", "acme/first", "acme/worse", "acme/second"]
    graphs = [plan(registry, *names), plan(registry, *reversed(names))]
    for method in ("first", "second"):
        assert any(f"acme/{method}" in task.address for task in graphs[0].tasks.values())
    assert alone < graphs[0].tasks.keys()
    assert [*graphs[0].tasks] == [*graphs[1].tasks]
    assert [*graphs[0].missing] == [*graphs[1].missing]


def test_a_track_that_cannot_be_planned_without_strangers_says_why() -> None:
    registry = installed().joined(offered(defense()).entries.values())
    track_settings = {"select": {**SELECT, "defense": ["none", "acme/bad"]}, "options": {"shown": ["nobody"]}}
    with pytest.raises(HarnessError, match="no attack is called 'nobody'"):
        plan_track(IQA, Profile(name="t", description="", tracks={IQA: track_settings}), registry)


@pytest.mark.parametrize("value", ["inf", "nan", "1e999", "'-inf'"])
def test_a_name_with_a_value_that_has_no_digest_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="Out of range float"):
        offered(defense(NUMBER)).find("defense", f"acme/bad[x={value}]")


def test_the_owner_of_this_project_is_reserved() -> None:
    registry = offered(defense(id="harness/jpeg."))
    assert not registry.entries
    assert "harness/jpeg.: the owner 'harness' is reserved" in registry.failures[0].reason


@pytest.mark.parametrize(
    "description", [{"parameters": {"x": "1e999"}}, {"documentation": "d", "info": {"group": "g\u202e"}}]
)
def test_a_description_from_the_sandbox_is_held_to_the_same(description: dict[str, Any]) -> None:
    facts = {
        "contract": "Purification",
        "class": "Bad",
        "documentation": "A defense.",
        "schema": {"x": {"type": "number"}},
        "defaults": {"x": 1.0},
        "parameters": {"x": 1.0},
        "declares": {},
    }
    info = {"id": "acme/bad", "version": "1", "differentiable": True, **description.get("info", {})}
    assert proxy({**facts, "info": {**info, "group": "g"}}, None).label == "acme/bad"
    with pytest.raises(PluginError, match="acme/bad"):
        proxy({**facts, **description, "info": info}, None)

"""Every contract says once how it is called: runs check it, the conformance suite tries it, the sandbox carries it."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

from imharness.components.loading import load_plugins
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import Registry, build_registry, info_class
from imharness.contracts.call import Data, call_of
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng
from imharness.errors import ContractError, PluginError
from imharness.images import Certificate
from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running.context import BuildCache, TaskContext
from imharness.running.shards import Shards
from imharness.testing import check_component
from imharness.testing.contracts import contract_of, contracts
from imharness.testing.crossing import all_restored, all_tensors
from imharness.testing.probes import probe_of
from imharness_submissions.sandbox.describing import described
from imharness_submissions.sandbox.proxies import proxy
from imharness_submissions.sandbox.questions import able

CPU = torch.device("cpu")
EVERY = sorted(contracts())
WRONG = torch.full((7, 5), float("nan"))
"""A result that fits no contract."""
TRAINED_ONLY = {"TrainingDefense", "WeightTraining"}
"""Run by `harness train`; no input for them can be drawn."""
CARRIED = {
    "Attack",
    "FittedAttack",
    "Purification",
    "Certification",
    "NoReferenceMetric",
    "FullReferenceMetric",
    "DistributionMetric",
    "MembershipEvaluator",
    "MembershipRelease",
    "GradientDefense",
    "ImageProtection",
}
"""Contracts whose components can run in the sandbox."""
FACTS = {
    "DefenseInfo": {"differentiable": False},
    "MetricInfo": {"higher_means": "better_quality", "bounds": (0, 1), "differentiable": False},
    "AttackInfo": {"access": "black_box", "norm": "linf", "strengths": {}},
}
"""Class of an info -> fields that it requires beside id and version."""


def fake(contract: type[Component], result: Any) -> Component:
    """Return a component of a contract whose functions all return `result`, whatever their arguments are."""

    def method(name: str) -> Any:
        call = getattr(contract, "call" if name == "build" else f"{name}_call", None)
        if isinstance(call, Data) or (call is not None and call.direct):
            return lambda self, *inputs: result
        return lambda self, *inputs: lambda *arguments: result

    info = info_class(contract)
    body: dict[str, Any] = {name: method(name) for name in [*contract.__abstractmethods__, *_methods(contract)]}
    body |= {"__doc__": "A fake.", "info": info(id="acme/fake", version="1", **FACTS.get(info.__name__, {}))}
    fake_class: Any = type("Fake", (contract,), {**body, "__module__": __name__})
    return fake_class()  # type: ignore[no-any-return]


def _methods(contract: type[Component]) -> list[str]:
    return [name.removesuffix("_call") for name in dir(contract) if name.endswith("_call")]


def context(component: Component, folder: Path) -> TaskContext:
    """Return the context of a task with one component, in the role "role"."""
    registry = Registry([Registered(component, "test", Provenance("test", "1"))])
    spec = TaskSpec(
        track="", step="", version="", components={"role": component.ref()}, options={}, limit=None, seed=0, needs={}
    )
    cache = BuildCache(registry, Store(folder), CPU, 16)
    return TaskContext(cache, Shards(cache.store, ""), spec, lambda done, total: None)


def arguments_of(component: Component) -> dict[str, Any]:
    """Return the arguments that the conformance suite draws for a component; {} if it draws none or it is SMOOTHED."""
    probe = probe_of(component, 1)
    if probe is None or isinstance(call_of(type(component)), Data) or contract_of(type(component)).__name__ in SMOOTHED:
        return {}
    size = probe.sizes[0]
    return probe.named_arguments(probe.inputs(*size), probe.seeds(size[0]))


SMOOTHED = {"Certification"}
"""Contracts for which the suite draws images, though their function is called with scores of smoothed copies."""


@pytest.mark.parametrize("name", EVERY)
def test_a_wrong_result_is_refused_in_a_run(name: str, tmp_path: Path) -> None:
    contract = contracts()[name]
    component = fake(contract, WRONG)
    run = context(component, tmp_path)
    if isinstance(call_of(contract), Data):
        with pytest.raises(ContractError, match="acme/fake"):
            run.build("role")
        return
    for method in ["build", *_methods(contract)]:
        call = call_of(contract, method)
        extra = {"FittedAttack": [{}]}.get(name, []) if method == "build" else []
        arguments = {**dict.fromkeys(call.arguments), **(arguments_of(component) if method == "build" else {})}
        arguments |= {n: torch.zeros(2, 3, 8, 8) for n in ("images", "scores") if n in arguments}
        if method == "build_together":
            arguments["networks"] = [torch.nn.Linear(1, 1).train()]
        with pytest.raises(ContractError, match="acme/fake"):
            run.build("role", *extra, method=method)(*arguments.values())


IMAGES = torch.rand(2, 3, 8, 8)
NAN = float("nan")
ROWS = torch.zeros(2)


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("Purification", (IMAGES, None), IMAGES * NAN),
        ("Attack", (IMAGES, None, None), IMAGES * NAN),
        ("NoReferenceMetric", (IMAGES,), ROWS * NAN),
        ("FullReferenceMetric", (IMAGES, IMAGES), ROWS * NAN),
        ("DistributionMetric", (IMAGES, IMAGES), NAN),
        ("Certification", (torch.zeros(2, 5, 1), (0.0, 1.0)), Certificate(ROWS * NAN, ROWS, ROWS, ROWS > 0)),
        ("MembershipRelease", (torch.full((2, 4), 0.25), None, None), torch.full((2, 4), NAN)),
        ("MembershipRelease", (torch.full((2, 4), 0.25), None, None), torch.full((2, 4), 1.5)),
        ("GradientDefense", ({"w": torch.ones(2, 3)}, None), {"w": torch.full((2, 3), NAN)}),
        ("GradientDefense", ({"w": torch.ones(2, 3)}, None), {"w": torch.ones(2, 4)}),
        ("ImageProtection", (IMAGES, torch.ones(2, 4), None, None), (IMAGES * NAN, torch.ones(2, 4))),
        ("ImageProtection", (IMAGES, torch.ones(2, 4), None, None), (IMAGES, torch.ones(2, 5))),
        ("ReconstructionAttack", ({"w": torch.ones(2, 3)}, None, (3, 8, 8), ImageRng([0, 1]), None), IMAGES * NAN),
        ("MembershipTraining", (None,) * 5, torch.nn.Linear(1, 1).train()),
    ],
)
def test_nan_and_other_shapes_are_refused_in_a_run(name: str, arguments: Any, result: Any, tmp_path: Path) -> None:
    built = context(fake(contracts()[name], result), tmp_path).build("role")
    with pytest.raises(ContractError, match="acme/fake"):
        built(*arguments)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in TRAINED_ONLY])
def test_a_wrong_result_fails_the_conformance_suite(name: str) -> None:
    statuses = {o.check: o.status for o in check_component(fake(contracts()[name], WRONG), seed=1)}
    assert statuses["gives what its contract says"] == "failed"


@pytest.mark.parametrize("name", EVERY)
def test_a_contract_goes_into_the_sandbox_or_is_refused_by_name(name: str) -> None:
    contract = contracts()[name]
    assert able(call_of(contract)) == (name in CARRIED)
    facts = described(fake(contract, WRONG))
    assert facts["contract"] == name
    if name in CARRIED:
        assert isinstance(proxy(facts, None), contract)
    else:
        with pytest.raises(PluginError, match=f"{name} cannot run in the sandbox"):
            proxy(facts, None)


@pytest.mark.parametrize("name", sorted(CARRIED - {"Certification"}))
def test_arguments_come_back_from_tensors_as_they_were(name: str) -> None:
    component = fake(contracts()[name], WRONG)
    arguments, call = arguments_of(component), call_of(type(component))
    kinds = {n: kind for n, kind in call.arguments.items() if n != "target"}
    there = all_tensors(kinds, arguments)
    again = all_tensors(kinds, all_restored(kinds, there, CPU))
    assert there.keys() == again.keys()
    assert all(torch.equal(there[n], again[n]) for n in there)


def test_a_contract_of_another_package_needs_no_change_here(install_packages, tmp_path: Path) -> None:
    registry = build_registry(load_plugins(install_packages("acme-contract")))
    assert registry.failures == []
    blend, overshoot = (registry.one("defense", f"acme/{name}") for name in ("blend", "overshoot"))
    guided = importlib.import_module("acme_contract").GuidedCleaning
    assert contract_of(type(overshoot)) is guided
    images, guide = torch.zeros(2, 3, 8, 8), torch.ones(2, 3, 8, 8)
    assert torch.equal(context(blend, tmp_path).build("role")(images, guide, None), (images + guide) / 2)
    with pytest.raises(ContractError, match=r"acme/overshoot: expected values in \[0, 1\]"):
        context(overshoot, tmp_path).build("role")(images, guide, None)
    assert {o.status for o in check_component(blend, seed=1)} <= {"passed", "skipped"}
    assert "in [0, 1]" in {o.check: o.message for o in check_component(overshoot)}["gives what its contract says"]
    assert isinstance(proxy(described(blend), None), guided)


def test_a_kind_of_value_of_another_package_says_how_it_is_drawn_and_whether_it_crosses(
    install_packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = build_registry(load_plugins(install_packages("acme-contract")))
    darken = registry.one("defense", "acme/darken")
    gains = arguments_of(darken)["gains"]
    assert torch.allclose(gains, torch.linspace(0.1, 0.9, 3) + gains[0] - 0.1)  # as `Gains.draw` of acme-contract
    statuses = {o.check: o.status for o in check_component(darken, seed=1)}
    assert set(statuses.values()) <= {"passed", "skipped"}
    assert statuses["treats each row alone, whatever the batch and its order"] == "passed"
    assert isinstance(proxy(described(darken), None), contract_of(type(darken)))
    monkeypatch.setattr(type(call_of(type(darken)).arguments["gains"]), "crosses", False)
    with pytest.raises(PluginError, match="Development cannot run in the sandbox"):
        proxy(described(darken), None)

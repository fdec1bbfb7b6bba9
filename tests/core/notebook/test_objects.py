"""Own objects before they are evaluated: their names, their arguments, and errors that name an argument."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import imharness as ih
from imharness.components.registry import checked_offer
from imharness.errors import PluginError, UsageError
from imharness.notebook import OFFERS
from imharness.notebook.components import component_of
from imharness.notebook.objects import built, called


def blurred(images: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(images, 3, 1, 1)


def test_importing_the_package_loads_no_library_and_lists_its_functions() -> None:
    code = (
        "import sys, imharness as ih; heavy = {'torch', 'numpy', 'pluggy', 'pydantic', 'imharness.notebook'} & "
        "sys.modules.keys(); assert not heavy, heavy; assert 'evaluate' in dir(ih) and 'Result' in dir(ih); "
        "assert not hasattr(ih, 'evaluat'); ih.Result, ih.load, ih.compare; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=400)


def test_every_name_that_is_offered_is_there_and_known_to_editors() -> None:
    assert sorted(OFFERS) == ih.__all__
    assert all(getattr(ih, name) is not None for name in OFFERS)


def test_an_object_is_named_after_itself_or_as_asked() -> None:
    assert ih.defense(blurred, differentiable=True).name == "blurred"
    assert ih.defense(torch.nn.Identity(), differentiable=True).name == "identity"
    assert ih.defense(lambda x: x, differentiable=True).name == "defense"
    assert ih.defense(blurred, differentiable=True, name="My Blur (3)").name == "my-blur-3"
    with pytest.raises(UsageError, match="name: '///' has no ASCII letter"):
        ih.defense(blurred, differentiable=True, name="///")


def test_errors_name_the_argument() -> None:
    with pytest.raises(UsageError, match="higher_means: 'good' is none of better_quality"):
        ih.metric(blurred, bounds=(0, 1), higher_means="good")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"bounds: a metric without a reference needs \(lower, upper\)"):
        ih.metric(blurred, higher_means="better_quality")
    with pytest.raises(UsageError, match=r"bounds: expected finite"):
        ih.metric(blurred, bounds=(1, 0), higher_means="better_quality")
    with pytest.raises(UsageError, match="obj: blurred takes 1 arguments; it would be called with 2"):
        ih.metric(blurred, higher_means="worse_quality", reference=True)
    with pytest.raises(UsageError, match="fn: expected a function or another callable, got 3"):
        ih.defense(3, differentiable=True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="radius: expected a finite number above 0 for the norm linf, got None"):
        ih.attack(lambda x, target: x, access="white_box", norm="linf")
    with pytest.raises(UsageError, match="access: 'grey' is none of"):
        ih.attack(lambda x, target: x, access="grey", norm="l2", radius=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"radius": "8"}, "radius: expected a finite number above 0 for the norm linf, got '8'"),
        ({"radius": float("inf")}, "radius: expected a finite number above 0 for the norm linf, got inf"),
        ({"radius": 0.1, "queries": "8"}, "queries: expected a whole number, got '8'"),
        ({"radius": 0.1, "name": 3}, "name: expected text, got 3"),
        ({"radius": 0.1, "cache_key": 3}, "cache_key: expected text, got 3"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(facts: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ih.attack(lambda images, target: images, access="black_box", norm="linf", **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("bounds", [3, ("a", "b"), (0, float("nan")), (1, 0), (0, 1, 2)])
def test_bounds_are_two_finite_numbers(bounds: object) -> None:
    with pytest.raises(UsageError, match="bounds: expected finite"):
        ih.metric(lambda images: images, bounds=bounds, higher_means="better_quality")  # type: ignore[arg-type]


def test_numbers_of_numpy_are_taken() -> None:
    attack = ih.attack(
        lambda images, target: images, access="black_box", norm="linf", radius=np.float32(0.5), queries=np.int64(3)
    )
    assert json.dumps(dict(attack.facts)) == json.dumps(
        {"access": "black_box", "norm": "linf", "radius": 0.5, "queries": 3}
    )


def test_a_track_says_which_objects_it_takes() -> None:
    with pytest.raises(
        UsageError, match="objects: track harness/perceptual does not take your own defense; it takes: m"
    ):
        component_of(ih.defense(blurred, differentiable=True), "harness/perceptual", "")
    metric = ih.metric(lambda x, y: x, higher_means="worse_quality", reference=True)
    with pytest.raises(UsageError, match="objects: track harness/iqa takes metrics without a reference"):
        component_of(metric, "harness/iqa", "")


def test_facts_are_part_of_what_a_result_depends_on() -> None:
    def content(bounds: tuple[float, float]) -> str:
        metric = ih.metric(blurred, bounds=bounds, higher_means="better_quality")
        return component_of(metric, "harness/iqa", "same code").component.ref().content

    assert content((0, 1)) == content((0, 1)) != content((0, 2))


def test_a_plugin_cannot_take_the_owner_of_local_objects() -> None:
    component = component_of(ih.defense(blurred, differentiable=True), "harness/iqa", "").component
    with pytest.raises(PluginError, match="local/blurred: the owner 'local' is reserved for objects of notebooks"):
        checked_offer(component)


def test_a_function_gets_as_many_arguments_as_it_requires() -> None:
    # The last argument of `called` is how many values a function gets; it gets more only if it requires them.
    assert called(lambda a: a, (1, 2), 1) == 1
    assert called(lambda a, b: (a, b), (1, 2), 1) == (1, 2)
    assert called(lambda a, b=5: (a, b), (1, 2), 1) == (1, 5)
    assert called(lambda a, b=5: (a, b), (1, 2), 2) == (1, 2)
    assert called(lambda *all: all, (1, 2), 2) == (1, 2)


def test_of_a_module_a_frozen_copy_is_used() -> None:
    module = torch.nn.BatchNorm2d(3).train()
    used = built(module, torch.device("cpu"))
    assert isinstance(used, torch.nn.BatchNorm2d)
    assert not used.training
    assert not any(parameter.requires_grad for parameter in used.parameters())
    assert module.training
    assert module.weight.requires_grad

"""Every first-party plugin passes the conformance suite that third parties' plugins are put to."""

from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from imharness.components.component import Component
from imharness.components.registry import installed
from imharness.contracts.defense import Purification
from imharness.errors import Unavailable
from imharness.randomness import ImageRng
from imharness.running.checks import check_images
from imharness_conformance import Trial, trials
from imharness_conformance.samples import images

pytestmark = pytest.mark.usefixtures("assets_at_hand")

AT_BOUND_S, SLOW_S = 0.5, 8.0
"""What takes longer is skipped here; `harness plugins check` gives it more."""
FEW = {
    "queries": 600, "steps": 10, "iterations": 10, "population": 12, "generations": 2, "pairs": 2, "epochs": 2,
    "starts": 1, "width": 8, "depth": 3, "tile": 64, "samples": 300, "selection": 20, "copies": 2, "budget": 60,
}  # fmt: skip
"""Enough to see a method at work."""


def small(component: Component) -> Component:
    """Return a component with less work to do, where that is allowed."""
    for name, value in FEW.items():
        if name in type(component).model_fields and getattr(component, name) > value:
            with suppress(ValidationError):
                component = component.with_parameters(**{name: value})
    return component


def first_of_each_class() -> list[Trial]:
    found = {type(entry.component): entry.component for entry in reversed(installed().entries.values())}
    components = sorted(found.values(), key=lambda c: (c.kind, c.label))
    every = [trial for component in components for trial in trials(small(component), 1)]
    return [replace(t, limit=AT_BOUND_S if "bound" in t.check else SLOW_S) for t in every]


@pytest.mark.parametrize("trial", [pytest.param(trial, id=trial.name) for trial in first_of_each_class()])
@pytest.mark.usefixtures("assets_at_hand")
def test_a_plugin_keeps_its_contract(trial: Trial) -> None:
    outcome = trial.run()
    if outcome.status == "skipped":
        pytest.skip(outcome.message)
    assert outcome.status == "passed", outcome.message


def test_all_plugins_load() -> None:
    assert installed().failures == []


SMALL = [e.component for e in installed().entries.values() if isinstance(e.component, Purification)]


@pytest.mark.parametrize("defense", [pytest.param(defense, id=defense.label) for defense in SMALL])
def test_a_purification_takes_a_thumbnail(defense: Purification) -> None:
    if "size" in type(defense).model_fields:
        defense = defense.with_parameters(size=8)
    try:
        defense.require()
    except Unavailable as error:
        pytest.skip(str(error))
    batch = images(2, 12, 12, 0)
    check_images(defense.build(torch.device("cpu"))(batch, ImageRng([1, 2])), 2, defense.label)

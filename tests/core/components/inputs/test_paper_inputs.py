"""Each input of the paper profile is tried with a stand-in in the published layout: loaded, or refused if wrong."""

from __future__ import annotations

from tests.core.components.inputs.test_importing import PACKED, SETS
from tests.standins import DATA, FILES

from imharness.components.inputs.needs import Input, inputs_of
from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.data import DataSource
from imharness.images import Asset
from imharness.planning.profiles import load_profile

KEPT_ELSEWHERE = {"harness/maniqa", "harness/clip-iqa-plus", "harness/topiq", "harness/paq2piq"}
"""Metrics whose weights pyiqa gets itself: they are no input of ours, and have no stand-in."""


def selected() -> list[Component]:
    """Return what the paper profile selects, track by track, with what its tracks name beside the selection."""
    registry, found = installed(), dict[str, Component]()
    for part in load_profile("paper").tracks.values():
        for kind, names in part.select.items():
            own = dict[str, Component]()
            for name in names:
                named = registry.of_kind(kind) if name == "*" else registry.find(kind, name.removeprefix("!"))
                for component in named:
                    if name.startswith("!"):
                        own.pop(component.label, None)
                    else:
                        own[component.label] = component
            found |= {f"{kind} {label}": component for label, component in own.items()}
    return list(found.values())


def inputs() -> dict[str, Input]:
    return inputs_of(selected())


def test_every_data_set_of_the_paper_profile_is_packed_imported_and_spoilt() -> None:
    """By `test_importing.py`: taken as it is published, and refused in one line where it is wrong."""
    names = {own.name for own in inputs().values() if isinstance(own.what, DataSource)}
    assert len(names) >= 13
    assert names <= set(SETS) == set(PACKED)
    assert names <= set(DATA)


def test_all_weights_of_the_paper_profile_have_a_stand_in() -> None:
    """By tests/core/testing/test_first_party.py: loaded by the product and put to the suite with random weights."""
    found = {own.name for own in inputs().values() if isinstance(own.what, Asset)}
    assert len(found) >= 15
    assert found - set(FILES) == set()
    without = {own.info.id for own in selected() if own.kind == "metric" and own.info.id in KEPT_ELSEWHERE}
    assert without == KEPT_ELSEWHERE

"""Every input of the paper profile has a stand-in, with which other tests import and load it."""

from __future__ import annotations

from tests.core.components.inputs.test_importing import SETS
from tests.data_layouts import DATA_LAYOUTS
from tests.standins import DATA, FILES

from imharness.components.inputs.needs import Input, inputs_of
from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.data import DataSource
from imharness.images import Asset
from imharness.planning.profiles import load_profile

KEPT_ELSEWHERE = {"harness/maniqa", "harness/clip-iqa-plus", "harness/topiq", "harness/paq2piq"}
"""Metrics whose weights pyiqa downloads itself: the harness lists them as no input, and there is no stand-in."""


def selected() -> list[Component]:
    """Return the components that the paper profile selects in any track; names with ! in front leave some out."""
    registry, selection = installed(), dict[str, Component]()
    for track_profile in load_profile("paper").tracks.values():
        for kind, names in track_profile.select.items():
            by_label = dict[str, Component]()
            for name in names:
                named = registry.of_kind(kind) if name == "*" else registry.find(kind, name.removeprefix("!"))
                for component in named:
                    if name.startswith("!"):
                        by_label.pop(component.label, None)
                    else:
                        by_label[component.label] = component
            selection |= {f"{kind} {label}": component for label, component in by_label.items()}
    return list(selection.values())


def inputs() -> dict[str, Input]:
    return inputs_of(selected())


def test_every_data_set_of_the_paper_profile_is_packed_imported_and_spoilt() -> None:
    """tests/plugins/test_data_layouts.py imports each as it is published, `test_importing.py` refuses wrong files."""
    names = {entry.name for entry in inputs().values() if isinstance(entry.what, DataSource)}
    assert len(names) >= 13
    assert names <= set(SETS) == set(DATA_LAYOUTS)
    assert names <= set(DATA)


def test_all_weights_of_the_paper_profile_have_a_stand_in() -> None:
    """tests/core/testing/test_first_party.py loads each with random weights and runs the conformance suite on it."""
    names = {entry.name for entry in inputs().values() if isinstance(entry.what, Asset)}
    assert len(names) >= 15
    assert names - set(FILES) == set()
    without = {
        component.info.id
        for component in selected()
        if component.kind == "metric" and component.info.id in KEPT_ELSEWHERE
    }
    assert without == KEPT_ELSEWHERE

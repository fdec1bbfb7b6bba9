"""A first-party component whose numbers change has another version; the numbers of each version are in a table."""

import json
from typing import Any

import pytest
from tests.core.testing.numbers import COMMAND, TABLE, first_party, numbers_of
from tests.standins import StandIns

from imharness.components.registry import installed
from imharness.contracts.component import Component

RECORDED: dict[str, Any] = json.loads(TABLE.read_text())
WITH_NUMBERS = [name for name, entry in RECORDED.items() if "numbers" in entry]
SLIGHT = {"jpeg": {"quality": 51}, "gaussian-blur": {"kernel": 5}}
"""Method -> a slight change, as a slip in its code may be."""


def difference(component: Component, entry: dict[str, Any]) -> float:
    """Return the largest difference from the recorded numbers, relative to the root mean square of the output."""
    numbers = numbers_of(component)
    assert len(numbers) == len(entry["numbers"])
    return max(abs(a - b) for a, b in zip(numbers, entry["numbers"], strict=True)) / max(entry["numbers"][0], 1e-12)


def test_the_table_has_every_component_with_its_version() -> None:
    assert {name: entry["version"] for name, entry in RECORDED.items()} == {
        name: component.info.version for name, component in first_party().items()
    }, f"write the table again: {COMMAND}"


def test_the_table_says_much() -> None:
    assert len(WITH_NUMBERS) >= 120
    assert sum(RECORDED[name]["tolerance"] <= 1e-3 for name in WITH_NUMBERS) >= 110


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers_change_only_with_the_version(name: str, stand_ins: StandIns) -> None:
    component, entry = stand_ins.provide(first_party()[name]), RECORDED[name]
    if component.info.version == entry["version"]:
        distance = difference(component, entry)
        assert distance <= entry["tolerance"], (
            f"{name} gives other numbers than its version {entry['version']} did, by {distance:.2g}: "
            f"raise its version, and write the table again: {COMMAND}"
        )


def test_a_slight_change_of_a_method_is_noticed() -> None:
    for method, change in SLIGHT.items():
        component = installed().one("defense", method)
        name = f"defense {component.label}"
        assert difference(component, RECORDED[name]) <= RECORDED[name]["tolerance"]
        assert difference(component.with_parameters(**change), RECORDED[name]) > 2 * RECORDED[name]["tolerance"], name

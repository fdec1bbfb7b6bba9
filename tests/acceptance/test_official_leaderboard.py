"""What the official profile costs is what its page says, and what a lab can afford."""

import re
from pathlib import Path
from statistics import median

import pytest

from imharness.cli.planning import Outlook, outlook
from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "official-leaderboard.md"
ALL, MOST, SMALL, ENTRY = 250, 200, 20, 2
"""GPU hours: all tracks, image quality, reconstruction with perceptual metrics, and most new entries."""


@pytest.fixture(scope="module")
def costs() -> dict[str, Outlook]:
    """Return the tasks, GPU hours and size of each track of the profile."""
    profile, registry = load_profile("official"), installed()
    return {track: outlook(plan_track(track, profile, registry, whole=True)) for track in profile.tracks}


def test_a_lab_can_afford_it(costs: dict[str, Outlook]) -> None:
    hours = {track: cost.hours for track, cost in costs.items()}
    assert all(cost.counted == cost.tasks for cost in costs.values()), "every task is counted"
    assert sum(hours.values()) <= ALL
    assert hours["harness/iqa"] <= MOST
    assert hours["harness/reconstruction"] + hours["harness/perceptual"] <= SMALL
    for track_cost in costs.values():
        assert median(entry.hours for entry in track_cost.entries.values()) <= ENTRY
    plain = ("flip", "jpeg", "gaussian-blur", "random-noise", "median-blur")
    assert all(costs["harness/iqa"].entries[f"harness/{name}"].hours <= ENTRY for name in plain)


def test_every_entry_above_the_limit_is_an_exception_with_a_reason_and_no_other_is(costs: dict[str, Outlook]) -> None:
    limit = load_profile("official").entry_hours
    assert limit == ENTRY
    for track_cost in costs.values():
        assert {
            label for label, entry in track_cost.entries.items() if entry.hours > limit
        } == track_cost.over_budget.keys()
        for label, reason in track_cost.over_budget.items():
            assert f"{track_cost.entries[label].hours:.1f}" in PAGE.read_text(), "the page says what an exception costs"
            assert reason


def test_the_page_says_so(costs: dict[str, Outlook]) -> None:
    pattern = r"^\| `([a-z]+)` \| ([\d.]+) \| ([\d.]+) GB \| ([\d,]+) \| ([\d.]+) \| ([\d.]+), `"
    rows = re.findall(pattern, PAGE.read_text(), re.M)
    assert {f"harness/{track}" for track, *_ in rows} == costs.keys()
    for track, hours, size, tasks, middle, most in rows:
        track_cost = costs[f"harness/{track}"]
        entries = [entry.hours for entry in track_cost.entries.values()]
        assert float(size) == pytest.approx(track_cost.size / 1e9, abs=0.05)
        assert float(hours) == pytest.approx(track_cost.hours, abs=0.05)
        assert int(tasks.replace(",", "")) == track_cost.tasks
        assert (float(middle), float(most)) == pytest.approx((median(entries), max(entries)), abs=0.005)

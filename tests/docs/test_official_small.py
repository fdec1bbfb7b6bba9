"""`official-small` keeps the protocol of `official`; its page names all that it leaves out, why, and how to get it."""

import re
from pathlib import Path

import pytest

from imharness.components.registry import installed
from imharness.planning.plan import named, plan_track
from imharness.planning.profile import Profile
from imharness.planning.profiles import load_profile

PAGE = Path(__file__).parents[2] / "docs" / "studies" / "official-small.md"
SAME = {
    "harness/iqa": ("strengths", "adaptive", "transfer", "certified"),
    "harness/membership": ("matched",),
    "harness/perceptual": (),
    "harness/reconstruction": (),
}
"""Track -> the options that make its protocol, apart from counts."""
ROW = re.compile(r"^\| (\w+) \| (\w+) `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.M)
REASON = re.compile(r"needs (data set|asset|weights of|the package) \S|a (pass takes|policy more is) \S")


@pytest.fixture(scope="module")
def both() -> tuple[Profile, Profile]:
    """Return the profile and the one that it is a part of."""
    return load_profile("official-small"), load_profile("official")


def labels(profile: Profile, track: str, kind: str) -> set[str]:
    return {component.label for component in named(installed(), kind, profile.tracks[track].select.get(kind, ()))}


def test_it_has_the_tracks_the_attacks_and_the_protocol_of_official(both: tuple[Profile, Profile]) -> None:
    small, whole = both
    assert small.tracks.keys() == whole.tracks.keys() == SAME.keys()
    for track, options in SAME.items():
        for kind in ("attack", "evaluator"):
            assert labels(small, track, kind) == labels(whole, track, kind)
        for option in options:
            assert small.tracks[track].options[option] == whole.tracks[track].options[option]
    assert labels(small, "harness/membership", "defense") == labels(whole, "harness/membership", "defense")


def test_what_is_left_out_is_on_its_page_with_the_reason_and_the_way_to_get_it(both: tuple[Profile, Profile]) -> None:
    small, whole = both
    rows = {(f"harness/{track}", kind, label): row for track, kind, label, *row in ROW.findall(PAGE.read_text())}
    absent = {
        (track, kind, label)
        for track, settings in whole.tracks.items()
        for kind in settings.select
        for label in labels(whole, track, kind) - labels(small, track, kind)
    }
    assert rows.keys() == absent
    assert len(absent) > 20
    for why, remedy in rows.values():
        assert REASON.match(why)
        assert re.search(r"harness (assets (get|import)|train|run) |pip install ", remedy)


@pytest.mark.parametrize("track", SAME)
def test_every_contest_is_planned(track: str, both: tuple[Profile, Profile]) -> None:
    assert len(plan_track(track, both[0], installed(), whole=True).tasks) > 90


def test_contests_have_units_enough_for_a_test(both: tuple[Profile, Profile]) -> None:
    """Contests here need at least as many units as those of the demo."""
    small, demo = both[0], load_profile("embedded")
    for track, option in (("harness/membership", "splits"), ("harness/reconstruction", "attacked")):
        assert small.tracks[track].options[option] >= demo.tracks[track].options[option] >= 12


def test_no_component_needs_more_than_its_page_says(both: tuple[Profile, Profile]) -> None:
    small, _ = both
    registry = installed()
    for settings in small.tracks.values():
        for kind, names in settings.select.items():
            for component in named(registry, kind, names):
                for asset in component.assets():
                    assert asset.address, f"{component.label} needs a file that a person has to ask for"


def test_its_page_has_the_hours_of_official() -> None:
    leaderboard = PAGE.parents[1] / "howto" / "official-leaderboard.md"
    [hours] = re.findall(r"^All together are (\d+) hours\.", leaderboard.read_text(), re.M)
    assert f"takes {hours} GPU hours" in PAGE.read_text()

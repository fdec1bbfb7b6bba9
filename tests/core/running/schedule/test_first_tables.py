"""The first table of each track of the embedded profile: a few tasks, enough for the track to report."""

import pytest

from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.running.watching import first_sets

STEPS = {
    "harness/iqa": {"clean", "purify", "defended", "graded", "attack", "evaluate"},
    "harness/membership": {"train", "evaluate"},
    "harness/perceptual": {"distance", "attack"},
    "harness/reconstruction": {"train", "reconstruct", "leakage"},
}
"""Track -> the steps of the tasks that its first table needs."""


@pytest.mark.parametrize("track", STEPS)
def test_the_first_tasks_are_few_and_of_the_steps_that_tables_need(track: str) -> None:
    profile = load_profile("embedded")
    first = profile.tracks[track].first
    only = {kind: list(names) for kind, names in first.items() if kind not in ("step", "dataset", "attack", "model")}
    graph = plan_track(track, profile, installed(), only=only)
    keys = first_sets([graph], profile)[track]
    assert {graph.tasks[key].spec.step for key in keys} == STEPS[track]
    assert len(keys) <= 120
    assert all(set(graph.tasks[key].spec.needs.values()) <= keys for key in keys)


def test_what_comes_first_changes_no_result_and_no_leaderboard() -> None:
    profile = load_profile("embedded")
    bare = {name: track.model_copy(update={"first": {}}) for name, track in profile.tracks.items()}
    for name in profile.tracks:
        assert profile.identity(name) == profile.model_copy(update={"tracks": bare}).identity(name)


def test_a_profile_that_names_no_kind_is_refused() -> None:
    profile = load_profile("embedded")
    graph = plan_track("harness/perceptual", profile, installed(), only={"metric": ["psnr"]})
    track = profile.tracks["harness/perceptual"].model_copy(update={"first": {"defence": ["x"]}})
    with pytest.raises(UsageError, match="defence"):
        first_sets([graph], profile.model_copy(update={"tracks": {"harness/perceptual": track}}))

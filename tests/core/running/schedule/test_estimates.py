"""Estimates of what is left of first runs, against recorded runs: nothing is known of any task when they start."""

import pytest
from tests.core.running.schedule.replaying import Point, recording, replay

from imharness.running.schedule.estimates import Times

FROM = 0.1
"""Of a run: from here on what is said should be right."""
FACTOR, BESIDE_S = 2.0, 5.0
PARTS = {
    "whole": (0.93, 0.3),
    "harness/iqa": (1.0, 0.5),
    "harness/membership": (1.0, 0.5),
    "harness/reconstruction": (1.0, 0.5),
}
"""Of the embedded profile: the share of points that must be right, and the least of what is left that may be said."""
PERCEPTUAL = {1: 0.95, 2: 1.0, 8: 1.0}
"""Of the perceptual track alone, by workers. One worker prepares photographs for a sixth of the run, in its first long
task; until it has told its share twice, nobody knows how fast it is then."""


def said(name: str, workers: int, part: str = "whole", times: Times | None = None) -> list[Point]:
    run = recording(name) if part == "whole" else recording(name).of(part)
    found = replay(run, workers, times or Times("cpu"), looks=50)
    return [point for point in found if point.at_s >= FROM * (point.at_s + point.left_s)]


def right(points: list[Point], beside_s: float = BESIDE_S) -> float:
    """Return the share of points at which what was said is right, or "not known yet"."""
    return sum(point.said_s is None or point.right(FACTOR, beside_s) for point in points) / len(points)


def told(points: list[Point]) -> float:
    """Return the share of points at which a time was said, and no bound."""
    return sum(point.said_s is not None and not point.at_least for point in points) / len(points)


@pytest.mark.parametrize(("part", "workers"), [("whole", 1), ("whole", 8), *((part, 2) for part in PARTS)])
def test_a_first_run_of_the_embedded_profile_is_foretold_within_a_factor_of_two(part: str, workers: int) -> None:
    points = said("embedded", workers, part)
    share, least = PARTS[part]
    assert all(point.said_s is not None for point in points)
    assert right(points) >= share
    far = [point for point in points if point.left_s > 2 * BESIDE_S and not point.at_least]
    assert all(least * point.left_s <= (point.said_s or 0.0) <= FACTOR * point.left_s for point in far)
    assert told(points) >= 0.95


@pytest.mark.parametrize("workers", [1, 2])
def test_a_first_run_of_the_quick_profile_says_a_bound_until_it_can_tell(workers: int) -> None:
    points = said("quick", workers)
    assert right(points) == 1.0
    assert told([point for point in points if point.at_s > 0.7 * (point.at_s + point.left_s)]) > 0.8


@pytest.mark.parametrize(("workers", "share"), PERCEPTUAL.items())
def test_a_first_run_of_the_perceptual_track_is_foretold_by_what_its_tasks_tell(workers: int, share: float) -> None:
    assert right(said("perceptual_shares", workers)) >= share


@pytest.mark.parametrize("workers", [1, 2])
def test_of_tasks_that_tell_nothing_the_time_that_they_run_for_counts(workers: int) -> None:
    """As from an executor that passes no shares on."""
    assert right(said("embedded", workers, "harness/perceptual")) >= 0.88


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_first_run_of_the_quick_profile_is_foretold_by_what_its_tasks_tell(workers: int) -> None:
    assert right(said("quick_shares", workers), beside_s=2.0) == 1.0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("track", ["iqa", "membership", "perceptual", "reconstruction"])
def test_a_few_seconds_are_foretold_or_not_known_yet(track: str, workers: int) -> None:
    """Half a minute and less; a guess of which most would be wrong is not shown."""
    points = said("quick_shares", workers, f"harness/{track}")
    assert right(points, beside_s=2.0) >= 0.97
    assert not any(point.said_s == 0.0 and not point.at_least for point in points)


def test_a_run_on_a_slower_machine_than_the_store_remembers_is_foretold() -> None:
    run, earlier = recording("embedded"), Times("cpu")
    for key, task in run.tasks.items():
        earlier.add(task.spec, run.seconds[key] / 3)
    points = said("embedded", 2, times=Times("cpu", earlier.kinds))
    assert right(points) >= 0.95
    assert not any(point.at_least for point in points)


def test_a_point_is_judged_by_what_was_left() -> None:
    assert Point(50.0, 50.0, 25.0, False).right(2.0, 0.0)
    assert not Point(50.0, 50.0, 24.0, False).right(2.0, 0.0)
    assert Point(50.0, 50.0, 24.0, True).right(2.0, 0.0)
    assert not Point(50.0, 50.0, 101.0, True).right(2.0, 0.0)
    assert not Point(50.0, 50.0, None, False).right(2.0, 0.0)

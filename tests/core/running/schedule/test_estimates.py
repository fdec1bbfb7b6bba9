"""Estimates of the time that is left, against recorded first runs: no task is known when they start."""

from pathlib import Path

import pytest
from tests.core.running.schedule.replaying import Point, recording, replay

from imharness.results.store import Store
from imharness.running.schedule.estimates import Times, learnt_times

FROM = 0.1
"""The share of a run after which estimates are judged."""
FACTOR, BESIDE_S = 2.0, 5.0
"""An estimate is right within this factor of the truth, or within so many seconds of it."""
PARTS = {"whole": 1.0, "harness/iqa": 1.0, "harness/membership": 1.0, "harness/reconstruction": 1.0}
"""Track of the embedded profile, or "whole" -> the share of points that must be right."""
PERCEPTUAL = {1: 0.6, 2: 0.9, 8: 0.75}
"""Workers -> the share of points that must be right in the perceptual track alone: one step has nearly all of the
work, in eleven tasks, and the first of them prepares photographs for a sixth of the run."""


def replayed(name: str, workers: int, portion: str = "whole", times: Times | None = None) -> list[Point]:
    run = recording(name) if portion == "whole" else recording(name).of(portion)
    points = replay(run, workers, times or Times("cpu"), looks=50)
    return [point for point in points if point.at_s >= FROM * (point.at_s + point.left_s)]


def right(points: list[Point], beside_s: float = BESIDE_S) -> float:
    """Return the share of points whose estimate is right or not known yet."""
    return sum(point.said_s is None or point.right(FACTOR, beside_s) for point in points) / len(points)


def share_with_time(points: list[Point]) -> float:
    """Return the share of points that have an estimate which is not only a bound."""
    return sum(point.said_s is not None and not point.at_least for point in points) / len(points)


@pytest.mark.parametrize(
    ("portion", "workers"), [("whole", 1), ("whole", 8), *((track_name, 2) for track_name in PARTS)]
)
def test_a_first_run_of_the_embedded_profile_is_foretold_within_a_factor_of_two(portion: str, workers: int) -> None:
    points = replayed("embedded", workers, portion)
    assert all(point.said_s is not None for point in points)
    assert right(points) >= PARTS[portion]
    assert share_with_time(points) >= 0.95


@pytest.mark.parametrize("workers", [1, 2])
def test_a_first_run_of_the_quick_profile_says_a_bound_until_it_can_tell(workers: int) -> None:
    points = replayed("quick", workers)
    assert right(points) == 1.0
    assert share_with_time([point for point in points if point.at_s > 0.7 * (point.at_s + point.left_s)]) > 0.8


@pytest.mark.parametrize(("workers", "share"), PERCEPTUAL.items())
def test_a_first_run_of_few_long_tasks_is_foretold(workers: int, share: float) -> None:
    assert right(replayed("perceptual_shares", workers)) >= share


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_first_run_of_half_a_minute_is_foretold(workers: int) -> None:
    assert right(replayed("quick_shares", workers)) >= 0.9


def test_a_run_on_a_slower_machine_than_the_store_remembers_is_foretold(tmp_path: Path) -> None:
    run, earlier = recording("embedded"), Times("cpu")
    for key, task in run.tasks.items():
        earlier.add(task.spec, run.seconds[key] / 3)
    earlier.keep(Store(tmp_path))
    points = replayed("embedded", 2, times=learnt_times(Store(tmp_path), "cpu"))
    assert right(points) >= 0.95
    assert not any(point.at_least for point in points)


def test_a_point_is_judged_by_what_was_left() -> None:
    assert Point(50.0, 50.0, 25.0, False).right(2.0, 0.0)
    assert not Point(50.0, 50.0, 24.0, False).right(2.0, 0.0)
    assert Point(50.0, 50.0, 24.0, True).right(2.0, 0.0)
    assert not Point(50.0, 50.0, 101.0, True).right(2.0, 0.0)
    assert not Point(50.0, 50.0, None, False).right(2.0, 0.0)

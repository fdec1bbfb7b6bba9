"""Causes of failed tasks: each cause is named once, with all its tasks."""

from imharness.results.sweeps import NEEDS, causes_of


def test_a_cause_is_said_once_with_the_tasks_in_which_it_happened_first() -> None:
    failed = {"late": f"{NEEDS}{NEEDS}boom\n here))", "a": "boom  here", "b": "other", "c": "boom here"}
    causes = causes_of(failed)
    assert [(cause.why, cause.tasks) for cause in causes] == [("boom here", ("a", "c", "late")), ("other", ("b",))]

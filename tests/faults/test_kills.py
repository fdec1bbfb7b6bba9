"""Runs and an annotation server that are killed at random moments lose nothing, and runs end with the same bytes."""

from pathlib import Path

from tests.faults.many_kills import kill_many


def test_killed_commands_go_on_and_lose_nothing(tmp_path: Path) -> None:
    tally = kill_many(tmp_path, 5, 3, ("attack", "ranking", "publishing", "annotation"))
    assert tally.wrong == []
    assert tally.left == []
    assert tally.kills >= 4
    assert tally.compared > 20

"""A listener that is told of all tables: it puts the number of leaderboards beside the store."""

from collections.abc import Sequence
from pathlib import Path

from imharness.tracks import Leaderboard, hookimpl


@hookimpl
def leaderboard_finished(store: str, leaderboards: Sequence[Leaderboard]) -> None:
    Path(f"{store}.told").write_text(str(len(leaderboards)))

"""A listener without settings: it writes the number of leaderboards into the file STORE.told."""

from collections.abc import Sequence
from pathlib import Path

from imharness.tracks import Leaderboard, hookimpl


@hookimpl
def leaderboard_finished(store: str, leaderboards: Sequence[Leaderboard]) -> None:
    Path(f"{store}.told").write_text(str(len(leaderboards)))

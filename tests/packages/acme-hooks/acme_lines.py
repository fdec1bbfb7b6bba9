"""``--log-to lines:FILE``: a line of JSON for each leaderboard."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from imharness.errors import UsageError
from imharness.tracks import Leaderboard, hookimpl


class Lines:
    """Appends to a file; one in a folder that is not there raises."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @hookimpl
    def leaderboard_finished(self, store: str, leaderboards: Sequence[Leaderboard], release: str | None) -> None:
        with self._file.open("a") as file:
            for leaderboard in leaderboards:
                file.write(json.dumps({"store": store, "track": leaderboard.track, "release": release}) + "\n")


def to_file(address: str) -> Lines:
    """Return what writes into the file that an address names."""
    if not address:
        raise UsageError("--log-to lines needs a file: lines:FILE.")
    return Lines(Path(address))


@hookimpl
def listeners() -> dict[str, Callable[[str], object]]:
    return {"lines": to_file}

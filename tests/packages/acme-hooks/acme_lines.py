"""``--log-to lines:FILE``: a line of JSON for each board."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from imharness.errors import UsageError
from imharness.tracks import Board, hookimpl


class Lines:
    """Appends to a file; one in a folder that is not there raises."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @hookimpl
    def board_finished(self, store: str, boards: Sequence[Board], release: str | None) -> None:
        with self._file.open("a") as file:
            for board in boards:
                file.write(json.dumps({"store": store, "track": board.track, "release": release}) + "\n")


def to_file(address: str) -> Lines:
    """Return what writes into the file that an address names."""
    if not address:
        raise UsageError("--log-to lines needs a file: lines:FILE.")
    return Lines(Path(address))


@hookimpl
def listeners() -> dict[str, Callable[[str], object]]:
    return {"lines": to_file}

"""Publishes a release: the site in a folder that a static host serves, and a snapshot of it that never changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from imharness.errors import DamagedError, StoreError, UsageError
from imharness.results.boards import Board
from imharness.results.disk import UNFINISHED
from imharness.results.identity import LEFT_HERE, LOCAL
from imharness.results.store import Store
from imharness_leaderboard.changes import read_releases
from imharness_leaderboard.folder import MANIFEST
from imharness_leaderboard.pages import Built, build_site

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def publish_site(store: str | Path, folder: Path, release: str, secret: str | Path | None = None) -> Built:
    """Build the site into `folder` and copy it to ``folder/v/<release>``.

    `secret` as in `build_site`. Raises `UsageError` for a name that is taken or not allowed, and `StoreError` when
    something cannot be written.
    """
    if not NAME.fullmatch(release):
        raise UsageError(f"{release!r} cannot name a release; use letters, digits, dots, dashes and underscores.")
    snapshot = folder / "v" / release
    releases = read_releases(folder)
    if releases and releases[-1].name == release and not snapshot.exists():
        releases.pop()  # an earlier publication was cut off before its snapshot was there
    if snapshot.exists() or release in {known.name for known in releases}:
        raise UsageError(f"release {release} is published already and never changes; choose another name.")
    refuse_local(published_boards(store), store)
    built = build_site(store, folder, releases, release, secret)
    temporary = folder / "v" / f".{release}"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(folder, temporary, ignore=lambda path, names: _not_copied(folder, path, names))
        temporary.rename(snapshot)
        (folder / ".nojekyll").touch()
    except OSError as error:
        raise StoreError(f"snapshot {snapshot} cannot be written: {error.strerror or error}") from None
    return built


def published_boards(address: str | Path) -> list[Board]:
    """Return the tables of a store that can be read; others are made again before they are shown."""
    store, found = Store(address), list[Board | None]()
    for track in store.ranked():
        with suppress(DamagedError):
            found.append(store.board(track))
    return [board for board in found if board is not None]


def refuse_local(boards: Sequence[Board], address: str | Path) -> None:
    """Raise `UsageError` where tables of a store rank objects of a notebook or script."""
    for board in boards:
        local = [entry.label for entry in board.entries if entry.id.startswith(f"{LOCAL}/")]
        if local:
            raise UsageError(
                f"the tables of {board.track} contain {', '.join(local)}: {LEFT_HERE}; "
                f"`harness results rank --store {address}` makes them again without."
            )


def _not_copied(folder: Path, path: str, names: list[str]) -> set[str]:
    return {"v", ".git", ".nojekyll", MANIFEST, UNFINISHED} & set(names) if Path(path) == folder else set()

"""Seasons of a board: one protocol and one secret split from the day of opening until the archive. Loads no torch.

A season is a document of its store, ``seasons/NAME.json``. Everything else is where it always is: results, submissions
and the ledger. A store holds one season: the next one has another secret split, and so other numbers.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from imharness.errors import UsageError
from imharness.planning.profile import Profile
from imharness.planning.secret import digest_of, read_seed
from imharness.reading.opening import read_bytes
from imharness.results.store import Store
from imharness_submissions.store_secret import known_secret

FOLDER = "seasons"
SUMS = "SHA256SUMS"
NAME_PATTERN = r"^[a-z0-9][a-z0-9.-]{0,40}$"


class Season(BaseModel):
    """A season.

    `protocol`: track -> the digest of all settings that decide what is computed. `secret`: the digest of the seed of
    its secret split; the seed itself, `revealed`, and the secret of the store, `streams`, from which random streams of
    submitted entries follow, stand here only once it is closed. `until`: the day on which it
    closes at the earliest. `decisions`: how many decisions its ledger had when it was closed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME_PATTERN)
    opened: str
    until: date
    profile: str
    protocol: Mapping[str, str]
    secret: str
    closed: str = ""
    reason: str = ""
    revealed: str = ""
    streams: str = ""
    decisions: int = 0

    def changed(self, profile: Profile) -> list[str]:
        """Return the tracks whose settings are not those of the season any more."""
        now = {track: profile.identity(track) for track in profile.tracks}
        return sorted(track for track, own in self.protocol.items() if now.get(track) != own)


def season_of(store: Store) -> Season | None:
    """Return the season of a store, or None."""
    for name in store.names(FOLDER):
        return store.current(f"{FOLDER}/{name}.json", Season)
    return None


def check_open(store: Store) -> None:
    """Raise `UsageError` where the season of a store is closed: nothing is decided there any more."""
    season = season_of(store)
    if season is not None and season.closed:
        raise UsageError(
            f"season {season.name} was closed on {season.closed[:10]}; open the next one in a store of its own."
        )


def open_season(store: Store, name: str, until: date, profile: Profile, secret: Path) -> Season:
    """Open a season and return it; a seed is drawn into the file `secret` if there is none.

    Raises `UsageError` where the store has a season, or results of another split.
    """
    known = season_of(store)
    if known is not None:
        raise UsageError(f"store {store.address} has the season {known.name}; open the next one in a store of its own.")
    today = datetime.now(UTC).date()
    if until <= today:
        raise UsageError(f"a season lasts until a later day than {today}, got {until}.")
    if not secret.exists():
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
    digest = digest_of(read_seed(secret))
    others = [track for track in store.tracks() for sweep in store.sweeps(track) if sweep.secret != digest]
    if others:
        raise UsageError(f"store {store.address} has runs of another split, such as of {others[0]}; use a new store.")
    season = Season(
        name=name,
        opened=datetime.now(UTC).isoformat(timespec="seconds"),
        until=until,
        profile=profile.name,
        protocol={track: profile.identity(track) for track in sorted(profile.tracks)},
        secret=digest,
    )
    store.prepare()
    store.replace(f"{FOLDER}/{name}.json", season)
    return season


def closed_season(store: Store, secret: Path, decisions: int, reason: str = "") -> Season:
    """Close the season of a store, reveal its seed, and return it.

    Raises `UsageError` without an open season, with another seed, with cells that still wait, and before its last day
    unless a `reason` is given.
    """
    season = season_of(store)
    if season is None:
        raise UsageError(f"store {store.address} has no season; `harness season open` opens one.")
    check_open(store)
    seed = read_seed(secret)
    if digest_of(seed) != season.secret:
        raise UsageError(f"the seed in {secret} is not that of season {season.name}.")
    now = datetime.now(UTC)
    if now.date() < season.until and not reason:
        raise UsageError(f"season {season.name} lasts until {season.until}; say by --reason why it closes before.")
    for track in season.protocol:
        sweep = store.latest(track)
        if sweep is None or sweep.waiting:
            left = "has no run" if sweep is None else f"has {sweep.waiting} cells that wait"
            raise UsageError(f"{track} {left}; finish it by `harness run --profile {season.profile}`.")
    found = season.model_copy(
        update={
            "closed": now.isoformat(timespec="seconds"),
            "reason": reason,
            "revealed": seed,
            "streams": known_secret(store),
            "decisions": decisions,
        }
    )
    store.replace(f"{FOLDER}/{season.name}.json", found)
    return found


def summed(folder: Path) -> str:
    """Write the sha256 of every file of an archive into `SUMS`, and return that of the list itself."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(read_bytes(path)).hexdigest()}  {path.relative_to(folder).as_posix()}" for path in files]
    text = "\n".join(lines) + "\n"
    (folder / SUMS).write_text(text, encoding="utf-8", newline="\n")
    return hashlib.sha256(text.encode()).hexdigest()

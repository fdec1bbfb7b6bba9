"""Seasons of a leaderboard: one protocol and one secret split until it is archived. Loads no torch.

A season is a document of its store (`imharness.documents.seasons`). Everything else is where it always is: results,
submissions and the ledger. A store holds one season: the next one has another secret split, and so other numbers.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from imharness.components.registry import installed
from imharness.documents.seasons import FOLDER, Season, season_of
from imharness.errors import UsageError
from imharness.planning.photographs import checked, commitment, on_photographs, prepared
from imharness.planning.profile import Profile
from imharness.planning.secret import digest_of, read_seed
from imharness.planning.selection import chosen_tracks
from imharness.reading.opening import read_bytes
from imharness.results.store import Store
from imharness_submissions.store_secret import known_secret

SUMS = "SHA256SUMS"
PHOTOGRAPHS = "photographs"
"""The folder of an archive with the photographs of its season."""


def check_open(store: Store) -> None:
    """Raise `UsageError` where the season of a store is closed: nothing is decided there any more."""
    season = season_of(store)
    if season is not None and season.closed:
        raise UsageError(
            f"season {season.name} was closed on {season.closed[:10]}; open the next one in a store of its own."
        )


def open_season(
    store: Store,
    name: str,
    until: date,
    profile: Profile,
    secret: Path,
    photographs: Path | None = None,
    commit: Callable[[Season], None] = lambda season: None,
    *,
    tracks: Sequence[str] = (),
    limit: int | None = None,
) -> Season:
    """Open a season and return it; a seed is drawn into the file `secret` if there is none.

    `tracks`: names of those in the profile that it has, by default all. `limit`: how many images of each data set.

    `photographs`: a folder that nobody has published, on which the season is computed; a copy goes among the assets.
    `commit` gets the season before the store has it; who is interrupted before that opens it again.
    Raises `UsageError` where the store has a season, or runs of another split or protocol, and for a folder or track
    that cannot be used.
    """
    current_season = season_of(store)
    if current_season is not None:
        raise UsageError(
            f"store {store.address} has the season {current_season.name}; open the next one in a store of its own."
        )
    today = datetime.now(UTC).date()
    if until <= today:
        raise UsageError(f"a season lasts until a later day than {today}, got {until}.")
    if tracks:
        ids = chosen_tracks(installed(), profile, tracks)
        profile = profile.model_copy(update={"tracks": {id: profile.tracks[id] for id in ids}})
    committed = None if photographs is None else commitment(photographs)
    if photographs is not None and committed is not None:
        from imharness.running.photographs import check_readable

        check_readable(photographs, profile, committed, installed())
    if not secret.exists():
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
    digest = digest_of(read_seed(secret))
    if committed is not None:
        profile = on_photographs(profile, committed, digest, installed())
    runs = [(track, sweep) for track in store.tracks() for sweep in store.sweeps(track)]
    wanted = (digest, profile.name, limit)
    others = [track for track, sweep in runs if (sweep.secret, sweep.profile, sweep.limit) != wanted]
    if others:
        raise UsageError(
            f"store {store.address} has runs of another split, profile or limit, such as of {others[0]}; "
            "use a new store."
        )
    season = Season(
        name=name,
        opened=datetime.now(UTC).isoformat(timespec="seconds"),
        until=until,
        profile=profile.name,
        limit=limit,
        protocol={track: profile.identity(track) for track in sorted(profile.tracks)},
        secret=digest,
        photographs=committed,
    )
    if photographs is not None:
        prepared(photographs, season, read_seed(secret))
    store.prepare()
    commit(season)
    store.replace(f"{FOLDER}/{name}.json", season)
    return season


def closed_season(
    store: Store, secret: Path, decisions: int, reason: str = "", photographs: Path | None = None
) -> Season:
    """Close the season of a store, reveal its seed and the list of its `photographs`, and return it.

    `decisions`: how many its ledger has.

    One that is closed stays as it is: its archive can be written again. Raises `UsageError` without a season, with
    another seed, with tasks that still wait, before its last day unless a `reason` is given, and unless the folder
    `photographs` is given for a season on one, as it was.
    """
    season = season_of(store)
    if season is None:
        raise UsageError(f"store {store.address} has no season; `harness season open` opens one.")
    seed = read_seed(secret)
    if digest_of(seed) != season.secret:
        raise UsageError(f"the seed in {secret} is not that of season {season.name}.")
    if (photographs is None) != (season.photographs is None):
        needs = "needs" if photographs is None else "has no"
        raise UsageError(f"season {season.name} {needs} --photographs FOLDER.")
    listed = {} if photographs is None else checked(photographs, season)
    if season.closed:
        return season
    now = datetime.now(UTC)
    if now.date() < season.until and not reason:
        raise UsageError(f"season {season.name} lasts until {season.until}; say by --reason why it closes before.")
    for track in season.protocol:
        sweep = store.latest(track)
        if sweep is None or sweep.waiting:
            problem = "has no run" if sweep is None else f"has {sweep.waiting} tasks that wait"
            raise UsageError(f"{track} {problem}; finish it by `harness run --profile {season.profile}`.")
    closed = season.model_copy(
        update={
            "closed": now.isoformat(timespec="seconds"),
            "reason": reason,
            "revealed": seed,
            "streams": known_secret(store),
            "decisions": decisions,
            "photographs": season.photographs and season.photographs.model_copy(update={"listed": listed}),
        }
    )
    store.replace(f"{FOLDER}/{season.name}.json", closed)
    return closed


def publish(folder: Path, season: Season, target: Path) -> None:
    """Copy the photographs of a closed season, under their names, into a folder that anyone may have."""
    for name in checked(folder, season):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, target / name)
    checked(target, season)


def summed(folder: Path) -> str:
    """Write the sha256 of every file of an archive into `SUMS`, and return that of the list itself."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(read_bytes(path)).hexdigest()}  {path.relative_to(folder).as_posix()}" for path in files]
    text = "\n".join(lines) + "\n"
    (folder / SUMS).write_text(text, encoding="utf-8", newline="\n")
    return hashlib.sha256(text.encode()).hexdigest()

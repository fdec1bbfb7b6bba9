"""`harness season`: opens a season of the leaderboard, says where it stands, and closes it with an archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imharness.cli import console
from imharness.cli.options import Group, json_option, limit_option, store_option
from imharness.errors import HarnessError, UsageError

if TYPE_CHECKING:
    from imharness.documents.seasons import Season
    from imharness.results.store import Store

_store = store_option("address")
_secret = click.option(
    "--secret",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="File with the seed of the secret split; keep it outside of the store.",
)
_photographs = click.option(
    "--photographs",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="FOLDER",
    help="Photographs that nobody has published, with mos.csv if people judged them: the season is computed on them "
    "alone. Default: on the data sets of the profile.",
)


@click.group(cls=Group)
def season() -> None:
    """Keep a leaderboard for a season: open it, see where it stands, close and archive it."""


@season.command("open")
@click.argument("name")
@click.option(
    "--until", type=click.DateTime(["%Y-%m-%d"]), required=True, metavar="YYYY-MM-DD", help="The last day, at least."
)
@click.option("--profile", default="official", show_default=True, metavar="NAME|FILE.toml", help="The protocol.")
@click.option(
    "--track",
    "tracks",
    multiple=True,
    metavar="NAME",
    help="Only this track of the profile; may be given several times.",
)
@limit_option()
@_secret
@_photographs
@_store
def open_(
    name: str,
    until: datetime,
    profile: str,
    tracks: Sequence[str],
    limit: int | None,
    secret: Path,
    photographs: Path | None,
    address: str,
) -> None:
    """Open the season NAME in a store, and draw the seed of its secret split into FILE if there is none.

    With --photographs, the root of a Merkle tree over the folder stands in the ledger and in the season, and a copy of
    the photographs among the assets, where runs read it.
    """
    from imharness.planning.profiles import load_profile
    from imharness.results.store import Store
    from imharness_submissions.ledger import Ledger
    from imharness_submissions.seasons import open_season

    def commit(season: Season) -> None:
        ledger, reason = Ledger(address), _commitment(season)
        if reason and (name, reason) not in [(line.name, line.reason) for line in ledger.lines()]:
            ledger.append(name, (), "opened", reason)

    season = open_season(
        Store(address),
        name,
        until.date(),
        load_profile(profile),
        secret,
        photographs,
        commit,
        tracks=tracks,
        limit=limit,
    )
    if season.photographs is not None:
        copy = season.photographs.folder(season.secret)
        console.say(f"opened {_commitment(season)}; a copy is among the assets, as {copy}")
    where = f"--profile {profile} --secret {secret} --store {address}"
    where += f" --limit {limit}" if limit is not None else ""
    console.say(
        f"season {season.name} until {season.until}, secret split {season.secret}; compute its leaderboard, then "
        "entries:"
    )
    console.say(f"harness run --all {where}")
    console.say(f"harness submissions run submissions/NAME {where}")


def _commitment(season: Season) -> str:
    """Return what the ledger says of the photographs of a season, "" without any."""
    photographs = season.photographs
    if photographs is None:
        return ""
    return f"on {photographs.files} unpublished files, labels by {photographs.labels}, Merkle root {photographs.root}"


@season.command()
@_store
@json_option()
def status(address: str, as_json: bool) -> None:
    """Say where the season of a store stands: what is computed, who entered, what waits for a person."""
    from imharness.documents.seasons import season_of
    from imharness.results.store import Store

    store = Store(address)
    season = season_of(store)
    if season is None:
        raise UsageError(f"store {address} has no season; `harness season open` opens one.")
    facts, tracks = _facts(store, season), _tracks(store, season)
    if as_json:
        console.emit({**facts, "tracks": tracks})
        return
    console.table(f"Season {season.name}", ["", ""], list(facts.items()))
    if tracks:
        names = list(tracks[0])
        console.table("Tracks", names, [tuple(track[name] for name in names) for track in tracks])


def _facts(store: Store, season: Season) -> dict[str, Any]:
    from imharness.documents.entries import NOT_JUDGED, flags_in
    from imharness_submissions.ledger import Ledger

    ledger = Ledger(store.address)
    lines, standings = ledger.lines(), ledger.standings()
    counts = Counter(line.decision for line in lines)
    days = (season.until - datetime.now(UTC).date()).days
    return {
        "state": f"closed {season.closed[:10]}" if season.closed else f"open, {max(days, 0)} days left",
        "opened": season.opened[:10],
        "until": str(season.until),
        "profile": season.profile,
        "images of each data set": season.limit or "all",
        "secret split": season.secret,
        "photographs": "those of the profile"
        if season.photographs is None
        else f"{season.photographs.files} unpublished files, root {season.photographs.root[:16]}",
        "protocol changed since": _changes(season),
        "entered": len(ledger.active()),
        "flagged, for a person to look at": ", ".join(
            id
            for id, standing in standings.items()
            if any(not flag.startswith(NOT_JUDGED) for flag in flags_in(standing))
        )
        or "none",
        "evidence accepted": counts["evidence"],
        "decisions": len(lines),
        "last decision": f"{lines[-1].date[:10]} {lines[-1].name}: {lines[-1].decision}" if lines else "none",
    }


def _changes(season: Season) -> str:
    """Return the tracks whose settings a release has changed since the season opened, or why nobody can say."""
    from imharness.components.registry import installed
    from imharness.planning.profiles import load_profile
    from imharness.planning.season import changed, of_season

    try:
        profile = load_profile(season.profile)
    except UsageError:
        return f"not compared: no profile that is installed is called {season.profile}; it was a file"
    try:
        return ", ".join(changed(season, of_season(profile, season, installed()))) or "no"
    except HarnessError as error:
        return str(error)


def _tracks(store: Store, season: Season) -> list[dict[str, Any]]:
    from imharness.documents.stored import read_leaderboard

    tracks = []
    for track in season.protocol:
        sweep, leaderboard = store.latest(track), read_leaderboard(store, track)
        rankings = leaderboard.rankings if leaderboard is not None else ()
        tracks.append(
            {
                "track": track,
                "done": len(sweep.tasks) if sweep is not None else 0,
                "waiting": sweep.waiting if sweep is not None else "not begun",
                "failed": len(sweep.failed) if sweep is not None else 0,
                "entries": len({label for ranking in rankings for label in ranking.places}),
                "winners": "; ".join(f"{ranking.table}: {ranking.winner or 'none'}" for ranking in rankings),
            }
        )
    return tracks


@season.command()
@click.option(
    "--archive",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="Copy the store here, with the sha256 of each file.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why it closes before its last day. Default: none.")
@_secret
@_photographs
@_store
def close(archive: Path, reason: str, secret: Path, photographs: Path | None, address: str) -> None:
    """Close the season of a store: check everything, reveal the seed, and write the archive.

    Afterwards nothing is decided in this store. With the seed, anybody can compute the numbers again. Photographs that
    nobody had published are in the archive, and the season lists them. The archive is written to FOLDER.part first: the
    same command goes on after an interruption, and writes the archive of a closed season again.
    """
    from imharness.cli.stores import copy, verify
    from imharness.results.store import Store
    from imharness_submissions.ledger import Ledger
    from imharness_submissions.seasons import PHOTOGRAPHS, closed_season, publish, summed

    if archive.exists() and any(archive.iterdir()):
        raise UsageError(f"{archive} is not empty.")
    store = Store(address)
    lines = Ledger(address).lines()
    damaged = list(verify(store))
    if damaged:
        raise HarnessError(f"{len(damaged)} files of {address} are damaged, such as: {damaged[0]}")
    season = closed_season(store, secret, len(lines), reason, photographs)
    unfinished = archive.absolute().with_name(f"{archive.absolute().name}.part")
    with console.progress("archiving") as advance:
        copy(store, Store(unfinished), advance)
    if photographs is not None:
        publish(photographs, season, unfinished / PHOTOGRAPHS)
    digest = summed(unfinished)
    if archive.exists():
        archive.rmdir()
    unfinished.replace(archive)
    tasks = len(store.survey().tasks)
    console.say(f"season {season.name} closed: {tasks} tasks, {len(lines)} decisions, seed revealed")
    console.say(f"archive {archive}; sha256 of its SHA256SUMS: {digest}")


@season.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--secret",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File with the seed of the secret split. Default: the one that was revealed when the season was closed.",
)
@_store
def verify(folder: Path, secret: Path | None, address: str) -> None:
    """Check that FOLDER holds the photographs that the season of a store committed itself to, and get ready for a run.

    A copy goes among the assets, where `harness run` and `harness reproduce` read it.
    """
    from imharness.documents.seasons import season_of
    from imharness.planning.photographs import prepared
    from imharness.planning.secret import read_seed
    from imharness.results.store import Store
    from imharness_submissions.ledger import Ledger

    store = Store(address)
    season = season_of(store)
    if season is None or season.photographs is None:
        raise UsageError(f"store {address} has no season on unpublished photographs.")
    root = season.photographs.root
    if not any(line.decision == "opened" and line.reason.endswith(root) for line in Ledger(address).lines()):
        raise HarnessError(f"the ledger of {address} does not know the root {root} of season {season.name}")
    copy = prepared(folder, season, season.revealed if secret is None else read_seed(secret))
    console.say(f"{season.photographs.files} files, Merkle root {root}, as season {season.name} committed itself to")
    console.say(f"ready in {copy}")

"""`harness season`: opens a season of the board, says where it stands, and closes it with an archive."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from imharness.cli import console
from imharness.cli.options import Group, json_option, store_option
from imharness.errors import HarnessError, UsageError

if TYPE_CHECKING:
    from imharness.results.store import Store
    from imharness_submissions.seasons import Season

_store = store_option("address")
_secret = click.option(
    "--secret",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="File with the seed of the secret split; keep it outside of the store.",
)


@click.group(cls=Group)
def season() -> None:
    """Keep a board for a season: open it, see where it stands, close and archive it."""


@season.command("open")
@click.argument("name")
@click.option(
    "--until", type=click.DateTime(["%Y-%m-%d"]), required=True, metavar="YYYY-MM-DD", help="The last day, at least."
)
@click.option("--profile", default="official", show_default=True, metavar="NAME|FILE.toml", help="The protocol.")
@_secret
@_store
def open_(name: str, until: datetime, profile: str, secret: Path, address: str) -> None:
    """Open the season NAME in a store, and draw the seed of its secret split into FILE if there is none."""
    from imharness.planning.profiles import load_profile
    from imharness.results.store import Store
    from imharness_submissions.seasons import open_season

    found = open_season(Store(address), name, until.date(), load_profile(profile), secret)
    where = f"--profile {profile} --secret {secret} --store {address}"
    console.say(
        f"season {found.name} until {found.until}, secret split {found.secret}; compute its board, then entries:"
    )
    console.say(f"harness run --all {where}")
    console.say(f"harness submissions run submissions/NAME {where}")


@season.command()
@_store
@json_option()
def status(address: str, as_json: bool) -> None:
    """Say where the season of a store stands: what is computed, who entered, what waits for a person."""
    from imharness.results.store import Store
    from imharness_submissions.seasons import season_of

    store = Store(address)
    found = season_of(store)
    if found is None:
        raise UsageError(f"store {address} has no season; `harness season open` opens one.")
    facts, tracks = _facts(store, found), _tracks(store, found)
    if as_json:
        console.emit({**facts, "tracks": tracks})
        return
    console.table(f"Season {found.name}", ["", ""], list(facts.items()))
    if tracks:
        names = list(tracks[0])
        console.table("Tracks", names, [tuple(own[name] for name in names) for own in tracks])


def _facts(store: Store, season: Season) -> dict[str, Any]:
    from imharness.planning.profiles import load_profile
    from imharness.results.entries import flags_in
    from imharness_submissions.ledger import Ledger

    ledger = Ledger(store.address)
    lines, standings = ledger.lines(), ledger.standings()
    counts = Counter(line.decision for line in lines)
    left = (season.until - datetime.now(UTC).date()).days
    try:
        changed = season.changed(load_profile(season.profile))
    except HarnessError as error:
        changed = [str(error)]
    return {
        "state": f"closed {season.closed[:10]}" if season.closed else f"open, {max(left, 0)} days left",
        "opened": season.opened[:10],
        "until": str(season.until),
        "profile": season.profile,
        "secret split": season.secret,
        "protocol changed since": ", ".join(changed) or "no",
        "entered": len(ledger.active()),
        "flagged, for a person to look at": ", ".join(id for id, own in standings.items() if flags_in(own)) or "none",
        "evidence accepted": counts["evidence"],
        "decisions": len(lines),
        "last decision": f"{lines[-1].date[:10]} {lines[-1].name}: {lines[-1].decision}" if lines else "none",
    }


def _tracks(store: Store, season: Season) -> list[dict[str, Any]]:
    found = []
    for track in season.protocol:
        sweep, board = store.latest(track), store.board(track)
        ranking = board.rankings[0] if board is not None and board.rankings else None
        found.append(
            {
                "track": track,
                "done": len(sweep.cells) if sweep is not None else 0,
                "waiting": sweep.waiting if sweep is not None else "not begun",
                "failed": len(sweep.failed) if sweep is not None else 0,
                "entries": len(ranking.places) if ranking is not None else 0,
                "winner": (ranking.winner or "none") if ranking is not None else "",
            }
        )
    return found


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
@_store
def close(archive: Path, reason: str, secret: Path, address: str) -> None:
    """Close the season of a store: check everything, reveal the seed, and write the archive.

    Afterwards nothing is decided in this store. With the seed, anybody can compute the numbers again.
    """
    from imharness.cli.stores import copy, verify
    from imharness.results.store import Store
    from imharness_submissions.ledger import Ledger
    from imharness_submissions.seasons import closed_season, summed

    if archive.exists() and any(archive.iterdir()):
        raise UsageError(f"{archive} is not empty.")
    store = Store(address)
    lines = Ledger(address).lines()
    damaged = list(verify(store))
    if damaged:
        raise HarnessError(f"{len(damaged)} files of {address} are damaged, such as: {damaged[0]}")
    found = closed_season(store, secret, len(lines), reason)
    with console.progress("archiving") as advance:
        copied = copy(store, Store(archive), advance)
    digest = summed(archive)
    console.say(f"season {found.name} closed: {copied} tasks, {len(lines)} decisions, seed revealed")
    console.say(f"archive {archive}; sha256 of its SHA256SUMS: {digest}")

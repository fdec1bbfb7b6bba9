"""Seasons of a leaderboard as documents of its store, ``seasons/NAME.json``. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from imharness.errors import UsageError
from imharness.results.leaderboards import Leaderboard
from imharness.results.rankings import Place
from imharness.results.store import Store

FOLDER = "seasons"
NAME_PATTERN = r"^[a-z0-9][a-z0-9.-]{0,40}$"


class Photographs(BaseModel):
    """The commitment to photographs that nobody has published, see `imharness.planning.photographs`.

    `root`: the root of the Merkle tree of their files. `files`: how many there are. `labels`: who labels them, people
    (in a file mos.csv, which is one of the files) or a ladder of severities that the harness computes. `listed`: name
    -> sha256 of every file; until the season is closed it is empty, as names say what is shown and a digest lets
    anyone who has a photograph find out that it is used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: str = Field(pattern=r"^[0-9a-f]{64}$")
    files: int = Field(ge=1)
    labels: Literal["people", "ladder"]
    listed: Mapping[str, str] = Field(default_factory=dict)

    def folder(self, secret: str) -> str:
        """Return the name of their copy among the assets, by which data sets read it.

        `secret` is the digest of the season's seed, from which the names in the copy follow: two seasons on the same
        photographs have a copy each.
        """
        return f"photographs-{self.root[:16]}-{secret[:8]}"


class Season(BaseModel):
    """A season.

    `protocol`: track -> the digest of all settings that decide what is computed. `limit`: how many images of each data
    set it uses, None for all. `secret`: the digest of the seed of
    its secret split; the seed itself, `revealed`, and the secret of the store, `streams`, from which random streams of
    submitted entries follow, stand here only once it is closed. `until`: the day on which it closes at the earliest.
    `decisions`: how many decisions its ledger had when it was closed. `photographs`: those that it is computed on, if
    nobody has published them; None where it is computed on the data sets of its profile.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME_PATTERN)
    opened: str
    until: date
    profile: str
    protocol: Mapping[str, str]
    limit: int | None = None
    secret: str
    closed: str = ""
    reason: str = ""
    revealed: str = ""
    streams: str = ""
    decisions: int = 0
    photographs: Photographs | None = None


def season_of(store: Store) -> Season | None:
    """Return the season of a store, or None."""
    for name in store.names(FOLDER):
        return store.current(f"{FOLDER}/{name}.json", Season)
    return None


def check_published(store: Store, what: str) -> None:
    """Raise `UsageError` while a store's season on unpublished photographs is open, as results show them; see `what`.

    `what`: what would hold the rows or arrays of results, such as a copy.
    """
    season = season_of(store)
    if season is not None and season.photographs is not None and not season.closed:
        raise UsageError(
            f"{what} of store {store.address} would show unpublished photographs of season {season.name} and what each "
            f"scores; wait until it is closed, {season.until} at the earliest."
        )


def is_hidden(store: Store, leaderboard: Leaderboard) -> bool:
    """Say whether single numbers of a leaderboard tell what nobody may know yet: how images of a secret split differ.

    They do until the season of the store, whose split it is, is closed and its seed is revealed.
    """
    if not leaderboard.secret:
        return False
    season = season_of(store)
    return season is None or season.secret != leaderboard.secret or not season.revealed


def without_single_numbers(leaderboard: Leaderboard) -> Leaderboard:
    """Return a leaderboard with means, intervals and ranks, and no number of a single image or photograph."""
    rankings = tuple(
        ranking.model_copy(update={"places": {label: _means(position) for label, position in ranking.places.items()}})
        for ranking in leaderboard.rankings
    )
    return leaderboard.model_copy(update={"rankings": rankings, "numbers": None})


def _means(position: Place) -> Place:
    moved, broken = position.moved, position.broken
    return position.model_copy(
        update={
            "gate_numbers": tuple(number.model_copy(update={"contributions": ()}) for number in position.gate_numbers),
            "moved": moved and moved.model_copy(update={"contributions": ()}),
            "broken": broken and broken.model_copy(update={"contributions": ((), ())}),
        }
    )

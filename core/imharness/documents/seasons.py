"""Seasons of a leaderboard as documents of its store, ``seasons/NAME.json``. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Place
from imharness.errors import UsageError
from imharness.results.store import Store

FOLDER = "seasons"
NAME_PATTERN = r"^[a-z0-9][a-z0-9.-]{0,40}$"


class Photographs(BaseModel):
    """The commitment of a season to unpublished photographs, see `imharness.planning.photographs`.

    Attributes:
        root: the root of the Merkle tree of the files.
        files: how many files there are.
        labels: who labels the photographs: "people" (in a file mos.csv, which is one of the files), or a "ladder" of
            severities that the harness computes.
        listed: name -> sha256 of every file. It is empty until the season is closed: a name may say what a photograph
            shows, and by a digest anyone who has a photograph could find out that it is used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: str = Field(pattern=r"^[0-9a-f]{64}$")
    files: int = Field(ge=1)
    labels: Literal["people", "ladder"]
    listed: Mapping[str, str] = Field(default_factory=dict)

    def folder(self, secret: str) -> str:
        """Return the name of the folder among the assets from which data sets read a copy of the photographs.

        `secret` is the digest of the season's seed, from which the names of the copied files follow. So two seasons on
        the same photographs have two copies.
        """
        return f"photographs-{self.root[:16]}-{secret[:8]}"


class Season(BaseModel):
    """A season of a leaderboard.

    Attributes:
        opened, closed: when it was opened and closed, ISO 8601; `closed` is "" while it is open.
        until: the day before which it closes only with a `reason`.
        profile: the name of the profile.
        protocol: track -> the digest of all settings that decide what is computed.
        limit: how many images of each data set are used; None for all.
        secret: the digest of the seed of the secret split.
        revealed: that seed; "" until the season is closed.
        streams: the secret of the store, from which random streams of submitted entries follow; "" until it is closed.
        decisions: how many decisions the ledger had when the season was closed.
        photographs: the unpublished photographs that it is computed on; None for the data sets of the profile.
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
    """Raise `UsageError` if a store has an open season on unpublished photographs, which its results would show.

    `what`: what would have the rows or arrays of results, such as "a copy"; for the message.
    """
    season = season_of(store)
    if season is not None and season.photographs is not None and not season.closed:
        raise UsageError(
            f"{what} of store {store.address} would show unpublished photographs of season {season.name} and what each "
            f"scores; wait until it is closed, {season.until} at the earliest."
        )


def is_hidden(store: Store, leaderboard: Leaderboard) -> bool:
    """Return whether numbers of single images of a leaderboard must not be shown, because its split is still secret.

    They would show how the images of the secret split differ from the public ones. The split is secret until the season
    to which it belongs is closed and its seed is revealed.
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
    """Return what a ranking states about an entry, without what single units contribute."""
    moved, broken = position.moved, position.broken
    return position.model_copy(
        update={
            "gate_numbers": tuple(number.model_copy(update={"contributions": ()}) for number in position.gate_numbers),
            "moved": moved and moved.model_copy(update={"contributions": ()}),
            "broken": broken and broken.model_copy(update={"contributions": ((), ())}),
        }
    )

"""What changed between two releases, and why.

Each published release leaves a short summary in ``data/releases.json``. The next release is compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from imharness.errors import StoreError
from imharness.results.boards import Board
from imharness.results.entries import EVIDENCE, Standing
from imharness_leaderboard.addresses import track_page
from imharness_leaderboard.tables import column_named, shown
from imharness_leaderboard.wording import brief

FILE = "data/releases.json"
Kind = Literal["", "up", "down", "new", "gone", "same place"]
NAMED = 3
"""How many entries of a new track are named."""


class Place(BaseModel):
    """The place of an entry in the main table: its rank (from 1), its score, and the score as text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rank: int
    value: float | None
    shown: str


class BoardSummary(BaseModel):
    """The state of a track at a release."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    page: str
    by: str = Field(description="Label of the column by which the main table is ranked.")
    sources: str = Field(description="Digest of the results behind the tables.")
    scored_by: Mapping[str, str] = Field(description="Version of each package that made the tables.")
    entries: Mapping[str, str] = Field(description="Version of the numbers, by kind and label.")
    places: Mapping[str, Place] = Field(description="Place of each entry in the main table, by label.")
    evidence: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="When which evidence was accepted against a component, by kind and label."
    )


class Release(BaseModel):
    """A published state of the leaderboard."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    date: date
    boards: Mapping[str, BoardSummary]


@dataclass(frozen=True)
class Change:
    """One line of the changes page.

    `kind` says how the place of an entry changed, `place` and `number` from what to what; they are empty where a track
    changed, or a component without a place.
    """

    track: str
    what: str
    text: str
    why: str
    kind: Kind = ""
    place: str = ""
    number: str = ""


@dataclass(frozen=True)
class ReleaseChanges:
    """What changed with a release. `day` is its ISO date, empty for a state that is not published yet.

    `by` is the number by which each track ranks, by the track's title.
    """

    name: str
    day: str
    changes: Sequence[Change]
    by: Mapping[str, str] = field(default_factory=dict)


def summary(board: Board) -> BoardSummary:
    """Return what the next release will be compared with."""
    main = board.tables[0] if board.tables else None
    ranked = main is not None and any(own.table == main.id for own in board.rankings)
    column = column_named(main, "worst" if ranked else main.ranked_by) if main else None
    places: dict[str, Place] = {}
    if main and column:
        for position, row in enumerate(main.rows, 1):
            value, rank = row.values.get(column.key), row.number("rank") if ranked else position
            if rank is not None:
                number = value.value if value else None
                places[row.label] = Place(rank=int(rank), value=number, shown=shown(value, column))
    return BoardSummary(
        title=board.title,
        page=track_page(board),
        by=brief(column.label) if column else "",
        sources=board.sources,
        scored_by=board.scored_by,
        entries={f"{entry.kind} {entry.label}": entry.version for entry in board.entries},
        places=places,
        evidence={
            f"{entry.kind} {entry.label}": found
            for entry in board.entries
            if (found := tuple(f"{own.date[:10]}: {own.reason}" for own in entry.standing if _broke(own, entry.label)))
        },
    )


def _broke(decided: Standing, label: str) -> bool:
    """Say whether a decision is evidence against this component, and not against one with other parameters."""
    return decided.decision == EVIDENCE and decided.reason.startswith(f"{label}: ")


def read_releases(folder: Path) -> list[Release]:
    """Return the releases of a published site, the oldest first; raises `StoreError` when their list is damaged."""
    path = folder / FILE
    if not path.exists():
        return []
    try:
        return TypeAdapter(list[Release]).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise StoreError(f"{path} is not a list of releases; restore it from the last publication") from None


def releases_json(releases: Sequence[Release]) -> str:
    """Return the content of the file that `read_releases` reads."""
    return json.dumps([release.model_dump(mode="json") for release in releases], indent=1, ensure_ascii=False) + "\n"


def history(releases: Sequence[Release], unpublished: Mapping[str, BoardSummary] | None) -> list[ReleaseChanges]:
    """Return the changes of each release against the one before it, the newest first.

    `releases` are given oldest first. `unpublished` is a newer state that has no release yet, or None; without any
    release all of it is new.
    """
    found = []
    before: Mapping[str, BoardSummary] = {}
    for release in releases:
        day, found_now = release.date.isoformat(), changes(before, release.boards)
        found.append(ReleaseChanges(release.name, day, found_now, _measures(release.boards)))
        before = release.boards
    if unpublished is not None:
        found.append(
            ReleaseChanges("this state, not published yet", "", changes(before, unpublished), _measures(unpublished))
        )
    return found[::-1]


def _measures(boards: Mapping[str, BoardSummary]) -> dict[str, str]:
    return {own.title: own.by for own in boards.values()}


def changes(old: Mapping[str, BoardSummary], new: Mapping[str, BoardSummary]) -> list[Change]:
    """Return what changed from one state to another, track by track."""
    found = []
    for track in sorted({*old, *new}):
        if track not in old:
            found.append(Change(new[track].title, "track", _first(new[track]), "first published with this release"))
        elif track not in new:
            found.append(Change(old[track].title, "track", "removed", "none of its results were published"))
        elif old[track] != new[track]:
            found += [*_changed_entries(old[track], new[track]), *_changed_places(old[track], new[track])]
    return found


def _first(new: BoardSummary) -> str:
    """Return in words what a new track has."""
    order = sorted(new.places.items(), key=lambda item: item[1].rank)[:NAMED]
    named = [f"{place.rank}. {brief(label)} {place.shown}" for label, place in order]
    entries = "1 entry" if len(new.places) == 1 else f"{len(new.places)} entries"
    return f"added, {entries} by {new.by}: {', '.join(named)}" if named else "added"


def _changed_entries(old: BoardSummary, new: BoardSummary) -> Iterator[Change]:
    for name in sorted({*old.entries, *new.entries}):
        before, after = old.entries.get(name), new.entries.get(name)
        kind, label = name.split(" ", 1)
        if before is None:
            now = new.places.get(label)
            at = f", place {now.rank}, {new.by} {now.shown}" if now else ""
            place, number = (str(now.rank), now.shown) if now else ("", "")
            moved: Kind = "new" if now else ""
            yield Change(new.title, label, f"{kind} added{at}", "it is a new entry", moved, place, number)
        elif after is None:
            was = old.places.get(label)
            at = f", was place {was.rank}, {old.by} {was.shown}" if was else ""
            place, number = (str(was.rank), was.shown) if was else ("", "")
            why, moved = "it was withdrawn, or was not part of this run", "gone" if was else ""
            yield Change(new.title, label, f"{kind} removed{at}", why, moved, place, number)
        elif before != after:
            yield Change(new.title, label, f"{kind}, version {before} → {after}", "its author changed the numbers")


def _changed_places(old: BoardSummary, new: BoardSummary) -> Iterator[Change]:
    for label in sorted({*old.places} & {*new.places}, key=lambda label: new.places[label].rank):
        before, after = old.places[label], new.places[label]
        parts = []
        if before.shown != after.shown:
            parts.append(f"{new.by} {before.shown} → {after.shown}")
        if before.rank != after.rank:
            parts.append(f"rank {before.rank} → {after.rank}")
        if parts:
            kind: Kind = "up" if after.rank < before.rank else "down" if after.rank > before.rank else "same place"
            place = f"{before.rank} → {after.rank}" if before.rank != after.rank else str(after.rank)
            number = f"{before.shown} → {after.shown}" if before.shown != after.shown else after.shown
            yield Change(new.title, label, ", ".join(parts), _reason(label, old, new), kind, place, number)


def _reason(label: str, old: BoardSummary, new: BoardSummary) -> str:
    """Return why an entry's score or rank changed: the first cause that fits, the entry's own first."""
    parts = label.split(" + ")
    own = [name for name in new.entries if name.split(" ", 1)[1] in parts]
    raised = [name for name in own if name in old.entries and old.entries[name] != new.entries[name]]
    if raised:
        return f"new version of {', '.join(raised)}"
    handed = [line for name in own for line in new.evidence.get(name, ()) if line not in old.evidence.get(name, ())]
    if handed:
        return f"evidence of {'; '.join(handed)}"
    if old.places[label].shown == new.places[label].shown:
        return "other entries moved or arrived"
    versions = [f"{name} {version}" for name, version in new.scored_by.items() if old.scored_by.get(name) != version]
    if versions:
        return f"the tables were made by {', '.join(versions)}"
    if new.entries.keys() - old.entries.keys():
        return "new entries changed the conditions that are averaged"
    return "the run was repeated" if old.sources != new.sources else "the same results in other tables"

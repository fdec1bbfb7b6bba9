"""What moved between two releases, and why: each release leaves a short summary that the next one is compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from imharness.errors import StoreError
from imharness.results.records import Board
from imharness_leaderboard.naming import column_named

FILE = "data/releases.json"


class Place(BaseModel):
    """Where an entry stood in the main table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rank: int
    value: float | None
    shown: str


class BoardSummary(BaseModel):
    """A track as it stood at a release."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    page: str
    by: str
    sources: str
    scored_by: Mapping[str, str]
    entries: Mapping[str, str]
    """Kind and label -> version of the numbers."""
    places: Mapping[str, Place]


class Release(BaseModel):
    """A published state of the leaderboard."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    date: date
    boards: Mapping[str, BoardSummary]


@dataclass(frozen=True)
class Change:
    """One line of the changes page."""

    track: str
    what: str
    text: str
    why: str


def summary(board: Board, page: str) -> BoardSummary:
    """Return what the next release will be compared with."""
    main = board.tables[0] if board.tables else None
    column = column_named(main, main.ranked_by) if main else None
    places: dict[str, Place] = {}
    if main and column:
        for rank, row in enumerate(main.rows, 1):
            found = row.values.get(column.key)
            value = found.value if found else None
            shown = f"{value:.{column.decimals}f}" if value is not None else "–"
            places[row.label] = Place(rank=rank, value=value, shown=shown)
    return BoardSummary(
        title=board.title,
        page=page,
        by=column.label if column else "",
        sources=board.sources,
        scored_by=board.scored_by,
        entries={f"{entry.kind} {entry.label}": entry.version for entry in board.entries},
        places=places,
    )


def read_releases(folder: Path) -> list[Release]:
    """Return the releases of a published site, the oldest first; raises `StoreError` when the list is damaged."""
    path = folder / FILE
    if not path.exists():
        return []
    try:
        return TypeAdapter(list[Release]).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise StoreError(f"{path} is no list of releases; restore it from the last publication") from None


def releases_json(releases: Sequence[Release]) -> str:
    """Return the list of releases as a file."""
    return json.dumps([release.model_dump(mode="json") for release in releases], indent=1, ensure_ascii=False) + "\n"


def changes(old: Mapping[str, BoardSummary], new: Mapping[str, BoardSummary]) -> list[Change]:
    """Return what moved from one state to another, track by track."""
    found = []
    for track in sorted({*old, *new}):
        if track not in old:
            found.append(Change(new[track].title, "track", "is new", "first published with this release"))
        elif track not in new:
            found.append(Change(old[track].title, "track", "is gone", "no results of it were published"))
        else:
            found += _moved(old[track], new[track])
    return found


def _moved(old: BoardSummary, new: BoardSummary) -> list[Change]:
    if old == new:
        return []
    found = [_entry(name, old, new) for name in sorted({*old.entries, *new.entries})]
    versions = [f"{name} {version}" for name, version in new.scored_by.items() if old.scored_by.get(name) != version]
    lines = [change for change in found if change is not None]
    arrived = any(name not in old.entries for name in new.entries)
    for label in sorted({*old.places} & {*new.places}, key=lambda label: new.places[label].rank):
        before, after = old.places[label], new.places[label]
        parts = []
        if before.shown != after.shown:
            parts.append(f"{new.by} {before.shown} → {after.shown}")
        if before.rank != after.rank:
            parts.append(f"rank {before.rank} → {after.rank}")
        if parts:
            lines.append(
                Change(new.title, label, ", ".join(parts), _why(label, before, after, old, new, versions, arrived))
            )
    return lines


def _why(
    label: str, before: Place, after: Place, old: BoardSummary, new: BoardSummary, versions: list[str], arrived: bool
) -> str:
    own = [name for name in new.entries if name.split(" ", 1)[1] in label.split(" + ")]
    bumped = [name for name in own if name in old.entries and old.entries[name] != new.entries[name]]
    if bumped:
        return f"new version of {', '.join(bumped)}"
    if before.shown == after.shown:
        return "others moved or arrived"
    if versions:
        return f"scored again by {', '.join(versions)}"
    if arrived:
        return "new entries changed the conditions that are averaged"
    return "run again" if old.sources != new.sources else "the same cells, other tables"


def _entry(name: str, old: BoardSummary, new: BoardSummary) -> Change | None:
    before, after = old.entries.get(name), new.entries.get(name)
    kind, label = name.split(" ", 1)
    if before == after:
        return None
    if before is None:
        return Change(new.title, label, f"new {kind}", "new entry")
    if after is None:
        return Change(new.title, label, f"{kind} left", "it was withdrawn, or was not part of this run")
    return Change(new.title, label, f"{kind}, version {before} → {after}", "its author changed the numbers")

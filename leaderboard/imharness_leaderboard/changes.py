"""What changed between two releases, and why.

Each published release leaves a short summary in ``data/releases.json``. The next release is compared with it.
Changes that were published are an Atom feed, too.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from imharness.documents.entries import EVIDENCE, Standing
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.errors import StoreError
from imharness_leaderboard.addresses import track_page
from imharness_leaderboard.tables import column_named, shown

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


class LeaderboardSummary(BaseModel):
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
    leaderboards: Mapping[str, LeaderboardSummary]


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


def summary(leaderboard: Leaderboard) -> LeaderboardSummary:
    """Return what the next release will be compared with."""
    main = leaderboard.tables[0] if leaderboard.tables else None
    ranked = main is not None and any(ranking.table == main.id for ranking in leaderboard.rankings)
    column = column_named(main, "worst" if ranked else main.ranked_by) if main else None
    places: dict[str, Place] = {}
    if main and column:
        for position, row in enumerate(main.rows, 1):
            value, rank = row.values.get(column.key), row.number("rank") if ranked else position
            if rank is not None:
                number = value.value if value else None
                places[row.label] = Place(rank=int(rank), value=number, shown=shown(value, column))
    return LeaderboardSummary(
        title=leaderboard.title,
        page=track_page(leaderboard),
        by=brief(column.label) if column else "",
        sources=leaderboard.sources,
        scored_by=leaderboard.scored_by,
        entries={f"{entry.kind} {entry.label}": entry.version for entry in leaderboard.entries},
        places=places,
        evidence={
            f"{entry.kind} {entry.label}": reasons
            for entry in leaderboard.entries
            if (
                reasons := tuple(
                    f"{decision.date[:10]}: {decision.reason}"
                    for decision in entry.standing
                    if _broke(decision, entry.label)
                )
            )
        },
    )


def _broke(decision: Standing, label: str) -> bool:
    """Return whether a decision is evidence against this component, not against one with other parameters."""
    return decision.decision == EVIDENCE and decision.reason.startswith(f"{label}: ")


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


def history(releases: Sequence[Release], unpublished: Mapping[str, LeaderboardSummary] | None) -> list[ReleaseChanges]:
    """Return the changes of each release against the one before it, the newest first.

    `releases`: the oldest first. `unpublished`: a newer state that is not a release yet, or None. In the first
    state everything is new.
    """
    release_changes = []
    before: Mapping[str, LeaderboardSummary] = {}
    for release in releases:
        day, changed = release.date.isoformat(), changes(before, release.leaderboards)
        release_changes.append(ReleaseChanges(release.name, day, changed, _measures(release.leaderboards)))
        before = release.leaderboards
    if unpublished is not None:
        release_changes.append(
            ReleaseChanges("this state, not published yet", "", changes(before, unpublished), _measures(unpublished))
        )
    return release_changes[::-1]


def _measures(leaderboards: Mapping[str, LeaderboardSummary]) -> dict[str, str]:
    return {leaderboard.title: leaderboard.by for leaderboard in leaderboards.values()}


def changes(old: Mapping[str, LeaderboardSummary], new: Mapping[str, LeaderboardSummary]) -> list[Change]:
    """Return what changed from one state to another, track by track."""
    collected = []
    for track in sorted({*old, *new}):
        if track not in old:
            collected.append(Change(new[track].title, "track", _first(new[track]), "first published with this release"))
        elif track not in new:
            collected.append(Change(old[track].title, "track", "removed", "none of its results were published"))
        elif old[track] != new[track]:
            collected += [*_changed_entries(old[track], new[track]), *_changed_places(old[track], new[track])]
    return collected


def _first(new: LeaderboardSummary) -> str:
    """Return in words what a new track has."""
    order = sorted(new.places.items(), key=lambda item: item[1].rank)[:NAMED]
    named = [f"{position.rank}. {brief(label)} {position.shown}" for label, position in order]
    entries = "1 entry" if len(new.places) == 1 else f"{len(new.places)} entries"
    return f"added, {entries} by {new.by}: {', '.join(named)}" if named else "added"


def _changed_entries(old: LeaderboardSummary, new: LeaderboardSummary) -> Iterator[Change]:
    """Yield the components that were added, removed, or got another version."""
    for name in sorted({*old.entries, *new.entries}):
        before, after = old.entries.get(name), new.entries.get(name)
        kind, label = name.split(" ", 1)
        if before is None:
            now = new.places.get(label)
            at = f", rank {now.rank}, {new.by} {now.shown}" if now else ""
            rank, number = (str(now.rank), now.shown) if now else ("", "")
            moved: Kind = "new" if now else ""
            yield Change(new.title, label, f"{kind} added{at}", "it is a new entry", moved, rank, number)
        elif after is None:
            was = old.places.get(label)
            at = f", was rank {was.rank}, {old.by} {was.shown}" if was else ""
            rank, number = (str(was.rank), was.shown) if was else ("", "")
            why, moved = "it was withdrawn, or was not part of this run", "gone" if was else ""
            yield Change(new.title, label, f"{kind} removed{at}", why, moved, rank, number)
        elif before != after:
            yield Change(new.title, label, f"{kind}, version {before} → {after}", "its author changed the numbers")


def _changed_places(old: LeaderboardSummary, new: LeaderboardSummary) -> Iterator[Change]:
    """Yield the entries of the main table whose score or rank changed."""
    for label in sorted({*old.places} & {*new.places}, key=lambda label: new.places[label].rank):
        before, after = old.places[label], new.places[label]
        phrases = []
        if before.shown != after.shown:
            phrases.append(f"{new.by} {before.shown} → {after.shown}")
        if before.rank != after.rank:
            phrases.append(f"rank {before.rank} → {after.rank}")
        if phrases:
            kind: Kind = "up" if after.rank < before.rank else "down" if after.rank > before.rank else "same place"
            rank = f"{before.rank} → {after.rank}" if before.rank != after.rank else str(after.rank)
            number = f"{before.shown} → {after.shown}" if before.shown != after.shown else after.shown
            yield Change(new.title, label, ", ".join(phrases), _reason(label, old, new), kind, rank, number)


def _reason(label: str, old: LeaderboardSummary, new: LeaderboardSummary) -> str:
    """Return why an entry's score or rank changed: the first cause that fits, beginning with causes in the entry."""
    components = label.split(" + ")
    component_names = [name for name in new.entries if name.split(" ", 1)[1] in components]
    raised = [name for name in component_names if name in old.entries and old.entries[name] != new.entries[name]]
    if raised:
        return f"new version of {', '.join(raised)}"
    new_evidence = [
        line
        for name in component_names
        for line in new.evidence.get(name, ())
        if line not in old.evidence.get(name, ())
    ]
    if new_evidence:
        return f"evidence of {'; '.join(new_evidence)}"
    if old.places[label].shown == new.places[label].shown:
        return "other entries moved or arrived"
    versions = [f"{name} {version}" for name, version in new.scored_by.items() if old.scored_by.get(name) != version]
    if versions:
        return f"the tables were made by {', '.join(versions)}"
    if new.entries.keys() - old.entries.keys():
        return "new entries changed the conditions that are averaged"
    return "the run was repeated" if old.sources != new.sources else "the same results in other tables"


_HEAD = (
    "<?xml version='1.0' encoding='utf-8'?>\n<feed xmlns='http://www.w3.org/2005/Atom'>"
    "<id>urn:uuid:{id}</id><title>Image privacy leaderboard</title>"
    "<updated>{day}T00:00:00Z</updated><author><name>Image privacy leaderboard</name></author>"
)


def atom_feed(history: Sequence[ReleaseChanges]) -> str:
    """Return the feed: one entry for each change of a published release, the newest release first."""
    published = [release for release in history if release.day]
    entries = [_entry(release, change) for release in published for change in release.changes]
    day = published[0].day if published else "1970-01-01"
    head = _HEAD.format(id=uuid5(NAMESPACE_URL, "image privacy leaderboard"), day=day)
    return head + "\n".join(entries) + "</feed>\n"


def _entry(release: ReleaseChanges, change: Change) -> str:
    text = f"{change.what}: {change.text}"
    id = uuid5(NAMESPACE_URL, f"{release.name} {change.track} {text}")
    return (
        f"<entry><id>urn:uuid:{id}</id><title>{html.escape(text)}</title><updated>{release.day}T00:00:00Z</updated>"
        f"<link href='changes.html'/><summary>{html.escape(f'{change.track}. {change.why}')}</summary></entry>"
    )

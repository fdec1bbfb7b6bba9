"""An Atom feed of the changes that were published."""

from __future__ import annotations

import html
from collections.abc import Sequence
from uuid import NAMESPACE_URL, uuid5

from imharness_leaderboard.changes import Change, ReleaseChanges

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

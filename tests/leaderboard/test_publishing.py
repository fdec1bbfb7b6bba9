"""Releases: a snapshot that never changes, and what changed from one to the next, and why."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from imharness.documents.tables import Value
from imharness.errors import StoreError, UsageError
from imharness.results.store import Store
from imharness_leaderboard.changes import LeaderboardSummary, Place, changes, read_releases, summary
from imharness_leaderboard.pages import build_site
from imharness_leaderboard.publishing import publish_site

from .conftest import ENTRIES, images, sample_leaderboard, save
from .contested import contested


def moved(values: tuple[float, ...], **facts):
    """Return the leaderboard with other numbers in its main table, sorted."""
    main = sample_leaderboard().tables[0]
    rows = [row.model_copy(update={"values": {"d": Value(value=v)}}) for row, v in zip(main.rows, values, strict=False)]
    rows.sort(key=lambda row: row.values["d"].value)
    return sample_leaderboard(
        tables=(main.model_copy(update={"rows": tuple(rows)}), *sample_leaderboard().tables[1:]), **facts
    )


def test_a_release_keeps_its_snapshot_and_lists_what_changed(tmp_path: Path) -> None:
    store, folder = Store(tmp_path / "store"), tmp_path / "public"
    save(store, sample_leaderboard(store))
    publish_site(tmp_path / "store", folder, "2026-01-01")
    first = (folder / "v" / "2026-01-01" / "acme--evil.html").read_bytes()
    assert (folder / "v" / "2026-01-01" / "data" / "results.json").exists()
    save(store, moved((1.25, 9.0, 3.25, 4.25), sources="1" * 64))
    publish_site(tmp_path / "store", folder, "2026-02-01")
    assert (folder / "v" / "2026-01-01" / "acme--evil.html").read_bytes() == first
    text = (folder / "changes.html").read_text()
    row = re.search(r"<tr><th scope=\"row\">[^\n]*radius=[^\n]*", text)
    assert row is not None
    texts = re.findall(r"<td[^>]*>([^<]*)</td>", row[0])
    assert texts == ["▼ down", "2 → 4", "2.250 → 9.000", "the run was repeated"]
    assert "harness site publish" not in text
    assert "the run was repeated" in text
    assert "other entries moved or arrived" in text
    assert [r.name for r in read_releases(folder)] == ["2026-01-01", "2026-02-01"]
    assert "Release 2026-02-01" in (folder / "index.html").read_text()
    assert '"pool":"2026-02-01 111111111111"' in (folder / "data/acme--evil/wins.vectors.json").read_text()
    assert not (folder / "v" / "2026-02-01" / "v").exists()
    feed = ET.parse(folder / "feed.xml").getroot()
    titles = [e.findtext("{http://www.w3.org/2005/Atom}title") for e in feed.iter("{http://www.w3.org/2005/Atom}entry")]
    assert "acme/blur[radius=2]: D 2.250 → 9.000, rank 2 → 4" in titles


def test_a_release_is_never_written_twice(tmp_path: Path) -> None:
    save(Store(tmp_path / "store"), sample_leaderboard())
    publish_site(tmp_path / "store", tmp_path / "public", "r1")
    before = (tmp_path / "public" / "index.html").stat().st_mtime_ns
    with pytest.raises(UsageError, match="published already"):
        publish_site(tmp_path / "store", tmp_path / "public", "r1")
    assert (tmp_path / "public" / "index.html").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "-x", ".x"])
def test_a_release_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a release"):
        publish_site(tmp_path / "store", tmp_path / "public", name)


def test_a_damaged_list_of_releases_stops_before_anything_is_written(tmp_path: Path) -> None:
    save(Store(tmp_path / "store"), sample_leaderboard())
    (tmp_path / "public" / "data").mkdir(parents=True)
    (tmp_path / "public" / "data" / "releases.json").write_text("[{}]")
    with pytest.raises(StoreError, match="not a list of releases"):
        publish_site(tmp_path / "store", tmp_path / "public", "r1")
    assert not (tmp_path / "public" / "index.html").exists()


def state(values: dict[str, float], **facts) -> dict[str, LeaderboardSummary]:
    ranked = sorted(values, key=values.__getitem__)
    places = {
        label: Place(rank=i + 1, value=values[label], shown=f"{values[label]:.1f}") for i, label in enumerate(ranked)
    }
    usual = {
        "title": "T",
        "page": "t.html",
        "by": "D",
        "sources": "s",
        "scored_by": {"core": "1"},
        "entries": {f"defense {label}": "1" for label in values},
    }
    return {"t": LeaderboardSummary(**(usual | facts), places=places)}


def reasons(old: dict[str, LeaderboardSummary], new: dict[str, LeaderboardSummary]) -> dict[str, str]:
    return {f"{c.what}: {c.text}": c.why for c in changes(old, new)}


def test_every_change_has_its_reason() -> None:
    old = state({"a": 1, "b": 2})
    assert reasons(old, old) == {}
    assert reasons({}, old) == {"track: added, 2 entries by D: 1. a 1.0, 2. b 2.0": "first published with this release"}
    assert reasons(old, {}) == {"track: removed": "none of its results were published"}
    assert reasons(old, state({"a": 1, "b": 3}, sources="t")) == {"b: D 2.0 → 3.0": "the run was repeated"}
    assert reasons(old, state({"a": 1, "b": 3}, scored_by={"core": "2"})) == {
        "b: D 2.0 → 3.0": "the tables were made by core 2"
    }
    line = "2027-01-02: b: D 2 → 3 by 1 image, by A. Breaker"
    assert reasons(old, state({"a": 1, "b": 3}, sources="t", evidence={"defense b": (line,)})) == {
        "b: D 2.0 → 3.0": f"evidence of {line}"
    }
    earlier = state({"a": 1, "b": 2}, evidence={"defense b": (line,)})
    assert reasons(earlier, state({"a": 1, "b": 3}, sources="t", evidence={"defense b": (line,)})) == {
        "b: D 2.0 → 3.0": "the run was repeated"
    }
    bumped = state({"a": 1, "b": 3}, entries={"defense a": "1", "defense b": "2"}, sources="t")
    assert reasons(old, bumped) == {
        "b: defense, version 1 → 2": "its author changed the numbers",
        "b: D 2.0 → 3.0": "new version of defense b",
    }
    arrived = state({"a": 1, "b": 2, "c": 0}, sources="t")
    assert reasons(old, arrived) == {
        "c: defense added, rank 1, D 0.0": "it is a new entry",
        "a: rank 1 → 2": "other entries moved or arrived",
        "b: rank 2 → 3": "other entries moved or arrived",
    }
    assert reasons(old, state({"a": 1}, sources="t"))["b: defense removed, was rank 2, D 2.0"].startswith(
        "it was withdrawn"
    )


def test_a_summary_holds_the_ranking_of_the_main_table() -> None:
    result = summary(sample_leaderboard())
    assert [(label, position.rank, position.shown) for label, position in result.places.items()] == [
        (label, i + 1, f"{1.25 + i:.3f}") for i, label in enumerate(ENTRIES)
    ]
    assert result.entries == {"defense acme/blur": "1"}


def test_a_summary_of_a_ranking_has_its_places_and_the_number_behind_them(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    leaderboard, _ = contested(sample_leaderboard, store, images(store))
    result, places = summary(leaderboard), {row.label: row.number("rank") for row in leaderboard.tables[0].rows}
    assert result.by == "D, % of the range, worst attack"
    assert {label: position.rank for label, position in result.places.items()} == {
        label: rank for label, rank in places.items() if rank is not None
    }


def test_a_state_that_nobody_published_says_what_is_in_it(tmp_path: Path) -> None:
    save(Store(tmp_path / "store"), sample_leaderboard())
    build_site(tmp_path / "store", tmp_path / "site")
    text = (tmp_path / "site" / "changes.html").read_text()
    assert f"{len(ENTRIES)} entries by D: 1. acme/blur 1.250" in text

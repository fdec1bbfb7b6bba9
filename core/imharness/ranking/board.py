"""From finished tasks to tables: merge a run into its configuration, let the track make tables, keep them."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from imharness.errors import HarnessError, StoreError
from imharness.ranking.comparisons import not_worse
from imharness.ranking.judges import Judges, beside
from imharness.ranking.ranking import winner
from imharness.ranking.tables import win_table
from imharness.reading.fields import explain
from imharness.results.boards import Board
from imharness.results.comparisons import Comparison
from imharness.results.identity import canonical_json, version_of
from imharness.results.query import ResultQuery
from imharness.results.rankings import Ranking
from imharness.results.report import TrackReport
from imharness.results.store import Store
from imharness.results.sweeps import Missing, RunFacts, Sweep
from imharness.results.tables import Table
from imharness.results.tasks import SECRET, TaskRecord
from imharness.statistics.win_rates import MATRIX

if TYPE_CHECKING:
    from imharness.components.entries import KnownEntries
    from imharness.contracts.track import Track


Progress = AbstractContextManager[Callable[[int, int], None]]
_distributions = functools.cache(importlib.metadata.packages_distributions)


def quiet(_: str) -> Progress:
    """Show nothing."""
    return nullcontext(lambda done, total: None)


def make_board(
    store: Store, track: Track, sweep: Sweep, known: KnownEntries, progress: Callable[[str], Progress] = quiet
) -> Board:
    """Compute the tables of a configuration and keep them, with the scores behind them; see `made_board`."""
    return store.save_board(*made_board(store, track, sweep, known, progress))


def made_board(
    store: Store, track: Track, sweep: Sweep, known: KnownEntries, progress: Callable[[str], Progress] = quiet
) -> tuple[Board, dict[str, npt.NDArray[np.floating]]]:
    """Return the tables of a configuration, and by comparison the scores behind them.

    While cells are waiting, nothing is marked, and no ranking says who wins. `progress`: opens what shows how far a
    part of the work is.
    """
    with progress(f"{track.info.id}: reading results") as advance:
        found = records_of(store, sweep, advance)
    standing, withdrawn = _standing(found, known.withdrawn)
    records, outdated = newest_only(one_split(standing, sweep.secret))
    try:
        with progress(f"{track.info.id}: making tables"):
            report = _report(store, as_set_up(track, sweep), records, known)
    except HarnessError:
        raise
    except Exception as error:
        raise HarnessError(f"tables of {track.info.id} failed: {type(error).__name__}: {error}") from error
    stored = [paired.stored() for paired in report.comparisons]
    wins = [win_table(paired) for paired in report.comparisons if len(paired.entries) <= MATRIX]
    tables = [*report.tables, *wins]
    gaps = (*sweep.missing, *outdated, *withdrawn)
    facts = {name: getattr(sweep, name) for name in RunFacts.model_fields if name not in ("schema_version", "missing")}
    board = Board(
        **facts,
        question=track.question,
        missing=gaps,
        cells_done=len(records),
        cells_failed=len(sweep.failed),
        cells_missing=len(gaps),
        tables=tuple(table if sweep.waiting else _marked(table, stored, report.rankings) for table in tables),
        versions=_versions(records),
        entries=known.of(records),
        comparisons=tuple(own for own, _ in stored),
        rankings=() if sweep.waiting else tuple(report.rankings),
        charts=tuple(report.charts),
        examples=tuple(report.examples),
        sources=store.sources(sweep),
        scored_by=_scorers(track, known),
        decided=known.decided,
    )
    return board, {comparison.id: numbers for comparison, numbers in stored}


def as_set_up(track: Track, sweep: Sweep) -> Track:
    """Return a track with the options of the run whose results are ranked; raises `HarnessError` if it refuses them."""
    options = sweep.set_up.get("options", {})
    try:
        return track.with_parameters(**options) if options else track
    except ValidationError as error:
        said = f"options of {track.info.id} in the run: {explain(error, type(track))}"
        raise HarnessError(f"{said}; run it again, or rank it with the version that ran it") from None


def _report(store: Store, track: Track, records: list[TaskRecord], known: KnownEntries) -> TrackReport:
    """Return the track's report of the records that decide, with what else is shown beside it; see `Judges`."""

    def made(chosen: list[TaskRecord]) -> TrackReport:
        return track.report(ResultQuery(store, chosen, known.facts(chosen))) if chosen else TrackReport()

    deciding, said = Judges.of(track, known.standing, known.examined).apart(records)
    return beside(made(deciding), made(records), said) if said else made(records)


def _standing(records: list[TaskRecord], gone: Mapping[str, str]) -> tuple[list[TaskRecord], list[Missing]]:
    """Leave out what was withdrawn; "owner/" stands for all of an owner."""

    def why(id: str) -> str:
        return gone.get(id) or gone.get(f"{id.partition('/')[0]}/", "")

    kept = [r for r in records if not any(why(ref.id) for ref in r.spec.components.values())]
    used = sorted({ref.id for r in records for ref in r.spec.components.values()})
    gaps = [Missing(what=id, reason=f"withdrawn: {why(id)}", remedy="") for id in used if why(id)]
    return kept, gaps


def _scorers(track: Track, known: KnownEntries) -> dict[str, str]:
    names = set(_distributions().get("imharness", ()))
    with suppress(KeyError):
        names.add(known.registry.provenance(track).provenance.distribution)
    return {name: version for name in sorted(names) if (version := version_of(name))}


def _marked(
    table: Table, stored: list[tuple[Comparison, npt.NDArray[np.floating]]], rankings: Sequence[Ranking]
) -> Table:
    """Add which rows are not shown to be worse than the best, in columns that a comparison stands behind.

    Where the table is a ranking, the best is one of its complete entries, and no control.
    """
    places = next((own.places for own in rankings if own.table == table.id), {})
    apart = {label for label, place in places.items() if place.control or not place.complete}
    those = table.model_copy(update={"rows": tuple(row for row in table.rows if row.label not in apart)})
    found = {
        own.column: not_worse(own, numbers, best)
        for own, numbers in stored
        if own.table == table.id and (best := winner(those, own.column)) in own.entries
    }
    return table.model_copy(update={"not_worse": found}) if found else table


def records_of(
    store: Store, sweep: Sweep, advance: Callable[[int, int], None] = lambda done, total: None
) -> list[TaskRecord]:
    """Return the records of a configuration, and those that were imported; `advance` is told how many were read."""
    keys, found = store.keys_of(sweep), dict[str, TaskRecord]()
    for done, (key, record) in enumerate(store.records(keys), start=1):
        if isinstance(record, StoreError):
            raise record
        found[key] = record
        advance(done, len(keys))
    return [found[key] for key in keys if key in found]


def newest_only(records: list[TaskRecord]) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records whose step and components have the newest version there is, and what was left out.

    Numbers of two versions never share a table.
    """
    newest: dict[tuple[str, str], tuple[tuple[int, ...], str, str]] = {}
    for record in records:
        for place, version in _versioned(record):
            newest[place] = max(newest.get(place, ((), "", "")), (_numbers(version), record.started, version))
    kept, dropped = [], dict[tuple[str, str], int]()
    for record in records:
        old = [place for place, version in _versioned(record) if newest[place][-1] != version]
        if not old:
            kept.append(record)
        for place in old[:1]:
            dropped[place] = dropped.get(place, 0) + 1
    gaps = [
        Missing(
            what=f"{count} cell{'s' if count > 1 else ''} of {label or kind}",
            reason=f"computed by an older version; version {newest[kind, label][-1]} is ranked",
            remedy="harness run --all",
        )
        for (kind, label), count in sorted(dropped.items())
    ]
    return kept, gaps


def one_split(records: list[TaskRecord], secret: str) -> list[TaskRecord]:
    """Return the records without those of which another one differs in its split alone.

    What strangers' evaluators are measured on may be of another split than the run. `secret`: the digest of the run's
    split, "" for the public one. Its own records stay; among others, the newest one stays.
    """
    if all(record.spec.split == secret for record in records):
        return records
    cells: dict[str, list[TaskRecord]] = {}
    for record in records:
        rest = {name: value for name, value in record.spec.options.items() if name != SECRET}
        parts = {role: ref.label for role, ref in record.spec.components.items()}
        cells.setdefault(canonical_json([record.spec.step, parts, rest]), []).append(record)
    kept = {
        place: secret if secret in splits else max(own, key=lambda record: record.started).spec.split
        for place, own in cells.items()
        if len(splits := {record.spec.split for record in own}) > 1
    }
    gone = {record.key for place, split in kept.items() for record in cells[place] if record.spec.split != split}
    return [record for record in records if record.key not in gone]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in a version; they say more than clocks, which may go back."""
    return tuple(map(int, re.findall(r"[0-9]+", version)))


def _versioned(record: TaskRecord) -> list[tuple[tuple[str, str], str]]:
    parts = {(ref.kind, ref.id): ref.version for ref in record.spec.components.values()}
    return [((f"step {record.spec.step}", f"step {record.spec.step}"), record.spec.version), *parts.items()]


def _versions(records: list[TaskRecord]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}

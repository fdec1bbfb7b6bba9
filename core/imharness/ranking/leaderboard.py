"""From finished tasks to tables: read the results that count, let the track make tables, and store the leaderboard."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from imharness.documents.comparisons import Comparison
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Ranking
from imharness.documents.report import TrackReport
from imharness.documents.stored import write_leaderboard
from imharness.documents.tables import Table, several
from imharness.errors import HarnessError, PluginError
from imharness.ranking.comparisons import not_worse
from imharness.ranking.current import current_of, records_of, standing_only
from imharness.ranking.failing import failures_of, with_failed
from imharness.ranking.judges import Judges, beside
from imharness.ranking.ranking import winner
from imharness.ranking.tables import win_table
from imharness.reading.fields import explain
from imharness.results.identity import LOCAL, owner_of, version_of
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.sweeps import Missing, RunFacts, Sweep
from imharness.results.tasks import EXTERNAL, IMPORTED, TaskRecord
from imharness.statistics.win_rates import MATRIX

if TYPE_CHECKING:
    from imharness.components.entries import KnownEntries
    from imharness.components.registry import Registry
    from imharness.contracts.track import Track

GONE = "no longer in the store"
"""The reason of a gap: results were stored once and have gone."""
DEVICES = "devices"
"""The name under which the versions of a leaderboard list the devices, if results were computed on several models."""
PUBLIC = "on public photographs"
"""What a headline that names a winner or leader adds if the entries may have been made for the photographs."""
Progress = AbstractContextManager[Callable[[int, int], None]]
_distributions = functools.cache(importlib.metadata.packages_distributions)


def quiet(_: str) -> Progress:
    """Show nothing."""
    return nullcontext(lambda done, total: None)


def make_leaderboard(
    store: Store, track: Track, sweep: Sweep, catalogue: KnownEntries, progress: Callable[[str], Progress] = quiet
) -> Leaderboard:
    """Compute the tables of a configuration and keep them, with the scores behind them; see `made_leaderboard`."""
    return write_leaderboard(store, *made_leaderboard(store, track, sweep, catalogue, progress))


def made_leaderboard(
    store: Store, track: Track, sweep: Sweep, catalogue: KnownEntries, progress: Callable[[str], Progress] = quiet
) -> tuple[Leaderboard, dict[str, npt.NDArray[np.floating]]]:
    """Return the tables of a configuration, and comparison id -> the scores behind them ``(entries, total)``.

    While tasks are waiting, no best entry is marked, and no ranking says who wins. `progress`: title -> a context in
    which the progress of a step is shown. Raises `HarnessError` where the track cannot make its tables.
    """
    with progress(f"{track.info.id}: reading results") as advance:
        all_records = records_of(store, sweep, advance)
    standing, withdrawn = standing_only(all_records, catalogue.withdrawn)
    withdrawn_keys = {record.key for record in all_records} - {record.key for record in standing}
    records, outdated = current_of(standing, store, track, sweep, catalogue.registry, withdrawn_keys)
    try:
        with progress(f"{track.info.id}: making tables"):
            report = _report(store, as_set_up(track, sweep), records, catalogue)
    except HarnessError:
        raise
    except Exception as error:
        raise HarnessError(f"tables of {track.info.id} failed: {type(error).__name__}: {error}") from error
    stored = [paired.stored() for paired in report.comparisons]
    wins = [win_table(paired) for paired in report.comparisons if len(paired.entries) <= MATRIX]
    marked = [table if sweep.waiting else _marked(table, stored, report.rankings) for table in (*report.tables, *wins)]
    tables, rankings = with_failed(marked, report.rankings, failures_of(sweep, records))
    if _is_public(track, records, catalogue.registry):
        rankings = [_said_on_public(ranking) for ranking in rankings]
    gaps = (
        *sweep.missing,
        *outdated,
        *withdrawn,
        *_discarded(store, sweep, all_records),
        *_of_other_runs(store, sweep, all_records),
    )
    facts = {name: getattr(sweep, name) for name in RunFacts.model_fields if name not in ("schema_version", "missing")}
    leaderboard = Leaderboard(
        **facts,
        question=track.question,
        missing=gaps,
        tasks_done=len(records),
        tasks_failed=len(sweep.failed),
        tasks_missing=len(gaps),
        tables=tuple(tables),
        versions=_versions(records),
        entries=catalogue.of(records),
        comparisons=tuple(comparison for comparison, _ in stored),
        rankings=() if sweep.waiting else tuple(rankings),
        charts=tuple(report.charts),
        examples=tuple(report.examples),
        sources=store.sources(sweep),
        scored_by=_scorers(track, catalogue),
        decided=catalogue.decided,
    )
    return leaderboard, {comparison.id: numbers for comparison, numbers in stored}


def as_set_up(track: Track, sweep: Sweep) -> Track:
    """Return a track with the options of the run whose results are ranked; raises `HarnessError` if it refuses them."""
    options = sweep.set_up.get("options", {})
    try:
        return track.with_parameters(**options) if options else track
    except ValidationError as error:
        message = f"options of {track.info.id} in the run: {explain(error, type(track))}"
        raise HarnessError(f"{message}; run it again, or rank it with the version that ran it") from None


def _report(store: Store, track: Track, records: list[TaskRecord], catalogue: KnownEntries) -> TrackReport:
    """Return the track's report of the records that decide, with everything else shown beside it; see `Judges`."""

    def report_of(chosen: list[TaskRecord]) -> TrackReport:
        return track.report(ResultQuery(store, chosen, catalogue.facts(chosen))) if chosen else TrackReport()

    deciding, note = Judges.of(track, catalogue.standing, catalogue.examined).apart(records)
    return beside(report_of(deciding), report_of(records), note) if note else report_of(records)


def _is_public(track: Track, records: Sequence[TaskRecord], registry: Registry) -> bool:
    """Return whether entries of a track that has seasons on unpublished photographs were measured on published ones.

    A data set counts as published if it comes with a package; files of the user and objects of notebooks do not. Only
    tasks that no other task needs are looked at, because entries are measured there: a task that trains an attack, for
    example, may read published photographs.
    """
    if not track.season_datasets:
        return False
    needed = {key for record in records for key in record.spec.needs.values()}
    last_records = [record for record in records if record.key not in needed]
    refs = {ref.label: ref for record in last_records for ref in record.spec.components.values()}
    for ref in refs.values():
        if ref.kind == "dataset" and owner_of(ref.id) != LOCAL:
            with suppress(PluginError, ValidationError):
                dataset = registry.revive(ref)
                if not dataset.address or not getattr(dataset, dataset.address):  # it reads no files of the user
                    return True
    return False


def _said_on_public(ranking: Ranking) -> Ranking:
    """Return a ranking whose headline adds `PUBLIC` if it names a winner or a leader."""
    if ranking.outcome not in ("winner", "leader"):
        return ranking
    claim = f"{ranking.claim.removesuffix('.')} ({PUBLIC})."
    places = {
        label: position.model_copy(
            update={"headline": tuple(claim if line == ranking.claim else line for line in position.headline)}
        )
        for label, position in ranking.places.items()
    }
    return ranking.model_copy(update={"claim": claim, "places": places})


def _discarded(store: Store, sweep: Sweep, records: Sequence[TaskRecord]) -> list[Missing]:
    """Return the gap of results that are planned and no longer stored, such as damaged ones that were discarded."""
    count = len({*store.keys_of(sweep)} - {record.key for record in records})
    what = f"{several(count, 'task')} of {sweep.title}"
    return [Missing(what=what, reason=GONE, remedy=sweep.command)] if count else []


def _scorers(track: Track, catalogue: KnownEntries) -> dict[str, str]:
    """Return the distributions whose code makes the tables, those of the harness and of the track -> their versions."""
    names = set(_distributions().get("imharness", ()))
    with suppress(KeyError):
        names.add(catalogue.registry.provenance(track).provenance.distribution)
    return {name: version for name in sorted(names) if (version := version_of(name))}


def _marked(
    table: Table, stored: list[tuple[Comparison, npt.NDArray[np.floating]]], rankings: Sequence[Ranking]
) -> Table:
    """Return a table that says, for each column with a comparison, which rows are not shown to be worse than the best.

    Where the table is a ranking, the best is one of the entries that may win, as in `imharness.exports.marks`.
    `stored`: all comparisons with their numbers.
    """
    ranking = next((ranking for ranking in rankings if ranking.table == table.id), None)
    rows = table.rows
    if ranking is not None:
        cannot_win = {label for label, position in ranking.places.items() if not position.eligible}
        rows = tuple(row for row in rows if row.label not in cannot_win)
    may_win = table.model_copy(update={"rows": rows})
    tied: dict[str, tuple[str, ...]] = {}
    for comparison, numbers in stored:
        if comparison.table == table.id:
            best = winner(may_win, comparison.column)
            if best in comparison.entries:
                tied[comparison.column] = not_worse(comparison, numbers, best, ranking)
    return table.model_copy(update={"not_worse": tied}) if tied else table


def _of_other_runs(store: Store, sweep: Sweep, records: Sequence[TaskRecord]) -> list[Missing]:
    """Return a gap for each imported file that is not among `records`, because it is about results of another run."""
    imported, present = store.sweep(sweep.track, EXTERNAL), {record.key for record in records}
    absent = [name for name, key in (imported.tasks if imported else {}).items() if key not in present]
    files = dict.fromkeys(name.removeprefix(IMPORTED).partition(" part=")[0] for name in absent)
    return [
        Missing(
            what=f"imported rows of {file}",
            reason="they are about results that this run does not have",
            remedy="import them again",
        )
        for file in files
    ]


def _versions(records: list[TaskRecord]) -> dict[str, str]:
    """Return the versions that the records were made with: name -> all its versions, separated by commas."""
    named_versions: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            named_versions.setdefault(name, set()).add(version)
    devices = {record.device for record in records if record.versions}  # not of imports, which were measured elsewhere
    named_versions |= {DEVICES: devices} if len(devices) > 1 else {}
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(named_versions.items())}

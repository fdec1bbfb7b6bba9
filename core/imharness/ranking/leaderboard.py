"""From finished tasks to tables: merge a run into its configuration, let the track make tables, keep them."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from imharness.errors import HarnessError, PluginError
from imharness.ranking.comparisons import not_worse
from imharness.ranking.current import current_of, records_of, standing_only
from imharness.ranking.failing import failures_of, with_failed
from imharness.ranking.judges import Judges, beside
from imharness.ranking.ranking import winner
from imharness.ranking.tables import win_table
from imharness.reading.fields import explain
from imharness.results.comparisons import Comparison
from imharness.results.identity import LOCAL, owner_of, version_of
from imharness.results.leaderboards import Leaderboard
from imharness.results.query import ResultQuery
from imharness.results.rankings import Ranking
from imharness.results.report import TrackReport
from imharness.results.store import Store
from imharness.results.sweeps import Missing, RunFacts, Sweep
from imharness.results.tables import Table, several
from imharness.results.tasks import EXTERNAL, IMPORTED, TaskRecord
from imharness.statistics.win_rates import MATRIX

if TYPE_CHECKING:
    from imharness.components.entries import KnownEntries
    from imharness.components.registry import Registry
    from imharness.contracts.track import Track

GONE = "no longer in the store"
"""Why tables lack results that were there once."""
DEVICES = "devices"
"""What stands among the versions where results were computed on several models of devices."""
PUBLIC = "on public photographs"
"""What a first place says where entries could know the photographs."""
Progress = AbstractContextManager[Callable[[int, int], None]]
_distributions = functools.cache(importlib.metadata.packages_distributions)


def quiet(_: str) -> Progress:
    """Show nothing."""
    return nullcontext(lambda done, total: None)


def make_leaderboard(
    store: Store, track: Track, sweep: Sweep, catalogue: KnownEntries, progress: Callable[[str], Progress] = quiet
) -> Leaderboard:
    """Compute the tables of a configuration and keep them, with the scores behind them; see `made_leaderboard`."""
    return store.save_leaderboard(*made_leaderboard(store, track, sweep, catalogue, progress))


def made_leaderboard(
    store: Store, track: Track, sweep: Sweep, catalogue: KnownEntries, progress: Callable[[str], Progress] = quiet
) -> tuple[Leaderboard, dict[str, npt.NDArray[np.floating]]]:
    """Return the tables of a configuration, and by comparison the scores behind them.

    While tasks are waiting, nothing is marked, and no ranking says who wins. `progress`: opens what shows how far a
    part of the work is.
    """
    with progress(f"{track.info.id}: reading results") as advance:
        all_records = records_of(store, sweep, advance)
    standing, withdrawn = standing_only(all_records, catalogue.withdrawn)
    gone = {record.key for record in all_records} - {record.key for record in standing}
    records, outdated = current_of(standing, store, track, sweep, catalogue.registry, gone)
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
    """Return the track's report of the records that decide, with what else is shown beside it; see `Judges`."""

    def made(chosen: list[TaskRecord]) -> TrackReport:
        return track.report(ResultQuery(store, chosen, catalogue.facts(chosen))) if chosen else TrackReport()

    deciding, note = Judges.of(track, catalogue.standing, catalogue.examined).apart(records)
    return beside(made(deciding), made(records), note) if note else made(records)


def _is_public(track: Track, records: Sequence[TaskRecord], registry: Registry) -> bool:
    """Say whether a track that has seasons on unpublished photographs was computed on published ones.

    These are data sets that a package names; files of the user's own, and objects of notebooks, need not be published.
    What other tasks read, such as an attack that was trained, may come from published photographs: no entry is measured
    there.
    """
    if not track.season_datasets:
        return False
    read = {key for record in records for key in record.spec.needs.values()}
    last = [record for record in records if record.key not in read]
    datasets = {ref.label: ref for record in last for ref in record.spec.components.values()}
    for ref in datasets.values():
        if ref.kind == "dataset" and owner_of(ref.id) != LOCAL:
            with suppress(PluginError, ValidationError):
                dataset = registry.revive(ref)
                if not dataset.address or not getattr(dataset, dataset.address):
                    return True
    return False


def _said_on_public(ranking: Ranking) -> Ranking:
    """Return a ranking of which a headline that names a first place says that photographs are public."""
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
    """Return the gap that results leave which were there once, such as damaged ones that were discarded."""
    count = len({*store.keys_of(sweep)} - {record.key for record in records})
    what = f"{several(count, 'task')} of {sweep.title}"
    return [Missing(what=what, reason=GONE, remedy=sweep.command)] if count else []


def _scorers(track: Track, catalogue: KnownEntries) -> dict[str, str]:
    names = set(_distributions().get("imharness", ()))
    with suppress(KeyError):
        names.add(catalogue.registry.provenance(track).provenance.distribution)
    return {name: version for name in sorted(names) if (version := version_of(name))}


def _marked(
    table: Table, stored: list[tuple[Comparison, npt.NDArray[np.floating]]], rankings: Sequence[Ranking]
) -> Table:
    """Add which rows are not shown to be worse than the best, in columns that a comparison stands behind.

    Where the table is a ranking, the best is one of the entries that may win, as in `imharness.exports.marks`, and what
    the ranking says of the best and another entry comes before the intervals of all pairs.
    """
    ranking = next((ranking for ranking in rankings if ranking.table == table.id), None)
    apart = {label for label, position in ranking.places.items() if not position.eligible} if ranking else set[str]()
    those = table.model_copy(update={"rows": tuple(row for row in table.rows if row.label not in apart)})
    tied = {
        comparison.column: not_worse(comparison, numbers, best, ranking)
        for comparison, numbers in stored
        if comparison.table == table.id and (best := winner(those, comparison.column)) in comparison.entries
    }
    return table.model_copy(update={"not_worse": tied}) if tied else table


def _of_other_runs(store: Store, sweep: Sweep, records: Sequence[TaskRecord]) -> list[Missing]:
    """Return the imports that `records` leave out, because what they are about is not of this run."""
    imported, here = store.sweep(sweep.track, EXTERNAL), {record.key for record in records}
    gone = [name for name, key in (imported.tasks if imported else {}).items() if key not in here]
    return [
        Missing(
            what=f"imported rows of {file}",
            reason="they are about results that this run does not have",
            remedy="import them again",
        )
        for file in dict.fromkeys(name.removeprefix(IMPORTED).partition(" part=")[0] for name in gone)
    ]


def _versions(records: list[TaskRecord]) -> dict[str, str]:
    named_versions: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            named_versions.setdefault(name, set()).add(version)
    devices = {record.device for record in records if record.versions}  # not of imports, which were measured elsewhere
    named_versions |= {DEVICES: devices} if len(devices) > 1 else {}
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(named_versions.items())}

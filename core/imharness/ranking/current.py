"""Which results of a run count in its tables: those of one version, of the same files, and made from one another."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING

from imharness.errors import StoreError
from imharness.results.identity import canonical_json, owner_of
from imharness.results.store import Store
from imharness.results.sweeps import Missing, Sweep
from imharness.results.tables import several
from imharness.results.tasks import EXTERNAL, SECRET, TaskRecord
from imharness.results.withdrawals import address_of, without_code

if TYPE_CHECKING:
    from imharness.components.registry import Registry
    from imharness.contracts.track import Track

CHANGED = "computed before its files changed; the latest run saw others"
"""Why tables lack results of data or weights that are no longer what they were."""
WITHDRAWN = "withdrawn: "
"""The beginning of why tables lack results that were taken out of them."""
BEHIND = "made from results that were computed anew since, or are left out"
"""Why tables lack results that need others, such as attacked images, which are not those of the run any more."""
REPEAT = "repeat the run with all that is to stand in the tables"
FRESH = "; if that computes nothing, with --fresh"
Place = tuple[str, str]
"""What has a version of its own: kind and id of a component, or twice the name of a step."""


def current_records(
    store: Store, track: Track, sweep: Sweep, registry: Registry, withdrawn: Mapping[str, str]
) -> list[TaskRecord]:
    """Return the records of a configuration that count, of which its tables are made; see `standing_only`."""
    every = records_of(store, sweep)
    standing, _ = standing_only(every, withdrawn)
    gone = {record.key for record in every} - {record.key for record in standing}
    return current_of(standing, store, track, sweep, registry, gone)[0]


def current_of(
    records: list[TaskRecord],
    store: Store,
    track: Track,
    sweep: Sweep,
    registry: Registry,
    withdrawn: Set[str] = frozenset(),
) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records of a configuration that count, and what was left out; `withdrawn`: the keys of others."""
    candidates = one_split(records, sweep.secret)
    current, changed = one_content(candidates)
    newest, outdated = newest_only(current, installed_versions(track, registry))
    gone = withdrawn | ({record.key for record in candidates} - {record.key for record in newest})
    remaining, behind = with_current_needs(newest, gone, {*store.keys_of(sweep)})
    return remaining, [*changed, *outdated, *behind]


def records_of(
    store: Store, sweep: Sweep, advance: Callable[[int, int], None] = lambda done, total: None
) -> list[TaskRecord]:
    """Return the records of a configuration, and those that were imported; `advance` is told how many were read.

    Imported rows about results of another run, such as votes on its images, are left out.
    """
    keys, records_by_key = store.keys_of(sweep), dict[str, TaskRecord]()
    for done, (key, record) in enumerate(store.records(keys), start=1):
        if isinstance(record, StoreError):
            raise record
        records_by_key[key] = record
        advance(done, len(keys))
    computed = set(sweep.tasks.values())

    def belongs(record: TaskRecord) -> bool:
        return record.spec.step != EXTERNAL or computed.issuperset(record.spec.needs.values())

    return [records_by_key[key] for key in keys if key in records_by_key and belongs(records_by_key[key])]


def standing_only(records: list[TaskRecord], gone: Mapping[str, str]) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records without what was withdrawn: a component, one version of it, or by "owner/" all of an owner.

    And what was left out.
    """

    def gap(id: str, version: str) -> tuple[str, str] | None:
        whole = {id: gone.get(id) or gone.get(f"{owner_of(id)}/", "")}
        versions = {
            name: gone.get(name, "") for name in (address_of(id, version), address_of(id, without_code(version)))
        }
        return next(((what, why) for what, why in {**whole, **versions}.items() if why), None)

    used = {(ref.id, ref.version) for r in records for ref in r.spec.components.values()}
    gaps = {ref: reason for ref in sorted(used) if (reason := gap(*ref))}
    remaining = [r for r in records if not any((ref.id, ref.version) in gaps for ref in r.spec.components.values())]
    reasons = dict.fromkeys(gaps.values())
    return remaining, [Missing(what=what, reason=f"{WITHDRAWN}{why}", remedy="") for what, why in reasons]


def installed_versions(track: Track, registry: Registry) -> Callable[[Place], str]:
    """Return a function that returns the version, with the code, of what is installed here; "" where it is not."""
    steps = {f"step {step.name}": step for step in track.steps}

    @functools.cache
    def version(component: Place) -> str:
        if component[0] in steps:
            return registry.numbered(track, steps[component[0]].version)
        return registry.version(*component)

    return version


def newest_only(
    records: list[TaskRecord], installed: Callable[[Place], str] = lambda component: ""
) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records whose step and components have the newest version there is, and what was left out.

    Numbers of two versions never share a table. The version that is installed counts as the newest.
    """
    newest: dict[Place, tuple[bool, tuple[int, ...], str, str]] = {}
    for record in records:
        for component, version in _versioned(record):
            age = (installed(component) == version, _numbers(version), record.started, version)
            newest[component] = max(newest.get(component, (False, (), "", "")), age)
    current, dropped = [], dict[tuple[str, str], int]()
    for record in records:
        old = [candidate for candidate, version in _versioned(record) if newest[candidate][-1] != version]
        if not old:
            current.append(record)
        for component in old[:1]:
            dropped[component] = dropped.get(component, 0) + 1
    gaps = [
        Missing(
            what=f"{count} task{'s' if count > 1 else ''} of {label or kind}",
            reason=f"computed by an older version; version {newest[kind, label][-1]} is ranked",
            remedy="harness run --all",
        )
        for (kind, label), count in sorted(dropped.items())
    ]
    return current, gaps


def one_content(records: list[TaskRecord]) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records that saw the same files as those of the latest run, which come first, and what was left out.

    The images of a folder, or other weights under a name, may have changed since others were computed: numbers of two
    contents never share a table.
    """
    contents: dict[Place, str] = {}
    dropped = dict[str, str]()
    for record in records:
        for ref in record.spec.components.values():
            if ref.content and contents.setdefault((ref.kind, ref.label), ref.content) != ref.content:
                dropped.setdefault(record.key, ref.label)
    gaps = [
        Missing(what=f"{several(count, 'task')} of {label}", reason=CHANGED, remedy=REPEAT)
        for label, count in sorted(Counter(dropped.values()).items())
    ]
    return [record for record in records if record.key not in dropped], gaps


def with_current_needs(
    records: list[TaskRecord], gone: Set[str], planned: Set[str]
) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records that need only results of the run, and what was left out.

    A task may not name what changed before it: the data that an attack was trained on, how the adversary's models are
    trained, the version of an earlier step. Then its address stays, and so did its old number beside new ones. Nor
    does it name the device, so that a result may be another one under its key: computed anew, or that of another store.

    Args:
        records: those of the run.
        gone: the keys of others, which are left out.
        planned: the keys of all tasks of the run; one that is damaged or missing in the store says nothing against what
            needs it.
    """
    outcomes = {record.key: record.outcome for record in records}
    stale = {record.key for record in records if _read_others(record, outcomes)}
    current, dropped = set(planned - gone - stale), Counter(r.spec.step for r in records if r.key in stale)
    while lost := [r for r in records if r.key in current and not current.issuperset(r.spec.needs.values())]:
        current.difference_update(record.key for record in lost)
        dropped.update(record.spec.step for record in lost)
    gaps = [
        Missing(
            what=f"{several(count, 'task')} of step {step}",
            reason=BEHIND,
            remedy="import them again" if step == EXTERNAL else f"{REPEAT}{FRESH}",
        )
        for step, count in sorted(dropped.items())
    ]
    return [record for record in records if record.key in current], gaps


def _read_others(record: TaskRecord, outcomes: Mapping[str, str]) -> bool:
    """Return whether a task read another result than the one that stands under the key of its need now."""
    return any(outcomes.get(record.spec.needs[name], outcome) != outcome for name, outcome in record.read.items())


def one_split(records: list[TaskRecord], secret: str) -> list[TaskRecord]:
    """Return the records without those of which another one differs in its split alone.

    What strangers' evaluators are measured on may be of another split than the run. `secret`: the digest of the run's
    split, "" for the public one. Its own records stay; among others, the newest one stays.
    """
    if all(record.spec.split == secret for record in records):
        return records
    tasks: dict[str, list[TaskRecord]] = {}
    for record in records:
        rest = {name: value for name, value in record.spec.options.items() if name != SECRET}
        labels = {role: ref.label for role, ref in record.spec.components.items()}
        tasks.setdefault(canonical_json([record.spec.step, labels, rest]), []).append(record)
    task_splits = {
        key: secret if secret in splits else max(repeats, key=lambda record: record.started).spec.split
        for key, repeats in tasks.items()
        if len(splits := {record.spec.split for record in repeats}) > 1
    }
    gone = {record.key for key, split in task_splits.items() for record in tasks[key] if record.spec.split != split}
    return [record for record in records if record.key not in gone]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in a version without its code; they say more than clocks, which may go back."""
    return tuple(map(int, re.findall(r"[0-9]+", version.rpartition("+")[0] or version)))


def _versioned(record: TaskRecord) -> list[tuple[Place, str]]:
    versions = {(ref.kind, ref.id): ref.version for ref in record.spec.components.values()}
    return [((f"step {record.spec.step}", f"step {record.spec.step}"), record.spec.version), *versions.items()]

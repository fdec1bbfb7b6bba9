"""Which results of a run count in its tables.

A result counts if it is not withdrawn, belongs to the split of the run, saw the files that the latest run saw, was
computed by the newest version of its step and components, and was made from results that count. One function tests
each condition: `standing_only`, `one_split`, `one_content`, `newest_only` and `with_current_needs`. It returns the
records that meet the condition and, except for `one_split`, the gaps that the others leave in the tables.
`current_records` and `current_of` apply the conditions in turn.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, NamedTuple

from imharness.documents.tables import several
from imharness.documents.withdrawals import address_of, without_code
from imharness.errors import StoreError
from imharness.results.identity import canonical_json, owner_of
from imharness.results.store import Store
from imharness.results.sweeps import Missing, Sweep
from imharness.results.tasks import EXTERNAL, SECRET, TaskRecord

if TYPE_CHECKING:
    from imharness.components.registry import Registry
    from imharness.contracts.track import Track

CHANGED = "computed before its files changed; the latest run saw others"
"""The reason of a gap: the data or weights of a result have changed since it was computed."""
WITHDRAWN = "withdrawn: "
"""The first word of the reason of a gap that withdrawn results leave."""
BEHIND = "made from results that were computed anew since, or are left out"
"""The reason of a gap: a result was made from another one, such as attacked images, which does not count any more."""
REPEAT = "repeat the run with everything that its tables should show"
FRESH = "; if that computes nothing, with --fresh"
Versioned = tuple[str, str]
"""What has a version: (kind, id) of a component, or ("step NAME", "step NAME") of a step."""


def current_records(
    store: Store, track: Track, sweep: Sweep, registry: Registry, withdrawn: Mapping[str, str]
) -> list[TaskRecord]:
    """Return the records of a configuration that count, of which its tables are made.

    `withdrawn`: what is withdrawn -> the reason, see `standing_only`.
    """
    every = records_of(store, sweep)
    standing, _ = standing_only(every, withdrawn)
    withdrawn_keys = {record.key for record in every} - {record.key for record in standing}
    return current_of(standing, store, track, sweep, registry, withdrawn_keys)[0]


def current_of(
    records: list[TaskRecord],
    store: Store,
    track: Track,
    sweep: Sweep,
    registry: Registry,
    withdrawn_keys: Set[str] = frozenset(),
) -> tuple[list[TaskRecord], list[Missing]]:
    """Return those of the records that count, and the gaps that the others leave.

    `records`: those of the configuration without withdrawn ones. `withdrawn_keys`: the keys of those.
    """
    of_split = one_split(records, sweep.secret)
    of_files, gaps_of_files = one_content(of_split)
    newest, gaps_of_versions = newest_only(of_files, installed_versions(track, registry))
    left_out = withdrawn_keys | ({record.key for record in of_split} - {record.key for record in newest})
    remaining, gaps_of_needs = with_current_needs(newest, left_out, {*store.keys_of(sweep)})
    return remaining, [*gaps_of_files, *gaps_of_versions, *gaps_of_needs]


def records_of(
    store: Store, sweep: Sweep, advance: Callable[[int, int], None] = lambda done, total: None
) -> list[TaskRecord]:
    """Return the records of the tasks of a configuration, and of imported rows.

    Imported rows about results of another run, such as votes on its images, are left out. `advance`: called with how
    many records were read, and with how many there are. Raises `StoreError` for a record that cannot be read.
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


def standing_only(records: list[TaskRecord], withdrawn: Mapping[str, str]) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records without withdrawn components, and the gaps that these leave.

    `withdrawn`: what is withdrawn -> the reason. What is withdrawn is the id of a component, one version of it (see
    `address_of`), or "OWNER/" for all components of an owner.
    """

    def withdrawal(id: str, version: str) -> tuple[str, str] | None:
        """Return what is withdrawn, the component or its version, and why; None where neither is."""
        if why := withdrawn.get(id) or withdrawn.get(f"{owner_of(id)}/"):
            return id, why
        for name in (address_of(id, version), address_of(id, without_code(version))):
            if why := withdrawn.get(name):
                return name, why
        return None

    used = {(ref.id, ref.version) for record in records for ref in record.spec.components.values()}
    withdrawals = {ref: reason for ref in sorted(used) if (reason := withdrawal(*ref))}
    remaining = [
        record
        for record in records
        if not any((ref.id, ref.version) in withdrawals for ref in record.spec.components.values())
    ]
    different = dict.fromkeys(withdrawals.values())
    return remaining, [Missing(what=what, reason=f"{WITHDRAWN}{why}", remedy="") for what, why in different]


def installed_versions(track: Track, registry: Registry) -> Callable[[Versioned], str]:
    """Return a function: what has a version -> the version, with its code, that is installed here; "" for none."""
    steps = {f"step {step.name}": step for step in track.steps}

    @functools.cache
    def version(what: Versioned) -> str:
        kind, id = what
        if kind in steps:
            return registry.numbered(track, steps[kind].version)
        return registry.version(kind, id)

    return version


class _Age(NamedTuple):
    """The age of a version. The newest is the largest: installed, then with larger numbers, then computed later."""

    is_installed: bool
    numbers: tuple[int, ...]
    started: str
    version: str


def newest_only(
    records: list[TaskRecord], installed: Callable[[Versioned], str] = lambda what: ""
) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records whose step and components have the newest version there is, and the gaps of the others.

    Numbers of two versions never share a table. The version that is installed counts as the newest.
    """
    newest: dict[Versioned, _Age] = {}
    for record in records:
        for what, version in _versions_of(record):
            age = _Age(installed(what) == version, _numbers(version), record.started, version)
            newest[what] = max(newest.get(what, age), age)
    current, outdated = [], Counter[Versioned]()
    for record in records:
        old = [what for what, version in _versions_of(record) if newest[what].version != version]
        if old:
            outdated[old[0]] += 1
        else:
            current.append(record)
    gaps = [
        Missing(
            what=f"{several(count, 'task')} of {id or kind}",
            reason=f"computed by an older version; version {newest[kind, id].version} is ranked",
            remedy="harness run --all",
        )
        for (kind, id), count in sorted(outdated.items())
    ]
    return current, gaps


def one_content(records: list[TaskRecord]) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records that saw the same files as the latest run, and the gaps of the others.

    The images of a folder, or the weights of a name, may have changed since earlier records were computed; numbers of
    two contents never share a table. `records`: those of the latest run come first, so that their contents count.
    """
    contents: dict[tuple[str, str], str] = {}
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
    records: list[TaskRecord], left_out: Set[str], planned: Set[str]
) -> tuple[list[TaskRecord], list[Missing]]:
    """Return the records that were made from results that count, and the gaps of the others.

    The key of a task does not say everything that it was made from: the data that an attack was trained on, how the
    adversary's models were trained, the version of an earlier step. If one of these changes, the old result keeps its
    key, and its number would appear beside new ones. A key does not say on which device a task was computed, either:
    the result under a key may have been computed again, or come from another store.

    Args:
        records: those of the run.
        left_out: the keys of records of the run that do not count for another reason.
        planned: the keys of all tasks of the run. A result whose need is planned, but damaged or missing in the store,
            counts.
    """
    outcomes = {record.key: record.outcome for record in records}
    stale = {record.key for record in records if _read_others(record, outcomes)}
    current = set(planned - left_out - stale)
    dropped = Counter(record.spec.step for record in records if record.key in stale)
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
    """Return whether a task read another result than the one that is stored under the key of its need now.

    `outcomes`: key -> the `outcome` of its record.
    """
    return any(outcomes.get(record.spec.needs[name], outcome) != outcome for name, outcome in record.read.items())


def one_split(records: list[TaskRecord], secret: str) -> list[TaskRecord]:
    """Return the records with each task on one split only: that of the run, or else that of the newest record.

    Submitted evaluators may be measured on another split than the rest of the run, so that one task may have been
    computed on several. `secret`: the digest of the seed of the run's split, "" for the public one.
    """
    if all(record.spec.split == secret for record in records):
        return records
    repeats_of: dict[str, list[TaskRecord]] = {}  # what a task is apart from its split -> its records
    for record in records:
        options = {name: value for name, value in record.spec.options.items() if name != SECRET}
        labels = {role: ref.label for role, ref in record.spec.components.items()}
        repeats_of.setdefault(canonical_json([record.spec.step, labels, options]), []).append(record)
    left_out: set[str] = set()
    for repeats in repeats_of.values():
        splits = {record.spec.split for record in repeats}
        newest = max(repeats, key=lambda record: record.started)
        split = secret if secret in splits else newest.spec.split
        left_out.update(record.key for record in repeats if record.spec.split != split)
    return [record for record in records if record.key not in left_out]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in a version without the digest of its code, by which versions are ordered.

    They come before the times of records, because a clock may have gone back.
    """
    return tuple(map(int, re.findall(r"[0-9]+", version.rpartition("+")[0] or version)))


def _versions_of(record: TaskRecord) -> list[tuple[Versioned, str]]:
    """Return the version of the step and of each component of a record."""
    step = f"step {record.spec.step}"
    versions = {(ref.kind, ref.id): ref.version for ref in record.spec.components.values()}
    return [((step, step), record.spec.version), *versions.items()]

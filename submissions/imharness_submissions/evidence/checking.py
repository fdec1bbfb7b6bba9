"""Checks evidence: computes it again with the harness's own data and the entry's own code, and ranks the entry anew.

A piece of evidence counts if all of this holds; the first thing that does not is the reason of the refusal:

- it was not accepted before, and its entry and the attack whose budget it uses are listed in the store;
- each original has the digest of the harness's own image, and each attacked image keeps the budget;
- the entry's value in the main table gets worse by at least one step of the last printed decimal. By image, the worst
  of all attacks counts; a random entry is asked `DRAWS` times with fresh draws, and an image counts as far as it is
  more than noise (`imharness.leaderboard.Evidence.sure`).
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from imharness.contracts.track import Track
from imharness.documents.entries import EVIDENCE
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.seasons import season_of
from imharness.errors import UsageError, unknown_name
from imharness.planning.photographs import check_prepared
from imharness.planning.profile import Profile
from imharness.ranking.entries import StoreEntries, known_entries
from imharness.ranking.leaderboard import made_leaderboard
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running.session import Session
from imharness.running.views import short
from imharness_submissions.evidence.beside import Beside
from imharness_submissions.evidence.folder import HandedIn
from imharness_submissions.ledger import Ledger
from imharness_submissions.opening import RunningSubmission
from imharness_submissions.reproducing import reopened, seed_of, stream_secret_of
from imharness_submissions.sandbox.stored import SUBMISSIONS, read_submission
from imharness_submissions.sandbox.worker import guest_beside
from imharness_submissions.seasons import check_open
from imharness_submissions.store_secret import known_secret

DRAWS = 16
"""How often a random entry is asked about each image."""
SUBMIT = "`harness submissions new NAME --wheel FILE` starts a submission of the package that holds it."
"""What to do where an attack is handed in instead of images."""
IMAGES = "evidence-images"
"""The step of the record that holds the images."""


@dataclass(frozen=True)
class Listed:
    """What evidence is compared with: the track, its run, and the entry's task with the attack whose budget counts."""

    track: Track
    sweep: Sweep
    store_entries: StoreEntries
    task: TaskRecord
    entry: ComponentRef


@dataclass(frozen=True)
class Worth:
    """The value of an entry in the main table: the number, the column's label, and one unit of its last decimal."""

    value: float
    column: str
    step: float
    lower_is_better: bool


@dataclass(frozen=True)
class Verdict:
    """Evidence that counts.

    Args:
        listed: what it was compared with.
        before: the entry's value without the evidence.
        after: the entry's value with it.
        digest: of the evidence.
        submission: the name of the entry's submission, "" for an installed component.
        by_its_author: whether the entry's own author handed it in.
        records: the record of the images, then that of their scores.
    """

    listed: Listed
    before: Worth
    after: Worth
    digest: str
    submission: str
    by_its_author: bool
    records: tuple[TaskRecord, ...]

    @property
    def sentence(self) -> str:
        """What changed, in words."""
        images = int(self.records[-1].n_rows / int(self.records[-1].spec.options["draws"]))
        spec = self.listed.task.spec
        labels = ", ".join(f"{role} {ref.label}" for role, ref in spec.named().items() if ref != self.listed.entry)
        return (
            f"{self.before.column} {self.before.value:.4g} → {self.after.value:.4g} by {images} "
            f"image{'' if images == 1 else 's'} ({labels})"
        )


def listed(store: Store, track: str, entry: str, task: Mapping[str, str]) -> Listed:
    """Return what evidence is compared with; raises `UsageError` for an entry or attack that the store does not list.

    `task`: role or option -> a name, by which the attack is chosen.
    """
    check_open(store)
    store_entries = known_entries(store)
    loaded_track = store_entries.registry.track(track)
    if not loaded_track.evidence_steps:
        raise UsageError(f"{track} takes no images as evidence: hand in the attack. {SUBMIT}")
    sweep = store.ranked_from(track)
    if sweep is None or not sweep.tasks:
        raise UsageError(f"store {store.address} has no run of {track}.")
    keys = [key for address, key in sweep.tasks.items() if address.startswith(f"{loaded_track.evidence_steps[0]} ")]
    records = [record for _, record in store.records(keys) if isinstance(record, TaskRecord)]
    entries = {ref.label: ref for r in records if (ref := _ranked(loaded_track, r.spec)) is not None}
    named = {label: ref for label, ref in entries.items() if entry in (label, short(label))}
    named = named or {label: ref for label, ref in entries.items() if entry in _names(label)}
    if len(named) > 1:
        raise UsageError(f"{entry!r} means several entries of {track} in this store; name one of {_joined(named)}.")
    if not named:
        raise UsageError(unknown_name(f"{entry!r} is no entry of {track} in this store", entry, entries, "It has"))
    ((label, ref),) = named.items()
    if ref.id in store_entries.withdrawn:
        raise UsageError(f"{label} is withdrawn: {store_entries.withdrawn[ref.id]}")
    matches = [r for r in records if ref == _ranked(loaded_track, r.spec) and _fits(r.spec, task)]
    if not matches:
        raise UsageError(f"{label}: no attack with {_words(task)} is listed in this store.")
    by_components = dict[str, TaskRecord]()  # tasks that differ only in options, such as the seed, count once
    for record in matches:
        identities = [record.spec.components[role].identity() for role in sorted(record.spec.named())]
        by_components[digest(identities)] = record
    plain = _plain(list(by_components.values()))
    if len(plain) > 1:
        raise UsageError(
            f"{len(plain)} attacks on {label} are listed{f' with {_words(task)}' if task else ''}; "
            f"say which by {_differing([r.spec for r in plain])}."
        )
    return Listed(loaded_track, sweep, store_entries, plain[0], ref)


def _ranked(track: Track, spec: TaskSpec) -> ComponentRef | None:
    """Return the entry that a task is of; a component of that kind in another role, such as a substitute, is none."""
    return next((ref for role, ref in spec.components.items() if role in track.ranks), None)


def _plain(records: Sequence[TaskRecord]) -> list[TaskRecord]:
    """Return the tasks with no component more than another task has.

    A further component, such as a substitute of the attack, does not change the budget.
    """
    component_sets = [{(role, ref.label) for role, ref in record.spec.named().items()} for record in records]
    plain = list[TaskRecord]()
    for record, components in zip(records, component_sets, strict=True):
        has_more = any(other < components for other in component_sets)  # `<`: a proper subset
        if not has_more:
            plain.append(record)
    return plain


def _fits(spec: TaskSpec, task: Mapping[str, str]) -> bool:
    """Say whether a task has all components and options that `--task` names; upper and lower case are the same."""
    fields = _fields(spec)
    for name, value in task.items():
        if name not in fields or value.lower() not in {label.lower() for label in _names(fields[name])}:
            return False
    return True


def _fields(spec: TaskSpec) -> dict[str, str]:
    """Return what `--task` can name: the components of a task by label, and its options."""
    return {role: ref.label for role, ref in spec.named().items()} | {n: str(v) for n, v in spec.options.items()}


def _names(label: str) -> set[str]:
    """Return what a label is called: as it is, without its parameters, and both without the name of the harness."""
    whole = label.partition("[")[0]
    return {label, whole, short(label), short(whole)}


def _differing(specs: Sequence[TaskSpec]) -> str:
    """Say by which `--task` tasks can be distinguished, with the values of each field that differs."""
    fields = [_fields(spec) for spec in specs]
    names = dict.fromkeys(name for record_fields in fields for name in record_fields)
    values = {
        name: dict.fromkeys(record_fields[name] for record_fields in fields if name in record_fields) for name in names
    }
    return "; ".join(f"--task {name}={_joined(choices)}" for name, choices in values.items() if len(choices) > 1)


def _joined(names: Iterable[str]) -> str:
    return " or ".join(names)


def _words(task: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in task.items())


def check(handed: HandedIn, store: Store, *, device: str = "cpu", secret: str = "", trusted: bool = False) -> Verdict:
    """Return what evidence shows, and keep nothing; raises as `verdict` does."""
    with tempfile.TemporaryDirectory() as workspace:
        return verdict(handed, store, Path(workspace), device=device, secret=secret, trusted=trusted)


def verdict(
    handed: HandedIn, store: Store, workspace: Path, *, device: str = "cpu", secret: str = "", trusted: bool = False
) -> Verdict:
    """Compute evidence again and return what it shows; raises `UsageError` with one line where it does not count.

    `workspace`: a folder for the results. `secret`: the seed of the secret split that the store is of. In a season on
    unpublished photographs, these must be here as they were committed to.
    """
    manifest = handed.manifest
    if any(line.decision == EVIDENCE and line.report == handed.digest for line in Ledger(store.address).lines()):
        raise UsageError("this evidence was accepted before.")
    listing = listed(store, manifest.track, manifest.entry, manifest.task)
    season = season_of(store)
    if season is not None and season.photographs is not None:
        check_prepared(season, secret)
    fresh = Store(workspace)
    name, running = _submission_of(store, listing.entry.id, trusted)
    by_its_author = running is not None and running.submission.contact == manifest.contact
    try:
        images = _stored(fresh, handed, listing)
        record = _computed(fresh, store, listing, images.key, handed.digest, running, device, secret)
    finally:
        if running is not None:
            running.guest.kill()
    _check_images(fresh.rows(record), handed)
    keys = (images.key, record.key)
    before, after = (_worth(_leaderboard(store, fresh, listing, own_keys), listing) for own_keys in ((), keys))
    worse = (after.value - before.value) * (1 if before.lower_is_better else -1)
    if not worse >= before.step * (1 - 1e-9):
        raise UsageError(
            f"{listing.entry.label} stays where it is: {before.column} {before.value:.4g}, {after.value:.4g} with this "
            f"evidence; it counts from a difference of {before.step:g} on."
        )
    return Verdict(listing, before, after, handed.digest, name, by_its_author, (images, record))


def _submission_of(store: Store, id: str, trusted: bool) -> tuple[str, RunningSubmission | None]:
    """Return the name of an entry's submission, and the submission opened; "" and None for an installed component."""
    for name in store.names(SUBMISSIONS):
        stored = read_submission(store, name)
        if any(entry["id"] == id for entry in stored.manifest["entries"]):
            return name, reopened(stored, trusted)
    return "", None


def _stored(fresh: Store, handed: HandedIn, listing: Listed) -> TaskRecord:
    """Keep the images as the result of a task, whose key follows from them."""
    spec = TaskSpec(
        track=listing.track.info.id,
        step=IMAGES,
        version="1",
        components={},
        options={"evidence": handed.digest},
        limit=None,
        seed=0,
        needs={},
    )
    arrays = {str(i): np.ascontiguousarray(picture.transpose(2, 0, 1)) for i, picture in enumerate(handed.pixels)}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = TaskRecord(
        key=digest(spec.identity()), spec=spec, status="done", started=now, seconds=0.0, device=EVIDENCE, versions={}
    )
    return fresh.commit(record, {"name": [image.name for image in handed.manifest.images]}, arrays)


def _computed(
    fresh: Store,
    store: Store,
    listing: Listed,
    images: str,
    name: str,
    running: RunningSubmission | None,
    device: str,
    secret: str,
) -> TaskRecord:
    """Score the images with the entry's own code, which runs in the sandbox where it was submitted."""
    listed, step = listing.task.spec, listing.track.step(listing.track.evidence_steps[1])
    random = bool(getattr(listing.store_entries.registry.revive(listing.entry).info, "random", False))
    options = {
        **listed.options,
        "evidence": name,
        "draws": DRAWS if random else 1,
        "fresh": secrets.token_hex(16) if random else "",
    }
    version = listing.store_entries.registry.numbered(listing.track, step.version)
    spec = listed.model_copy(
        update={"step": step.name, "version": version, "options": options, "needs": {"evidence": images}}
    )
    hidden = known_secret(store)
    beside = []
    if running is not None:
        running.guest.stream_secret = secret or stream_secret_of([listing.task], running, hidden)
        beside = [guest_beside(running.guest, running.description, secret)]
    seed = seed_of(listing.task, secret, hidden)
    profile = Profile(name=EVIDENCE, description="Evidence against an entry.", secret=seed)
    session = Session(fresh, profile, devices=[device], workers=0, prepare=beside)
    with session.one_by_one() as compute:
        record = compute(digest(spec.identity()), spec)
    if record.failure is not None:
        raise UsageError(record.failure.message)
    return record


def _check_images(rows: Mapping[str, np.ndarray], handed: HandedIn) -> None:
    """Raise `UsageError` unless every image is of the harness's own original, and within the budget."""
    stated = {image.name: image.clean for image in handed.manifest.images}
    for name, clean, distance, allowed in zip(
        *(rows[column].tolist() for column in ("name", "clean", "distance", "allowed")), strict=True
    ):
        if stated[name] != clean:
            raise UsageError(f"{name}: the sha256 of the original is {clean[:12]}…, not {stated[name][:12]}….")
        if np.isnan(allowed):
            raise UsageError("the attack that the evidence names has no bounded budget; name another one.")
        if not distance <= allowed:
            raise UsageError(f"{name}: its distance from the original is {distance:.4g}; {allowed:.4g} are allowed.")


def with_tasks(sweep: Sweep, records: tuple[TaskRecord, ...]) -> Sweep:
    """Return a run with the tasks of evidence."""
    evidence_tasks = {
        f"{record.spec.step} evidence={record.spec.options['evidence']}": record.key for record in records
    }
    return sweep.model_copy(update={"tasks": {**sweep.tasks, **evidence_tasks}})


def _leaderboard(store: Store, fresh: Store, listing: Listed, keys: tuple[str, ...]) -> Leaderboard:
    """Return the tables of a track, made with the evidence under `keys` in the fresh store, if any."""
    records = tuple(record for key in keys if (record := fresh.record(key)) is not None)
    both = Beside(store, fresh, keys) if keys else store
    return made_leaderboard(both, listing.track, with_tasks(listing.sweep, records), listing.store_entries)[0]


def _worth(leaderboard: Leaderboard, listing: Listed) -> Worth:
    """Return the entry's value in the first ranking; raises `UsageError` where it has none."""
    for ranking in leaderboard.rankings[:1]:
        table = next(table for table in leaderboard.tables if table.id == ranking.table)
        column = next(column for column in table.columns if column.key == "worst")
        row = next((row for row in table.rows if row.label == listing.entry.label), None)
        value = row.number("worst") if row is not None else None
        if value is not None:
            return Worth(value, column.label, 10.0**-column.decimals, column.better == "lower")
    raise UsageError(f"{listing.entry.label} has no value in the main table of {listing.track.info.id}.")

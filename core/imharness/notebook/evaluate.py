"""`evaluate`: plans, computes and ranks your own objects, and entries by name, in one call."""

from __future__ import annotations

import atexit
import os
import uuid
from collections.abc import Mapping, Sequence, Set
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import platformdirs

from imharness.components.provenance import Registered
from imharness.components.registry import installed
from imharness.contracts.track import Track
from imharness.documents.tables import joined
from imharness.errors import ContractError, StoreError, UsageError
from imharness.notebook import coercion, components
from imharness.notebook.arguments import address_of, flag, listed, seed_of, short, whole, wrong
from imharness.notebook.objects import UserObject
from imharness.notebook.participants import dataset_of, kinds_of, profile_of, track_of, with_selection
from imharness.notebook.progress import view_of_run
from imharness.notebook.randomness import noted, notes_of_task, say_who_drew
from imharness.notebook.result import Result
from imharness.notebook.source import result_of
from imharness.notebook.writing import is_users
from imharness.planning.plan import Graph
from imharness.planning.selection import refuse_unused
from imharness.ranking.entries import StoreEntries, examined_in
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.results.sweeps import causes_of
from imharness.results.tasks import TaskRecord
from imharness.results.version import SCHEMA
from imharness.running.executor import Preparation
from imharness.running.session import Session
from imharness.running.sweep import RunResult
from imharness.testing.examination import examine

COMMAND = "imharness.evaluate"
_objects_of: dict[str, Sequence[Registered]] = {}
"""Name of an evaluation that is going on -> the user's objects in it; a worker in this process gets the name."""
_drawing = set[str]()
"""Texts, as `_code` returns them, of the user's objects that drew from global randomness in this process.

Earlier results of such an object are not used again, because it may give others now."""


def evaluate(
    *objects: UserObject | str,
    track: str = "iqa",
    against: Sequence[str] | None = None,
    dataset: Any = None,
    limit: int | None = 32,
    seed: int = 0,
    device: str = "auto",
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Result:
    """Evaluate your own objects, and entries by name, and rank them together with the usual entries.

    By default this takes less than a minute on one core, with data and weights that ship (profile "quick"). iqa: eight
    photographs of 72 x 72 px, clean and in three severities of distortion; I-FGSM and Square at medium strength,
    by attackers who do not know the defense and by those who do; the small CNN as metric; ranked with no defense, JPEG,
    blur and flip. The answer about a metric of your own comes first: what attackers gain on it without a defense, in
    units of its spread on clean images, beside three embedded metrics. perceptual: eight forced choices between
    distorted photographs of 176 px, also under I-FGSM within 4/255; ranked with L2, PSNR and SSIM. membership: digits
    and a small network in five splits, with simple evaluators.
    reconstruction: thumbnails of 20 px, rebuilt from the gradient of an untrained LeNet.

    Your objects are computed in this process on one thread, like tasks of a run, and give the same numbers as the same
    code in a plugin. Before that they are examined for a few seconds, like every component from outside: is the
    gradient true, is each row computed alone, does the same input give the same answer, are the scores within their
    bounds? An object that fails is listed in `Result.flags` and named first in the result; it neither wins nor decides
    who wins. The draws of random components depend on their names.

    Finished tasks of entries are kept and used again. Tasks with an object of yours are computed at each call, because
    nothing can tell whether its code, or a file that it reads, has changed. If you give the object a `cache_key`, its
    tasks are kept, too, and are used again as long as the key is the same.

    Args:
        objects: what `imharness.metric`, `defense`, `attack` or `evaluator` return, and names of components as on the
            command line, such as ``"jpeg[quality=40]"``.
        track: the name of the track.
        against: names of components to rank with, instead of the usual ones of the same kind; controls such as no
            defense stay. Names of another kind, such as attacks on a defense, replace the usual ones of that kind.
        dataset: a name, a folder of images, or images ``(n, 3, H, W)``: an array or tensor of floats in [0, 1], which
            are rounded to 8 bits, or of bytes from 0 to 255.
        limit: use only this many images of the data set; None means all.
        seed: the seed of all randomness.
        device: "auto" for the first GPU, or the CPU if there is none; "cpu"; "cuda:N"; or "mps".
        store: the folder or address where tasks are kept; by default a folder of the user's cache, in which those with
            an object without a `cache_key` stay until this process ends.
        progress: whether to show a bar.

    Raises:
        UsageError: an argument makes no sense; the message names it.
        ContractError: no task with any of the objects could be computed; the message says why.
        StoreError: the store cannot be read or written.
    """
    seed, progress, device = seed_of(seed), flag("progress", progress), coercion.device_of(device)
    limit = None if limit is None else whole("limit", limit)
    if limit is not None and limit < 1:
        raise wrong("limit", "at least 1, or None for all images", limit)
    store = None if store is None else address_of("store", store, "a folder or an address")
    if against is not None:
        if isinstance(against, str):
            raise UsageError(f"against: expected a list of names; write [{against!r}].")
        against = listed("against", against, "a list of names")
    if not objects:
        raise UsageError("objects: give at least one, such as imharness.defense(function, differentiable=True).")
    id = track_of(track)
    profile = profile_of(id)
    users, cached = _as_components([o for o in objects if not isinstance(o, str)], id)
    labels = {entry.component.label for entry in users}
    data, pixels = dataset_of(dataset, id)
    extra = [*users, *([pixels] if pixels else [])]
    registry = installed().joined(extra)
    named = kinds_of(registry, [o for o in objects if isinstance(o, str)], "objects", profile.tracks[id])
    rivals = kinds_of(registry, against or (), "against", profile.tracks[id])
    chosen = _with_users(named, users, registry.track(id), rivals)
    track_profile = with_selection(profile.tracks[id], registry, chosen, None if against is None else rivals, data)
    results, evaluation = _store(store), uuid.uuid4().hex
    session = Session(
        results,
        profile.model_copy(update={"tracks": {id: track_profile}}),
        registry,
        seed,
        limit,
        COMMAND,
        devices=[device],
        workers=0,
        prepare=[(f"{__name__}:{prepare_worker.__name__}", {"evaluation": evaluation})],
    )
    (graph,) = session.plan()
    # Tables are made of the tasks of this call: evaluations of other objects in one store do not add theirs.
    graph.run_configuration = digest([graph.run_configuration, sorted(graph.tasks)])[:16]
    for argument, names in (("objects", named), ("against", rivals)):
        refuse_unused([graph], registry, names, f"{argument}:")
    if not graph.tasks:
        raise UsageError(f"objects: track {id} planned no task with what was asked for: {_gap(graph)}.")
    _check_used(graph, labels, id)
    results.prepare()
    examine(results, registry, [graph], seed)
    _forget_draws(results, graph, [entry for entry in users if entry.component.label in cached])
    if store is None:
        atexit.register(_discard, results, _tasks_with(graph, labels - cached))
    _objects_of[evaluation] = extra
    try:
        outcome = session.compute([graph], view_of_run(progress))
    finally:
        del _objects_of[evaluation]
    _check_some_done(graph, outcome, labels)
    drew = set(say_who_drew())
    _drawing.update(_code(entry) for entry in users if entry.component.label in drew)
    return _result(session, graph, outcome, named=store is not None)


def _with_users(
    named: Mapping[str, Sequence[str]],
    users: Sequence[Registered],
    track: Track,
    rivals: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """Return kind -> the labels and names that are evaluated.

    These are the `named` components, the labels of the user's objects, and, for each kind of the user's objects of
    which no rivals were named, the components that the track evaluates beside them (`Track.secondary_measures`).
    """
    chosen = {kind: list(names) for kind, names in named.items()}
    for entry in users:
        chosen.setdefault(entry.component.kind, []).append(entry.component.label)
    for kind in {entry.component.kind for entry in users} - rivals.keys():
        chosen[kind] += track.secondary_measures.get(kind, ())
    return chosen


def _check_some_done(graph: Graph, outcome: RunResult, labels: Set[str]) -> None:
    """Raise `ContractError` if tasks with the user's objects failed and none of them was computed.

    `labels` are those of the user's objects; if there are none, all tasks of the graph count. The message has the first
    reason of each object.
    """
    if labels:
        concerned = {label: _tasks_that_use(graph, {label}) for label in sorted(labels)}
        with_objects = f" with {joined(sorted(labels))}"
    else:
        concerned, with_objects = {"": set(graph.tasks)}, ""
    all_concerned = set[str]().union(*concerned.values())
    if not all_concerned & outcome.failed.keys() or all_concerned & outcome.done:
        return
    reasons = dict[str, None]()
    for keys in concerned.values():
        failed = {key: line for key, line in outcome.failed.items() if key in keys}
        if failed:
            reasons[causes_of(failed)[0].why] = None
    raise ContractError(f"no task{with_objects} could be computed: {'; '.join(reasons)}")


def _tasks_that_use(graph: Graph, labels: Set[str]) -> set[str]:
    """Return the keys of tasks of which one of these components takes part."""
    tasks = graph.tasks.items()
    return {key for key, task in tasks if any(ref.label in labels for ref in task.spec.components.values())}


def prepare_worker(facts: Mapping[str, Any]) -> Preparation:
    """Return the user's objects of an evaluation that is going on in this process; see `WorkerConfig.prepare`."""
    notes_of_task()  # earlier draws belong to no task
    return Preparation(_objects_of[facts["evaluation"]], end_task=lambda failed: notes_of_task())


def _as_components(objects: Sequence[Any], track: str) -> tuple[list[Registered], set[str]]:
    """Return the user's objects as components, and the labels of those whose results are kept for further calls."""
    registered, cached = dict[tuple[str, str], Registered](), set[str]()
    for user_object in objects:
        if not isinstance(user_object, UserObject):
            raise UsageError(
                f"objects: {short(user_object)} is neither a name nor an object that says what it is; wrap it, as in "
                "imharness.defense(it, differentiable=...), or with metric, attack or evaluator."
            )
        if (user_object.kind, user_object.name) in registered:
            raise UsageError(f"name: two objects are called {user_object.name!r}; give one of them another name=...")
        is_cached = user_object.cache_key is not None
        identity = f"key {user_object.cache_key}" if is_cached else f"without a key {uuid.uuid4().hex}"
        entry = components.component_of(user_object, track, identity)
        registered[user_object.kind, user_object.name] = entry
        cached |= {entry.component.label} if is_cached else set()
    return list(registered.values()), cached


def _code(entry: Registered) -> str:
    """Return a text that differs for objects with the same label and other code or state."""
    return f"{entry.component.label} {entry.component.content()}"


def _check_used(graph: Graph, labels: Set[str], track: str) -> None:
    """Raise `UsageError` if one of the user's objects takes part in no task."""
    used = {ref.label for task in graph.tasks.values() for ref in task.spec.components.values()}
    for label in sorted(labels - used):
        raise UsageError(f"objects: track {track} planned no task with {label}: {_gap(graph)}.")


def _gap(graph: Graph) -> str:
    """Return why a graph lacks a task that was asked for: the first thing that is missing on this machine, if any."""
    gap = next(iter(graph.missing.values()), None)
    if gap is None:
        return "it has no place for such an object"
    return f"{gap.what} is missing ({gap.reason}{f'; {gap.remedy}' if gap.remedy else ''})"


def _store(store: str | None) -> Store:
    """Return the store at an address, or the user's cache.

    The name of the cache has the version of the format. A cache of an earlier format is left alone, because nobody has
    asked to delete anything.
    """
    return Store(store or Path(platformdirs.user_cache_dir("image-privacy-harness")) / f"evaluations-{SCHEMA}")


def _drew_before(store: Store, graph: Graph, labels: Set[str]) -> set[str]:
    """Return which of the user's objects drew from global randomness in an earlier process, as the store notes."""
    keys = _tasks_that_use(graph, labels)
    in_order = [key for key in graph.tasks if key in keys]
    records = [record for _, record in store.records(in_order) if isinstance(record, TaskRecord)]
    return {label for record in records for label in noted(record.notes, labels)}


def _tasks_with(graph: Graph, labels: Set[str]) -> list[str]:
    """Return the keys of tasks in which one of these components takes part, and of all tasks that need such tasks."""
    direct, keys = _tasks_that_use(graph, labels), dict[str, None]()
    for key, task in graph.tasks.items():  # every task comes after those that it needs
        if key in direct or keys.keys() & set(task.spec.needs.values()):
            keys[key] = None
    return list(keys)


def _forget_draws(store: Store, graph: Graph, cached: Sequence[Registered]) -> None:
    """Remove earlier results of cached objects that draw from global randomness, and of tasks that need these."""
    labels = {entry.component.label for entry in cached}
    drawing = {entry.component.label for entry in cached if _code(entry) in _drawing}
    for key in _tasks_with(graph, drawing | _drew_before(store, graph, labels)):
        store.forget(key)


def _discard(store: Store, keys: Sequence[str]) -> None:
    """Remove results that no further call can use, with their files; a store that is out of reach stays as it is."""
    with suppress(StoreError):
        for key in keys:
            record = store.record(key)
            store.forget(key)
            if record is not None and record.arrays is not None:
                store.backend.delete(record.arrays.file)


def _result(session: Session, graph: Graph, outcome: RunResult, *, named: bool) -> Result:
    """Return the tables of an evaluation, those with the user's objects first.

    They are also written into the store if the user `named` one, unless they would replace the tables of a run.
    """
    store = session.store
    with store.alone() if named else nullcontext():
        keep = named and all(before.command == COMMAND for before in store.sweeps(graph.track.info.id))
        store_entries = StoreEntries(session.registry, examined=examined_in(store))
        leaderboard, numbers, sweep = session.rank(graph, outcome, catalogue=store_entries, keep=keep)
    tables = sorted(leaderboard.tables, key=lambda table: not any(is_users(row.label) for row in table.rows))
    return result_of(leaderboard.model_copy(update={"tables": tuple(tables)}), numbers, store, sweep)

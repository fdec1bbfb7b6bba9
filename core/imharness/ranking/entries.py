"""Describes components for readers: who wrote each, where it was published, its parameters, and decisions about it.

Also makes the tables of stored results again (`rank`).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from imharness.components.loading import load_plugins
from imharness.components.papers import paper_of
from imharness.components.registry import Registry, installed
from imharness.contracts.component import Component, Info
from imharness.contracts.track import Track
from imharness.documents.entries import Decided, Entry, Examined, Parameter, Standing, flags_in
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.withdrawals import withdrawn_versions
from imharness.errors import HarnessError, PluginError, StoreError
from imharness.ranking.controls import FAILED_CHECKS
from imharness.ranking.current import BEHIND, CHANGED
from imharness.ranking.leaderboard import DEVICES, Progress, quiet
from imharness.ranking.unchanged import current_leaderboard
from imharness.results.identity import LEFT_HERE, LOCAL, ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

EXAMINED = "examined"
"""The folder of a store with the results of quick checks."""
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}


@dataclass(frozen=True)
class StoreEntries:
    """The `KnownEntries` of a store: the components that can be described, and the decisions about them.

    A package that judges entries adds its decisions by the hook `standings`.

    Args:
        registry: components that can be described; some of them cannot be built here.
        submitted: ids of components that came with a submission.
        standing: component id -> the decisions about it, oldest first.
        withdrawn: id of a component, or one version of it -> why no table has it any more.
        decided: the number of all decisions, and the seal of the last one.
        examined: digest of a reference to a component -> the quick checks that it failed; see `imharness.testing`.
    """

    registry: Registry
    submitted: frozenset[str] = frozenset()
    standing: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    decided: Decided | None = None
    examined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def facts(self, records: Iterable[TaskRecord]) -> list[dict[str, object]]:
        """Return one mapping for each component that took part; see `imharness.tracks.Query` for its columns.

        Of a component that is no longer installed, only what the records say is known.
        """
        refs = {(ref.kind, ref.label): ref for record in records for ref in record.spec.components.values()}
        return [
            _facts(ref, self.registry) | {FAILED_CHECKS: json.dumps(flags) if (flags := self._flags(ref)) else ""}
            for _, ref in sorted(refs.items(), key=lambda item: item[0])
        ]

    def _flags(self, ref: ComponentRef) -> tuple[str, ...]:
        """Return the reasons to flag a component: decisions and failed quick checks."""
        return (*flags_in(self.standing.get(ref.id, ())), *self._failed(ref))

    def _failed(self, ref: ComponentRef) -> tuple[str, ...]:
        """Return the quick checks that a component failed."""
        return self.examined.get(digest(ref.identity()), ()) if self.examined else ()

    def of(self, records: Iterable[TaskRecord]) -> tuple[Entry, ...]:
        """Return every component that took part, sorted by kind and label, with its number of tasks and their seconds.

        For submitted components, `Entry.isolation` says what isolated their code.
        """
        references: dict[tuple[str, str], ComponentRef] = {}
        tasks: dict[tuple[str, str], list[float]] = {}
        levels: dict[tuple[str, str], set[str]] = {}
        for record in records:
            for key, ref in {(r.kind, r.label): r for r in record.spec.components.values()}.items():
                references[key] = ref
                tasks.setdefault(key, []).append(record.seconds)
                if ref.id in self.submitted:
                    levels.setdefault(key, set()).add(record.isolation)
        return tuple(
            entry_of(references[identity], tasks[identity], self.registry).model_copy(
                update={
                    "isolation": ", ".join(sorted(levels.get(identity, ()))),
                    "standing": self.standing.get(references[identity].id, ()),
                    "failed_checks": self._failed(references[identity]),
                }
            )
            for identity in sorted(references)
        )


def known_entries(store: Store) -> StoreEntries:
    """Return what the installed components, and packages that judge entries, say about the entries of a store.

    Objects of notebooks count as withdrawn, because tables for others leave them out. Raises `PluginError` where a
    package that judges entries cannot be asked: without it, tables would show again what was withdrawn.
    """
    loaded = load_plugins(hook="standings")
    for failure in loaded.failures:
        raise PluginError(f"{failure.name} cannot say what was decided about entries: {failure.reason}")
    here, standing = installed(), dict[str, tuple[Standing, ...]]()
    registry, withdrawn, decided = here, {f"{LOCAL}/": LEFT_HERE, **withdrawn_versions(store)}, None
    for plugin in loaded.plugins:
        for submissions in loaded.ask(plugin, store=store):
            registry = registry.joined(submissions.submitted)
            standing.update(submissions.decided)
            withdrawn.update(submissions.withdrawn)
            decided = submissions.all or decided
    return StoreEntries(registry, registry.ids() - here.ids(), standing, withdrawn, decided, examined_in(store))


def withdrawn_for(store: Store) -> dict[str, str]:
    """Return what is withdrawn -> why, as `known_entries` says, but without objects of notebooks.

    This is for readers on this machine: the rows of an object are for the person who made it.
    """
    return {name: why for name, why in known_entries(store).withdrawn.items() if why != LEFT_HERE}


def examined_in(store: Store) -> dict[str, tuple[str, ...]]:
    """Return digest of a reference -> the quick checks that the component failed; others are missing."""
    examinations = ((name, store.current(f"{EXAMINED}/{name}.json", Examined)) for name in store.names(EXAMINED))
    return {name: examined.failed for name, examined in examinations if examined is not None and examined.failed}


def other_code(leaderboard: Leaderboard, registry: Registry) -> Iterator[str]:
    """Yield a line for everything by which the results of a leaderboard differ from what would be computed now.

    These are results that are left out because files or other results changed, several models of devices, components
    that are not installed any more (submitted ones need not be: the store has their packages), and components of which
    another version or other code is installed.
    """
    left_out = (gap for gap in leaderboard.missing if gap.reason in (CHANGED, BEHIND))
    yield from (f"left out: {gap.what}, {gap.reason}; {gap.remedy}" for gap in left_out)
    if devices := leaderboard.versions.get(DEVICES, ""):
        yield (
            f"results were computed on {devices}, which draw other random numbers and round otherwise; compare entries "
            "that were computed on one of them"
        )
    entries = {(entry.kind, entry.id, entry.version): entry for entry in leaderboard.entries}
    for (kind, id, version), entry in entries.items():
        installed_one = registry.version(kind, id)
        if not installed_one and not entry.standing:
            yield (
                f"{id}: its package is not installed any more; its results of version {version} stay, unless "
                f"`harness results withdraw {id} {version}` takes them out"
            )
        elif installed_one and installed_one != version:
            yield (
                f"{id}: its results are of version {version}, and {installed_one} is installed; "
                "`harness run` computes them again"
            )


def rank(
    store: Store,
    names: Sequence[str] = (),
    progress: Callable[[str], Progress] = quiet,
    unkept: Callable[[str], None] | None = None,
) -> Iterator[Leaderboard]:
    """Make the tables of tracks again from the stored results, and yield each leaderboard as soon as it is made.

    No task is computed. Where nothing has changed, the stored tables are yielded.

    Args:
        store: the store with the results.
        names: the tracks; by default all that have results.
        progress: title -> a context in which progress is shown.
        unkept: for a store that cannot be written: called with a line for each track whose tables are yielded, but not
            stored. Without it, tables of such a store raise an error.

    Raises `UsageError` for an unknown track, `StoreError` for a track without a run, and `HarnessError` where tables
    cannot be made.
    """
    store_entries = known_entries(store)
    for track in [store_entries.registry.track(name) for name in names or store.rankable()]:
        yield _rescored(store, track, store_entries, progress, unkept)


def _rescored(
    store: Store,
    track: Track,
    store_entries: StoreEntries,
    progress: Callable[[str], Progress],
    unkept: Callable[[str], None] | None,
) -> Leaderboard:
    with store.alone():
        sweep = store.ranked_from(track.info.id)
        if sweep is None:
            raise StoreError(f"store {store.address} has no run of {track.info.id}")
        keep = unkept is None or store.backend.writable()
        leaderboard, _ = current_leaderboard(store, track, sweep, store_entries, progress, keep=keep)
        if unkept is not None and not keep:
            unkept(f"the tables of {track.info.id} are not kept, because {store.address} cannot be written")
        return leaderboard


def _names(ref: ComponentRef) -> dict[str, Any]:
    return {"kind": ref.kind, "id": ref.id, "label": ref.label, "version": ref.version}


def _revived(ref: ComponentRef, registry: Registry) -> Component | None:
    """Return the component of a reference, or None if its package, or one of its fields, no longer exists."""
    try:
        return registry.revive(ref)
    except (HarnessError, ValueError):
        return None


def _facts(ref: ComponentRef, registry: Registry) -> dict[str, object]:
    """Return the row of a component in the view ``components``; see `imharness.tracks.Query` for its columns."""
    facts = {**_names(ref), "entry": ref.label, "control": "", "parameters": json.dumps(dict(ref.parameters))}
    component = _revived(ref, registry)
    if component is None:
        return facts
    facts["control"] = component.control
    info = {name: value for name, value in component.info if name not in Info.model_fields}
    facts |= {name: v for name, v in info.items() if isinstance(v, str | bool | int | float)}
    if info.get("bounds") is not None:
        facts["lower"], facts["upper"] = info["bounds"]
    for name in ("closeness", "classes"):
        if isinstance(getattr(component, name, None), int):
            facts[name] = getattr(component, name)
    letter = getattr(component, "letter", None)
    if isinstance(letter, str):
        facts["letter"] = letter
    if hasattr(component, "without_grid"):
        facts["entry"] = component.without_grid().label
    return facts


def entry_of(ref: ComponentRef, seconds: Sequence[float], registry: Registry) -> Entry:
    """Return what readers want to know about a component. `seconds`: how long each of its tasks took.

    Of a component that is no longer installed, only what the reference says is known.
    """
    facts = {**_names(ref), "tasks": len(seconds), "seconds": float(sum(seconds))}
    component = _revived(ref, registry)
    if component is None:
        return Entry(**facts)
    origin, paper = registry.provenance(component).provenance, paper_of(component)
    about = inspect.cleandoc(vars(type(component)).get("__doc__") or "")
    return Entry(
        **facts,
        summary=component.summary,
        about=about.partition("\n")[2].strip(),
        package=origin.distribution,
        package_version=origin.version,
        author=origin.author,
        licence=origin.licence,
        home=origin.home,
        paper=f"{paper.authors}: {paper.title} ({paper.year})" if paper else "",
        paper_url=paper.url if paper else "",
        traits=_traits(component),
        parameters=tuple(_parameters(component)),
    )


def _traits(component: Component) -> dict[str, str]:
    """Return name -> text of everything that `info` says beyond the fields that all components have."""
    usual = set(Info.model_fields)
    traits = {name: value for name, value in component.info.model_dump(mode="json").items() if name not in usual}
    for name in ("threat", "letter"):
        if isinstance(getattr(component, name, None), str):
            traits[name] = getattr(component, name)
    return {name.replace("_", " "): _text(value) for name, value in traits.items() if value not in (None, "", {})}


def _text(value: object) -> str:
    """Return a value of `info` as readers see it, such as "yes", or "a: 1; b: 2" for a mapping."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_text(element)}" for name, element in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value).replace("_", " ")


def _parameters(component: Component) -> Iterable[Parameter]:
    """Yield the hyper-parameters of a component, with default and bounds as text."""
    schema = type(component).model_json_schema()["properties"] if type(component).model_fields else {}
    for name, declared in type(component).model_fields.items():
        limits = [text.format(schema[name][key]) for key, text in _BOUNDS.items() if key in schema[name]]
        default = "required" if declared.is_required() else str(declared.get_default(call_default_factory=True))
        value = str(getattr(component, name))
        yield Parameter(
            name=name, value=value, default=default, bounds=", ".join(limits), description=declared.description or ""
        )

"""Component references -> what readers want to know of them: who wrote it, where it was published, its parameters."""

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
from imharness.errors import HarnessError, PluginError, StoreError
from imharness.ranking.controls import FAILED_CHECKS
from imharness.ranking.current import BEHIND, CHANGED
from imharness.ranking.leaderboard import DEVICES, Progress, quiet
from imharness.ranking.unchanged import current_leaderboard
from imharness.results.entries import Decided, Entry, Examined, Parameter, Standing, flags_in
from imharness.results.identity import LEFT_HERE, LOCAL, ComponentRef, digest
from imharness.results.leaderboards import Leaderboard
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness.results.withdrawals import withdrawn_versions

EXAMINED = "examined"
"""The folder of a store with what quick checks found."""
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}


@dataclass(frozen=True)
class StoreEntries:
    """The `KnownEntries` of a store.

    A package that judges entries adds what it knows by the hook `standings`.

    Args:
        registry: components that can be shown; some of them may not be buildable here.
        submitted: ids of components that came with a submission.
        standing: component id -> what was decided about it, oldest first.
        withdrawn: id of a component, or one version of it -> why it stands in no table any more.
        decided: how many decisions that were.
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
        return (*flags_in(self.standing.get(ref.id, ())), *self._failed(ref))

    def _failed(self, ref: ComponentRef) -> tuple[str, ...]:
        return self.examined.get(digest(ref.identity()), ()) if self.examined else ()

    def of(self, records: Iterable[TaskRecord]) -> tuple[Entry, ...]:
        """Return every component that took part, sorted by kind and label, with its number of tasks and their seconds.

        Of those that were submitted, also what kept them apart.
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
    """Return what is known of a store's entries: by the installed components, and by packages that judge entries.

    Objects of notebooks count as withdrawn: tables for others leave them out. Raises `PluginError` where such a package
    cannot be asked: tables would show again what it has withdrawn.
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
    """Return what `known_entries` says is withdrawn, without objects of notebooks: their rows are for who made them."""
    return {name: why for name, why in known_entries(store).withdrawn.items() if why != LEFT_HERE}


def examined_in(store: Store) -> dict[str, tuple[str, ...]]:
    """Return digest of a reference -> the quick checks that the component failed, of those that failed any."""
    examinations = ((name, store.current(f"{EXAMINED}/{name}.json", Examined)) for name in store.names(EXAMINED))
    return {name: examined.failed for name, examined in examinations if examined is not None and examined.failed}


def other_code(leaderboard: Leaderboard, registry: Registry) -> Iterator[str]:
    """Yield a line for each component of a leaderboard whose results are not of the installed version and code.

    Results that are left out because files or other results changed are named, too. So is one that is not installed,
    unless it was submitted: the store then has its package. So are devices, where there were several.
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
    """Make the tables of tracks from their raw rows, those of every track by default; computes no task.

    Yields the tables of a track as soon as they are made; where nothing changed, those in the store. Raises
    `UsageError` for a track that there is not, `StoreError` for one without a run, and `HarnessError` where tables
    cannot be made. With `unkept`, tables of a store that is read only are yielded all the same, and it gets a line for
    each.
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


def _named(ref: ComponentRef) -> dict[str, Any]:
    return {"kind": ref.kind, "id": ref.id, "label": ref.label, "version": ref.version}


def _revived(ref: ComponentRef, registry: Registry) -> Component | None:
    """Return a component, or None when its package, or a field of it, is no longer there."""
    try:
        return registry.revive(ref)
    except (HarnessError, ValueError):
        return None


def _facts(ref: ComponentRef, registry: Registry) -> dict[str, object]:
    """Return what the records and the component say: simple values of its `info`, control, bounds, closeness, entry."""
    facts = {**_named(ref), "entry": ref.label, "control": "", "parameters": json.dumps(dict(ref.parameters))}
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
    """Return what readers want to know of a component, of whose tasks each took so many seconds.

    Of a component that is no longer installed, only what the reference says is known.
    """
    facts = {**_named(ref), "tasks": len(seconds), "seconds": float(sum(seconds))}
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
    """Return what `info` says beyond name, version and paper, as text."""
    usual = set(Info.model_fields)
    traits = {name: value for name, value in component.info.model_dump(mode="json").items() if name not in usual}
    for name in ("threat", "letter"):
        if isinstance(getattr(component, name, None), str):
            traits[name] = getattr(component, name)
    return {name.replace("_", " "): _text(value) for name, value in traits.items() if value not in (None, "", {})}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_text(element)}" for name, element in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value).replace("_", " ")


def _parameters(component: Component) -> Iterable[Parameter]:
    schema = type(component).model_json_schema()["properties"] if type(component).model_fields else {}
    for name, declared in type(component).model_fields.items():
        limits = [text.format(schema[name][key]) for key, text in _BOUNDS.items() if key in schema[name]]
        default = "required" if declared.is_required() else str(declared.get_default(call_default_factory=True))
        value = str(getattr(component, name))
        yield Parameter(
            name=name, value=value, default=default, bounds=", ".join(limits), description=declared.description or ""
        )

"""The part of a profile that a person asks for: which tracks, and which components of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from imharness.components.registry import Registry
from imharness.contracts.component import Component
from imharness.errors import Unavailable, UsageError, unknown_name
from imharness.planning.plan import Graph, named
from imharness.planning.profile import Profile
from imharness.results.labels import method_of


def chosen_tracks(registry: Registry, profile: Profile, names: Sequence[str]) -> list[str]:
    """Return the ids of tracks; raises `UsageError` for a track that does not exist or is not in the profile."""
    ids = [registry.track(name).info.id for name in names]
    for id in ids:
        if id not in profile.tracks:
            raise UsageError(unknown_name(f"profile {profile.name} has no track {id}", id, profile.tracks, "It has"))
    return ids


def with_precision(profile: Profile, registry: Registry, precision: str) -> Profile:
    """Return the profile with the option `precision` set for every track that has it."""
    tracks = dict(profile.tracks)
    for name, track_profile in tracks.items():
        if "precision" in type(registry.track(name)).model_fields:
            tracks[name] = track_profile.model_copy(
                update={"options": {**track_profile.options, "precision": precision}}
            )
    return profile.model_copy(update={"tracks": tracks})


def refuse_contradictions(
    registry: Registry, profile: Profile, tracks: Sequence[str], only: Mapping[str, Sequence[str]]
) -> None:
    """Raise `UsageError` for an unknown name, and if nothing is left of a kind that was asked for."""
    _refuse_bare_folders(registry, tracks, only.get("dataset", ()))
    for kind, names in only.items():
        selected = named(registry, kind, names)
        wanted = named(registry, kind, [name for name in names if not name.startswith("!")])
        if wanted and not selected:
            labels = ", ".join(component.label for component in wanted)
            raise UsageError(f"--{kind}: {labels} is both asked for and left out.")
    for kind, names in only.items():
        if names and not any(kind in profile.tracks[track].select for track in tracks):
            raise UsageError(f"--{kind}: profile {profile.name} has none to choose from in {', '.join(tracks)}.")


def _refuse_bare_folders(registry: Registry, tracks: Sequence[str], names: Sequence[str]) -> None:
    """Raise `UsageError` for a folder that is given where the name of a data set is expected."""
    for name in names:
        if not Path(name).is_dir() or name in {method_of(dataset.info.id) for dataset in registry.of_kind("dataset")}:
            continue
        for track in map(registry.track, tracks):
            if track.folder_dataset:
                reader = method_of(track.folder_dataset)
                raise UsageError(f"--dataset: {name} is a folder; write {reader}:{name}.")
        raise UsageError(f"--dataset: {name} is a folder, and {' and '.join(tracks)} cannot read one.")


def refuse_unused(
    graphs: Sequence[Graph], registry: Registry, only: Mapping[str, Sequence[str]], argument: str = ""
) -> None:
    """Raise `UsageError` for a name whose components no track can use, such as a defense of images in membership.

    `only` is kind -> the names that a person gave. `argument` begins the message; by default that is the option of the
    command line.
    """
    takes = tuple(contract for graph in graphs for contract in graph.takes)
    tracks = " and ".join(graph.track.info.id for graph in graphs)
    for kind, name in ((kind, name) for kind, names in only.items() for name in names if name[:1] not in "!*"):
        takes_kind = any(getattr(contract, "kind", kind) == kind for contract in takes)
        if takes_kind and not any(isinstance(component, takes) for component in registry.find(kind, name)):
            fit = sorted(
                {method_of(component.info.id) for component in registry.of_kind(kind) if isinstance(component, takes)}
            )
            others = f"its {kind}s are {', '.join(fit)}" if fit else f"it takes no {kind}"
            problem = f"{tracks} has no use for {named(registry, kind, [name])[0].info.id}"
            raise UsageError(f"{argument or f'--{kind}:'} {problem}; {others}.")


def refuse_missing(graphs: Sequence[Graph], registry: Registry, only: Mapping[str, Sequence[str]]) -> None:
    """Raise `Unavailable` if no component that a name means is on this machine, or if no task can be computed.

    `only` is kind -> the names that a person gave.
    """
    planned = [component for graph in graphs for component in graph.components.values()]
    for kind, name in ((kind, name) for kind, names in only.items() for name in names if not name.startswith("!")):
        by_name = registry.find(kind, name)
        matches = [component for component in planned if any(_is_adjusted(component, each) for each in by_name)]
        if matches and not any(component.is_here() for component in matches):
            matches[0].require()
    if any(graph.tasks for graph in graphs):
        return
    tracks = ", ".join(graph.track.info.id for graph in graphs)
    for gap in (gap for graph in graphs for gap in graph.missing.values()):
        raise Unavailable(f"no task of {tracks} can be computed: {gap.what} is missing ({gap.reason})", gap.remedy)
    raise UsageError(f"{tracks} has no task with all that was asked for; `harness run --dry-run` shows what there is.")


def _is_adjusted(planned: Component, by_name: Component) -> bool:
    """Return whether a planned component is the one that a name means, perhaps with parameters of the profile added."""
    if (planned.kind, planned.info.id) != (by_name.kind, by_name.info.id):
        return False
    set_by_name = by_name.model_dump(exclude_defaults=True)
    return set_by_name.items() <= planned.model_dump().items()

"""Restricts a run to the season of its store, if the store has one: a season is computed by its protocol alone.

The protocol of a season is track -> the identity of the track's settings (`Profile.identity`). Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from imharness.components.registry import Registry
from imharness.documents.seasons import Season, season_of
from imharness.errors import UsageError
from imharness.planning.photographs import check_prepared, check_seed, on_photographs
from imharness.planning.profile import Profile
from imharness.results.store import Store


def in_season(profile: Profile, store: Store, registry: Registry) -> Profile:
    """Return a profile with only the tracks of the store's season; without a season, the profile as it is.

    In a season on unpublished photographs, these replace the profile's data sets.

    Raises:
        UsageError: the profile has another seed, its settings are not those of the protocol, or the photographs on this
            machine are not those to which the season committed itself.
    """
    season = season_of(store)
    if season is None:
        return profile
    check_seed(season, profile.secret)
    if season.photographs is not None:
        check_prepared(season, profile.secret)
    restricted = of_season(profile, season, registry)
    other_tracks = changed(season, restricted)
    if other_tracks:
        raise UsageError(
            f"season {season.name} has the protocol of profile {season.profile}; in profile {profile.name} the "
            f"settings of {', '.join(other_tracks)} are not those of the protocol: use another --store."
        )
    return restricted


def of_season(profile: Profile, season: Season, registry: Registry) -> Profile:
    """Return the tracks of a season in a profile, computed on its photographs if it has some."""
    if season.photographs is not None:
        profile = on_photographs(profile, season.photographs, season.secret, registry)
    return profile.model_copy(
        update={"tracks": {name: track for name, track in profile.tracks.items() if name in season.protocol}}
    )


def changed(season: Season, restricted: Profile) -> list[str]:
    """Return the tracks whose settings in a profile are not those of the season; `restricted` is from `of_season`."""
    now = {track: restricted.identity(track) for track in restricted.tracks}
    return sorted(track for track, recorded in season.protocol.items() if now.get(track) != recorded)


def check_alone(store: Store, limit: int | None, seed: int, only: Mapping[str, object]) -> None:
    """Raise `UsageError` if a run in a season asks for another limit, another seed, or other data sets."""
    season = season_of(store)
    if season is None:
        return
    if limit != season.limit:
        wanted = "all images" if season.limit is None else f"{season.limit} images of each data set"
        raise UsageError(f"--limit: season {season.name} is computed on {wanted}; use another --store.")
    for option, is_given in (("--seed", seed != 0), ("--dataset", bool(only.get("dataset")))):
        if is_given:
            raise UsageError(f"{option}: season {season.name} is computed by its protocol alone; use another --store.")

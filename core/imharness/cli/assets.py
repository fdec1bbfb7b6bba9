"""`harness assets`: weights and data that do not ship with the code."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import Group, assets_option, json_option
from imharness.documents.tables import joined
from imharness.errors import HarnessError, Unavailable, UsageError, unknown_name
from imharness.results.labels import method_of

if TYPE_CHECKING:
    from imharness.components.inputs.needs import Input
    from imharness.contracts.assets import Asset
    from imharness.contracts.component import Component
    from imharness.contracts.data_source import DataSource

GETTING = ".getting"
"""The folder in which processes that get the same asset wait for each other."""
_folder = assets_option()


def _known(folder: Path | None) -> dict[str, Input]:
    """Return name -> asset or data set that an installed component needs; `folder` is searched for files first."""
    from imharness.components.inputs.needs import inputs_of
    from imharness.components.registry import installed
    from imharness.contracts.assets import add_folder

    if folder:
        add_folder(folder.resolve())
    return inputs_of(entry.component for entry in installed().entries.values())


def _of_profile(name: str) -> list[Component]:
    """Return every component that a profile plans with, whatever this machine lacks."""
    from imharness.components.registry import installed
    from imharness.planning.plan import plan_track
    from imharness.planning.profiles import load_profile

    profile = load_profile(name)
    graphs = [plan_track(track, profile, installed(), limit=1, whole=True) for track in profile.tracks]
    return [component for graph in graphs for component in graph.components.values()]


def _named(resources: Mapping[str, Input], name: str) -> Input:
    """Return a resource by name; raises `UsageError`, with what a component needs if the name is a component's."""
    if name in resources:
        return resources[name]
    needed = [
        resource.name
        for resource in resources.values()
        if any(name == method_of(user.info.id) for user in resource.users)
    ]
    if needed:
        raise UsageError(f"{name} is no asset; what it needs is {joined(needed)}: harness assets get {needed[0]}")
    raise UsageError(unknown_name(f"no asset is called {name!r}", name, sorted(resources)))


@click.group(cls=Group)
def assets() -> None:
    """List, get, import and verify weights and data that do not ship with the code."""


@assets.command("list")
@_folder
@json_option()
def list_assets(assets: Path | None, as_json: bool) -> None:
    """List every asset and data set, and where it is or how to get it."""
    facts = []
    for resource in _known(assets).values():
        gap = resource.gap
        size = f"{resource.size / 1e6:.1f} MB" if resource.size else "not published"
        location = f"{gap.reason}; get it with: {resource.steps}" if gap else _place(resource)
        facts.append((resource.name, size, resource.what.licence, location))
    if as_json:
        console.emit({"assets": [dict(zip(("name", "size", "licence", "place"), fact, strict=True)) for fact in facts]})
        return
    console.table("Assets", ["name", "size", "licence", "where"], facts)


def _place(resource: Input) -> str:
    """Return the path of a resource that is on this machine."""
    from imharness.contracts.assets import Asset, data_folder

    what = resource.what
    return str(what.path() if isinstance(what, Asset) else data_folder(what.name, what.page))


@assets.command()
@click.argument("name", required=False)
@click.option(
    "--profile", metavar="NAME|FILE.toml", help="Get everything that this profile needs and that has an address."
)
@_folder
@click.option("--offline", is_flag=True, help="Do not download.")
def get(name: str | None, profile: str | None, assets: Path | None, offline: bool) -> None:
    """Make sure that NAME, an asset or a data set, is on this machine: download, check and unpack it if it is not.

    An interrupted download continues where it stopped. If another process is getting the same, this one waits. With
    --profile, whatever has no address is listed at the end, with what to do.
    """
    if bool(name) == bool(profile):
        raise UsageError("say what to get: a NAME, or --profile NAME.")
    from imharness.components.inputs.needs import inputs_of

    resources = _known(assets)
    if name:
        _get(_named(resources, name), offline)
        return
    by_hand, failed = [], []
    for resource in inputs_of(_of_profile(str(profile))).values():
        current = resources.get(resource.name, resource)
        if not current.downloads and current.gap:
            by_hand.append((current.name, current.steps))
            continue
        try:
            _get(current, offline)
        except HarnessError as error:
            failed.append((current.name, str(error)))
    if by_hand:
        console.table("To be fetched by hand", ["what", "how"], by_hand)
    if failed:
        console.table("Not fetched", ["what", "why"], failed)
        sys.exit(1)


def _get(resource: Input, offline: bool) -> None:
    """Download a resource unless it is here, and print its path; raises `HarnessError` if it cannot be had."""
    from imharness.contracts.assets import cache_folder
    from imharness.results.disk import alone

    if gap := resource.gap:
        if offline:
            raise gap
        if not resource.downloads:
            raise HarnessError(f"{resource.name} has no address to download from. To get it, {resource.steps}")
        folder = cache_folder() / GETTING / resource.name
        folder.mkdir(parents=True, exist_ok=True)
        message = f"another process is getting {resource.name}; this one continues when it has ended"
        with alone(folder, math.inf, lambda: console.warn(message)):
            if resource.gap:  # the other process may have failed
                _fetch(resource)
                return
    console.say(_place(resource))


def _fetch(resource: Input) -> None:
    """Download what is missing, put it where loaders look, and print its path.

    Only one process at a time may do this.
    """
    from imharness.contracts.assets import Asset

    what = resource.what
    path = _fetch_asset(resource, what) if isinstance(what, Asset) else _fetch_data(resource, what)
    console.say(str(path))


def _fetch_asset(resource: Input, asset: Asset) -> Path:
    """Download an asset, and return its path. A file without a published digest is loaded before it counts."""
    from imharness.cli.download import download
    from imharness.components.inputs.importing import import_asset

    if asset.sha256:
        with console.progress(resource.name) as advance:
            return download(asset, advance)
    unchecked = asset.model_copy(update={"file": f"downloads/{Path(asset.file).name}"})
    with console.progress(resource.name) as advance:
        path = download(unchecked, advance)
    final, _ = import_asset(asset, path, lambda: _check(resource))
    path.unlink()
    return final


def _fetch_data(resource: Input, source: DataSource) -> Path:
    """Download the files of a data set that are not here yet, unpack and check them, and return the set's folder."""
    from imharness.cli.download import download
    from imharness.components.inputs.importing import digest_of, import_data
    from imharness.contracts.assets import cache_folder

    files = []
    for published in source.downloads():
        file = cache_folder() / published.file
        if not file.is_file() or not published.fits(digest_of(file)):
            with console.progress(file.name) as advance:
                download(published, advance)
        files.append(file)
    try:
        folder, _ = import_data(source, files, lambda: _check(resource))
    except UsageError:  # a file without a published digest may be the wrong one, and is fetched again
        for published, file in zip(source.downloads(), files, strict=True):
            if not published.sha256:
                file.unlink(missing_ok=True)
        raise
    for file in files:
        file.unlink(missing_ok=True)  # the import may have moved it
    return folder


def _check(resource: Input) -> None:
    """Load a resource as the components do that need it; raises an error if it is not what it should be."""
    from imharness.components.inputs.checking import check_asset, check_data
    from imharness.contracts.assets import Asset

    if isinstance(resource.what, Asset):
        check_asset(resource.users, resource.name)
    else:
        check_data(resource.users, resource.what)


@assets.command("import")
@click.argument("name")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def import_files(name: str, files: Sequence[Path]) -> None:
    """Import FILES that you downloaded: check that they are NAME, hash them, and put them where loaders look.

    FILES are the published archives, their unpacked files, or a folder. A wrong file is refused in one line and
    changes nothing. They go to the first folder of HARNESS_ASSETS that can be written, or else to the user's cache.
    """
    from imharness.components.inputs.importing import import_asset, import_data
    from imharness.contracts.assets import Asset, import_folder

    resource = _named(_known(None), name)
    if isinstance(resource.what, Asset):
        if len(files) != 1:
            raise UsageError(f"{name} is one file, but {len(files)} were given.")
        location, digest = import_asset(resource.what, files[0], lambda: _check(resource), import_folder())
        console.say(f"{location}\nsha256 {digest}")
        return
    location, digests = import_data(resource.what, files, lambda: _check(resource), import_folder())
    console.say("\n".join([str(location), *(f"sha256 {digest}  {file}" for file, digest in digests.items())]))


@assets.command()
@_folder
def verify(assets: Path | None) -> None:
    """Check the sha256 of every asset that is here; exit with 1 if one is damaged."""
    damaged = 0
    for resource in _known(assets).values():
        error = resource.gap
        if error is None:
            console.say(f"ok       {_place(resource)}")
        elif isinstance(error, Unavailable):
            damaged += "damaged" in error.reason
            console.say(f"{'damaged' if 'damaged' in error.reason else 'absent '}  {error}")
    sys.exit(1 if damaged else 0)

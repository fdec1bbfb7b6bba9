"""`harness assets`: weights and data that do not ship with the code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.errors import Unavailable, UsageError, did_you_mean
from imharness_cli import console

if TYPE_CHECKING:
    from imharness.components.assets import Asset

_folder = click.option("--assets", type=click.Path(path_type=Path, exists=True), help="Look in this folder first.")


def _known(folder: Path | None) -> dict[str, Asset]:
    from imharness.components.assets import add_folder
    from imharness.components.registry import installed

    if folder:
        add_folder(folder.resolve())
    found = (asset for entry in installed().entries.values() for asset in entry.component.assets())
    return {asset.name: asset for asset in sorted(found, key=lambda a: a.name)}


@click.group()
def assets() -> None:
    """List, get and verify weights and data files."""


@assets.command("list")
@_folder
@click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")
def list_assets(assets: Path | None, as_json: bool) -> None:
    """List every asset and where it is."""
    facts = []
    for asset in _known(assets).values():
        try:
            place = str(asset.path())
        except Unavailable as error:
            place = str(error)
        facts.append((asset.name, f"{asset.size / 1e6:.1f} MB", asset.licence, place))
    if as_json:
        console.emit([dict(zip(("name", "size", "licence", "place"), fact, strict=True)) for fact in facts])
        return
    console.table("Assets", ["name", "size", "licence", "where"], facts)


@assets.command()
@click.argument("name")
@_folder
@click.option("--offline", is_flag=True, help="Do not download.")
def get(name: str, assets: Path | None, offline: bool) -> None:
    """Make sure an asset is on this machine; download and verify it if it is not."""
    from imharness_cli.download import download

    known = _known(assets)
    if name not in known:
        raise UsageError(f"no asset is called {name!r}.{did_you_mean(name, known)}")
    try:
        console.say(str(known[name].path()))
        return
    except Unavailable:
        if offline:
            raise
    with console.progress(name) as advance:
        path = download(known[name], advance)
    console.say(str(path))


@assets.command()
@_folder
def verify(assets: Path | None) -> None:
    """Check the sha256 of every asset that is here; exit 1 when one is damaged."""
    damaged = 0
    for asset in _known(assets).values():
        try:
            console.say(f"ok       {asset.path()}")
        except Unavailable as error:
            damaged += "damaged" in error.reason
            console.say(f"{'damaged' if 'damaged' in error.reason else 'absent '}  {error}")
    sys.exit(1 if damaged else 0)

"""`harness site`: build, serve and publish the leaderboard."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

_store = click.option("--store", type=click.Path(path_type=Path), default="store", show_default=True)
_secret = click.option(
    "--against-secret", "secret", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="STORE",
    help="Flag entries that do worse on the secret split in this store.",
)  # fmt: skip
_site = click.option("--site", "folder", type=click.Path(path_type=Path), default="site", show_default=True)


def _warn(problems: Iterable[str]) -> None:
    for line in problems:
        click.echo(f"warning: {line}", err=True)


@click.group()
def site() -> None:
    """Build the leaderboard's static pages, serve them on this machine, or publish them."""


@site.command()
@_store
@_site
@click.option("--since", type=click.Path(path_type=Path, exists=True), help="Compare with the last release here.")
@_secret
@click.option("--quiet", is_flag=True, help="Print warnings only.")
def build(store: Path, folder: Path, since: Path | None, secret: Path | None, quiet: bool) -> None:
    """Write the site from the results in a store."""
    from imharness_leaderboard.changes import read_releases
    from imharness_leaderboard.pages import build_site

    built = build_site(store, folder, read_releases(since) if since else [], secret=secret)
    _warn(built.problems)
    if not quiet:
        click.echo(f"{built.pages} pages: {folder / 'index.html'}")


@site.command()
@_site
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 picks a free one.")
def serve(folder: Path, port: int) -> None:
    """Serve a built site on this machine (127.0.0.1) until interrupted."""
    import functools
    import http.server

    if not (folder / "index.html").is_file():
        raise click.UsageError(f"{folder}/index.html does not exist; run `harness site build` first.")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        click.echo(f"http://127.0.0.1:{server.server_port}/")
        server.serve_forever()


@site.command()
@_store
@click.option("--to", "folder", type=click.Path(path_type=Path), required=True, help="The folder that is served.")
@click.option("--release", required=True, metavar="NAME", help="Name, as 2026-11-20; the snapshot is v/NAME/.")
@_secret
def publish(store: Path, folder: Path, release: str, secret: Path | None) -> None:
    """Write the site into a folder for a static host, with a permanent snapshot of this release.

    Give the same folder each time: it holds the earlier snapshots and the list of changes.
    """
    from imharness_leaderboard.publishing import publish_site

    built = publish_site(store, folder, release, secret)
    _warn(built.problems)
    click.echo(f"{built.pages} pages: {folder / 'index.html'}; snapshot: {folder / 'v' / release / 'index.html'}")

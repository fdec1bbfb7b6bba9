"""`harness site`: build, serve and publish the leaderboard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from imharness.cli.options import Group, log_option, site_option, store_option

_secret = click.option(
    "--against-secret",
    "secret",
    metavar="STORE",
    help="Flag entries that do worse on the secret split in this store.",
)
_site = site_option("folder")


def _warn(problems: Iterable[str]) -> None:
    for line in problems:
        click.echo(f"warning: {line}", err=True)


@click.group(cls=Group)
def site() -> None:
    """Build the leaderboard's static pages, serve them on this machine, or publish them."""


@site.command()
@store_option()
@_site
@click.option(
    "--since",
    type=click.Path(path_type=Path, exists=True),
    metavar="FOLDER",
    help="List what changed since the last release in this folder. Default: list no changes.",
)
@_secret
@click.option("--quiet", is_flag=True, help="Print warnings only.")
def build(store: str, folder: Path, since: Path | None, secret: str | None, quiet: bool) -> None:
    """Write the site from the results in a store."""
    from imharness_leaderboard.changes import read_releases
    from imharness_leaderboard.pages import build_site

    built = build_site(store, folder, read_releases(since) if since else [], secret=secret)
    _warn(built.problems)
    if not quiet:
        click.echo(f"{built.pages} pages: {folder / 'index.html'}")


@site.command()
@_site
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    metavar="PORT",
    help="Port to serve at; 0 picks a free one.",
)
def serve(folder: Path, port: int) -> None:
    """Serve a built site on this machine (127.0.0.1) until interrupted."""
    import functools
    import http.server

    if not (folder / "index.html").is_file():
        raise click.UsageError(f"{folder}/index.html does not exist; run `harness site build` first.")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise click.UsageError(f"port {port}: {error.strerror}; choose another one with --port.") from None
    with server:
        click.echo(f"http://127.0.0.1:{server.server_port}/")
        server.serve_forever()


@site.command()
@store_option()
@click.option("--to", required=True, metavar="FOLDER|hf://datasets/OWNER/NAME", help="Folder to write, or a dataset.")
@click.option(
    "--release", required=True, metavar="NAME", help="Name of the release, such as 2026-11-20; the snapshot is v/NAME/."
)
@_secret
@log_option()
def publish(store: str, to: str, release: str, secret: str | None, log_to: Sequence[str]) -> None:
    """Write the site into a folder for a static host, with a permanent snapshot of this release.

    Give the same folder each time: it holds the earlier snapshots and the list of changes. With hf:// the tables become
    a dataset repository with a card and Croissant metadata: it is written to hub/OWNER/NAME and uploaded where there is
    a token.
    """
    from imharness.ranking.listeners import announce, open_listeners
    from imharness_leaderboard.publishing import published_leaderboards

    listeners = open_listeners(log_to)
    if to.startswith("hf:"):
        from imharness_leaderboard.publishing import publish_dataset

        if secret is not None:
            raise click.UsageError("--against-secret is for the pages of a site, not for a dataset.")
        dataset = publish_dataset(store, to, release)
        _warn(dataset.problems)
        click.echo(f"dataset: {dataset.folder}" + (f"; release: {dataset.url}" if dataset.url else ""))
    else:
        from imharness_leaderboard.publishing import publish_site

        folder = Path(to)
        built = publish_site(store, folder, release, secret)
        _warn(built.problems)
        click.echo(f"{built.pages} pages: {folder / 'index.html'}; snapshot: {folder / 'v' / release / 'index.html'}")
    announce(store, published_leaderboards(store), release, listeners, lambda line: _warn([line]))

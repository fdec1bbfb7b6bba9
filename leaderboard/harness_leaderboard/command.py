"""`harness site`: build the pages and look at them."""

from __future__ import annotations

from pathlib import Path

import click

_store = click.option("--store", type=click.Path(path_type=Path), default="store", show_default=True)
_site = click.option("--site", "folder", type=click.Path(path_type=Path), default="site", show_default=True)


@click.group()
def site() -> None:
    """Build the leaderboard's static pages, or serve them on this machine."""


@site.command()
@_store
@_site
@click.option("--quiet", is_flag=True, help="Print nothing.")
def build(store: Path, folder: Path, quiet: bool) -> None:
    """Write the site from the tables in a store."""
    from harness_leaderboard.pages import build_site

    pages = build_site(store, folder)
    if not quiet:
        click.echo(f"{pages} pages: {folder / 'index.html'}")


@site.command()
@_site
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
def serve(folder: Path, port: int) -> None:
    """Serve a built site on the loopback address until interrupted."""
    import functools
    import http.server

    if not (folder / "index.html").is_file():
        raise click.UsageError(f"{folder}/index.html does not exist; run `harness site build` first.")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        click.echo(f"http://127.0.0.1:{port}/")
        server.serve_forever()

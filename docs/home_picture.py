"""Draws the picture of the home page that README shows: ``python docs/home_picture.py STORE``.

The site is built from the store, which should hold the run that README speaks of. The picture's digest is put where the
sources of files stand. It takes Chromium.
"""

import functools
import hashlib
import http.server
import re
import sys
import tempfile
import threading
from pathlib import Path

from guides import chromium

from imharness.cli import console
from imharness_leaderboard.pages import build_site

ROOT = Path(__file__).resolve().parents[1]
PICTURE, SOURCES = "docs/leaderboard.png", ROOT / "plugins" / "imharness_embedded" / "sources.toml"
SIZE = {"width": 1440, "height": 900}
"""What is shown of the page, px."""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of what was read."""


def drawn(site: Path, picture: Path) -> None:
    """Draw the first screen of a site, which is served on this machine: some buttons are not there in files."""
    from playwright.sync_api import sync_playwright

    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as driver:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = driver.chromium.launch(executable_path=chromium())
        view = browser.new_page(viewport=SIZE)
        view.goto(f"http://127.0.0.1:{server.server_port}/")
        view.wait_for_load_state("networkidle")
        view.screenshot(path=picture)
        browser.close()
        server.shutdown()


def with_digest(sources: str, content: bytes) -> str:
    """Return the table of sources with the digest of the picture; raises `SystemExit` where it has no such row."""
    digest = hashlib.sha256(content).hexdigest()
    changed, times = re.subn(rf'("{re.escape(PICTURE)}" = .*sha256 = ")[0-9a-f]+', rf"\g<1>{digest}", sources)
    if times != 1:
        raise SystemExit(f"{SOURCES} has no row of {PICTURE}")
    return changed


def main(address: str) -> None:
    """Draw the picture, and write its digest."""
    with tempfile.TemporaryDirectory() as folder:
        build_site(address, Path(folder))
        drawn(Path(folder), ROOT / PICTURE)
    changed = with_digest(SOURCES.read_text(encoding="utf-8"), (ROOT / PICTURE).read_bytes())
    SOURCES.write_text(changed, encoding="utf-8")
    console.say(PICTURE)


if __name__ == "__main__":
    main(sys.argv[1])

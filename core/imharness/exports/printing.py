"""Writes one page of HTML to a file, as it is or printed to PDF by a browser that is on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.reading.text import plain

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
"""Programs that print to PDF without a display, by name or path."""
PATIENCE_S = 60.0
ENDINGS = (".html", ".pdf")


def page_file(path: str | Path) -> Path:
    """Return the file that a page is to be written to, before anything is computed for it.

    Raises `UsageError` unless the name ends in .html or .pdf and the file can be written, and `Unavailable` for a PDF
    without a browser.
    """
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        raise UsageError(f"{file}: the name of a report must end in {' or '.join(ENDINGS)}.")
    writable(file)
    if file.suffix.lower() == ".pdf":
        _browser()
    return file


def writable(path: str | Path) -> Path:
    """Return a path to which a file can be written; raises `UsageError` that says why it cannot."""
    file = Path(path)
    if not file.parent.is_dir():
        raise UsageError(f"{file} cannot be written: there is no folder {file.parent}.")
    if file.is_dir():
        raise UsageError(f"{file} cannot be written: it is a folder.")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageError(f"{file} cannot be written: permission denied.")
    return file


def write_page(file: Path, page: str) -> None:
    """Write a page of HTML to a file of `page_file`, printed if it is a PDF; raises `HarnessError` if that fails."""
    if file.suffix.lower() == ".pdf":
        file.write_bytes(_printed(page))
    else:
        file.write_text(page, encoding="utf-8")


def _browser() -> str:
    browser = next((there for name in BROWSERS if (there := shutil.which(name))), None)
    if browser is None:
        raise Unavailable(
            "a PDF is printed by Chromium, Chrome or Edge, and none is on this machine",
            "apt-get install chromium, or write .html and print it from any browser",
        )
    return browser


def _printed(page: str) -> bytes:
    """Return the PDF of a page."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "page.html"), Path(folder, "page.pdf")
        source.write_text(page, encoding="utf-8")
        words = [
            _browser(),
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            *_unconfined(),
            f"--user-data-dir={Path(folder, 'profile')}",
            "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            raise HarnessError(f"{words[0]} did not print the PDF in {PATIENCE_S:g} s; write .html instead") from None
        if not target.is_file():
            last = plain(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
            outcome = f"exit status {done.returncode}{f': {last:.200}' if last else ''}"
            raise HarnessError(f"{words[0]} printed no PDF ({outcome}); write .html instead")
        return target.read_bytes()


def _unconfined() -> list[str]:
    """Return the option without which Chromium does not start as root; the page has no script and loads nothing."""
    return ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []

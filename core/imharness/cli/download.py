"""Downloads assets, in several attempts if necessary."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from imharness.contracts.assets import Asset, cache_folder
from imharness.errors import HarnessError

CHUNK = 1 << 20
"""How many bytes are read at once."""
PAUSE_S = 1.0
"""Seconds between a connection that broke and the next one."""
NOTHING_LEFT = 416
"""The status with which a server answers a request for bytes after the end of a file."""


def download(asset: Asset, progress: Callable[[int, int], None]) -> Path:
    """Download an asset into the cache, continuing an earlier attempt; return the verified file.

    A connection that breaks is opened again as long as each one brings more bytes. Raises `HarnessError` if one brings
    none, or if the file is not the published one.
    """
    final = cache_folder() / asset.file
    if not asset.address:
        raise HarnessError(f"{asset.name} has no address; get it from {asset.source} and put it at {final}")
    partial_file = final.with_name(final.name + ".part")
    partial_file.parent.mkdir(parents=True, exist_ok=True)
    while not asset.size or _length(partial_file) < asset.size:
        before = _length(partial_file)
        broke = _fetch(asset, partial_file, before, progress)
        if broke is None:
            break
        if _length(partial_file) <= before:
            raise HarnessError(
                f"download of {asset.name} from {asset.address} broke off: {broke}; run the command again to continue"
            )
        time.sleep(PAUSE_S)
    with partial_file.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if not asset.fits(digest):
        partial_file.unlink()
        raise HarnessError(
            f"{asset.address} did not give {asset.name}: expected sha256 {asset.sha256[:12]}…, got {digest[:12]}… "
            "(a web page instead of the file?); nothing was kept, try again or fetch it by hand"
        )
    partial_file.replace(final)
    return final


def _length(partial_file: Path) -> int:
    """Return how many bytes have been downloaded so far."""
    return partial_file.stat().st_size if partial_file.exists() else 0


def _fetch(asset: Asset, partial_file: Path, have: int, progress: Callable[[int, int], None]) -> str | None:
    """Append what one connection brings to a partial file; return why it broke, or None at the end of the file.

    `have` is the number of bytes that the partial file has. If the server does not continue there, it is begun again.
    """
    request = urllib.request.Request(asset.address)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            resumed = answer.status == 206 and _begins_at(answer, have)
            done = have if resumed else 0
            promised = answer.headers.get("Content-Length", "")
            whole = done + int(promised) if promised.isdigit() else 0
            with partial_file.open("ab" if resumed else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    progress(done, asset.size or whole)
                    if asset.size and done > asset.size:
                        return None
    except urllib.error.HTTPError as error:
        return None if have and error.code == NOTHING_LEFT else str(error)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        return str(error) or type(error).__name__
    return f"{done} of {whole} bytes came" if done < whole else None


def _begins_at(answer: http.client.HTTPResponse, have: int) -> bool:
    """Return whether the answer starts at the byte that was requested."""
    return answer.headers.get("Content-Range", f"bytes {have}-").startswith(f"bytes {have}-")

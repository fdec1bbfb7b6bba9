"""Downloads of assets, in several goes if need be."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from imharness.components.assets import Asset, cache_folder
from imharness.errors import HarnessError

CHUNK = 1 << 20


def download(asset: Asset, progress: Callable[[int, int], None]) -> Path:
    """Fetch an asset into the cache, going on where an earlier try broke off; return the verified file."""
    final = cache_folder() / asset.file
    if not asset.address:
        raise HarnessError(f"{asset.name} cannot be fetched by itself; put it at {final}, from {asset.source}")
    part = final.with_name(final.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.exists() else 0
    if not asset.size or have < asset.size:
        _fetch(asset, part, have, progress)
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not asset.fits(found):
        part.unlink()
        raise HarnessError(
            f"{asset.address} did not give {asset.name}: expected sha256 {asset.sha256[:12]}…, got {found[:12]}… "
            "(a web page instead of the file?); nothing was kept, try again or fetch it by hand"
        )
    part.replace(final)
    return final


def _fetch(asset: Asset, part: Path, have: int, progress: Callable[[int, int], None]) -> None:
    request = urllib.request.Request(asset.address)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            resumed = answer.status == 206
            done = have if resumed else 0
            with part.open("ab" if resumed else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    progress(done, asset.size)
                    if asset.size and done > asset.size:
                        break
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise HarnessError(
            f"download of {asset.name} from {asset.address} broke off: {error}; run the command again to go on"
        ) from error

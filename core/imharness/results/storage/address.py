"""Addresses of stores: a path, ``s3://bucket/path`` or ``gs://bucket/path``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from imharness.errors import UsageError
from imharness.results.storage.backend import Backend
from imharness.results.storage.local import LocalFiles

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def absolute(address: str | Path) -> str:
    """Return an address that means the same store in every folder; raises `UsageError` if its kind is unknown."""
    if not str(address).strip():
        raise UsageError("the address of a store is empty; give a folder, s3://BUCKET/PATH or gs://BUCKET/PATH.")
    match = _SCHEME.fullmatch(str(address))
    if match is None:
        return str(Path(address).resolve())
    scheme, path = match[1].lower(), match[2].rstrip("/")
    if scheme not in ("s3", "gs"):
        raise UsageError(f"{address} cannot be a store; give a folder, s3://BUCKET/PATH or gs://BUCKET/PATH.")
    segments = path.split("/")
    if not all(segment.strip() for segment in segments) or {".", ".."} & set(segments) or "?" in path:
        raise UsageError(f"{address} names no bucket and path; write {scheme}://BUCKET/PATH.")
    return f"{scheme}://{path}"


def open_backend(address: str | Path) -> Backend:
    """Return the place that an address means, without reading or writing anything.

    An object store takes credentials, region and endpoint from the environment, as its own tools do; see `connected`.
    """
    resolved = absolute(address)
    if _SCHEME.fullmatch(resolved) is None:
        return LocalFiles(Path(address))
    from imharness.results.storage.objects import Objects, connected

    scheme, _, path = resolved.partition("://")
    return Objects(resolved, connected(scheme, os.environ), path)

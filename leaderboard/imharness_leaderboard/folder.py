"""The folder of a site: each file is written whole, and only when its content changed.

Files that an earlier build wrote and this one does not are removed; files of others stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from imharness.errors import StoreError
from imharness_disk import remove_remains, write_whole

MANIFEST = ".made.json"
"""Lists the files of the last build, each with the digest of its source where it is slow to make."""


def json_text(value: object) -> str:
    """Return a value as compact JSON; raises `ValueError` for NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


class SiteFolder:
    """Writes the files of one build below `root`. `files` names them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        self._before = _read(root / MANIFEST)

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file; raises `StoreError` when that fails. A file with the same content keeps its time."""
        self.files[name] = ""
        data = content.encode() if isinstance(content, str) else content
        path = self.root / name
        try:
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                return
        except OSError as error:
            raise StoreError(f"site {path} cannot be read: {error.strerror}") from None
        write_whole(self.root, name, data, flushed=False)

    def make(self, name: str, source: str, content: Callable[[], bytes]) -> None:
        """Write a file that is slow to make, unless an earlier build made it from the same `source`."""
        if self._before.get(name) != source or not (self.root / name).is_file():
            self.write(name, content())
        self.files[name] = source

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return (self.root / name).stat().st_size

    def finish(self) -> None:
        """Remove the files that only earlier builds wrote, and list those of this build for the next one."""
        for name in self._before.keys() - self.files.keys():
            path = self.root / name
            if path.resolve().is_relative_to(self.root.resolve()):
                path.unlink(missing_ok=True)
                _remove_if_empty(path.parent, self.root)
        listed = dict(sorted(self.files.items()))
        self.write(MANIFEST, json.dumps(listed, indent=0))
        remove_remains(self.root)


def _remove_if_empty(folder: Path, root: Path) -> None:
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

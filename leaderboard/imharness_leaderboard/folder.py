"""The folder of a site: each file is written whole, and only when its content changed.

A build writes its files into a separate folder and moves all of them to their places at its end, so that anybody who
reads the site meanwhile sees the previous build. Files that an earlier build wrote and this one does not are removed;
files that no build wrote stay.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from imharness.errors import StoreError
from imharness.results.disk import UNFINISHED, below, remove_remains, write_whole

MANIFEST = ".made.json"
"""The file that lists the files of the last build; with the digest of its source for a file that is slow to make."""
ORIGIN = ".origin.json"
"""The file with the digest of everything that the last build was made from, and the digest of the files it wrote."""


def json_text(value: object) -> str:
    """Return a value as compact JSON; raises `ValueError` for NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


class SiteFolder:
    """Writes the files of one build below `root`. `files`: name -> the digest of its source, see `make`, or ""."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        self._before = _read(root / MANIFEST)
        self._waiting: Path | None = None

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, which `finish` puts in its place; raises `StoreError` when that fails.

        A file with the same content keeps its modification time.
        """
        path = below(self.root, name)
        self.files[name] = ""
        data = content.encode() if isinstance(content, str) else content
        try:
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                return
            self._waiting = self._waiting or _waiting_folder(self.root)
            new = self._waiting / name
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(data)
        except OSError as error:
            raise StoreError(f"site {path} cannot be written: {error.strerror}") from None

    def make(self, name: str, source: str, content: Callable[[], bytes]) -> None:
        """Write a file that is slow to make, unless an earlier build made it from the same `source`."""
        if self._before.get(name) != source or not (self.root / name).is_file():
            self.write(name, content())
        self.files[name] = source

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        new = self._waiting / name if self._waiting else self.root / name
        return (new if new.is_file() else self.root / name).stat().st_size

    def built_from(self, origin: str) -> list[str]:
        """Return the files of the last build, if it was made from `origin` and nobody changed them; else none."""
        last = _read(self.root / ORIGIN)
        whole = bool(origin) and last == {"origin": origin, "files": self._digest(self._before)}
        return list(self._before) if whole else []

    def _digest(self, names: Iterable[str]) -> str:
        """Return the digest of the contents of files; "" if one cannot be read."""
        total = hashlib.sha256()
        try:
            for name in sorted(names):
                content = below(self.root, name).read_bytes()
                total.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
        except OSError:
            return ""
        return total.hexdigest()

    def finish(self, origin: str = "") -> None:
        """Put every file in its place, remove those that only earlier builds wrote, and list those of this build.

        `origin`: the digest of everything that they were made from, or "" if a later build has to write them again.
        """
        listed = dict(sorted(self.files.items()))
        self.write(MANIFEST, json.dumps(listed, indent=0))
        self._put_in_place()
        for name in self._before.keys() - self.files.keys():
            path = self.root / name
            if path.resolve().is_relative_to(self.root.resolve()):
                path.unlink(missing_ok=True)
                _remove_if_empty(path.parent, self.root)
        if origin:
            facts = json.dumps({"origin": origin, "files": self._digest(listed)})
            write_whole(self.root, ORIGIN, facts.encode(), flushed=False)
        else:
            (self.root / ORIGIN).unlink(missing_ok=True)

    def _put_in_place(self) -> None:
        if self._waiting is None:
            return
        try:
            for new in sorted(path for path in self._waiting.rglob("*") if path.is_file()):
                target = self.root / new.relative_to(self._waiting)
                target.parent.mkdir(parents=True, exist_ok=True)
                new.replace(target)
        except OSError as error:
            raise StoreError(f"site {self.root} cannot be written: {error.strerror}") from None
        shutil.rmtree(self._waiting, ignore_errors=True)
        self._waiting = None
        remove_remains(self.root)


def _waiting_folder(root: Path) -> Path:
    """Return a new folder for files that wait; later builds remove what an interrupted build left."""
    folder = root / UNFINISHED
    folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=folder))


def _remove_if_empty(folder: Path, root: Path) -> None:
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _read(path: Path) -> dict[str, str]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in document.items()} if isinstance(document, dict) else {}

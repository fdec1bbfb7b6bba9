"""Imports files that a person downloaded: checks them, hashes them, and puts them where loaders look for them.

All files are first copied or unpacked into a temporary folder, and the component's own loader reads them there. Only
then they are moved to their final place, so that a wrong file leaves nothing behind and does not replace a right one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from imharness.components.inputs.archives import copy_plain, is_archive, unpack
from imharness.contracts.assets import Asset, cache_folder
from imharness.contracts.data_source import DataSource
from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.reading.opening import printable
from imharness.results.disk import alone

RECORD = "imported.json"
"""The file in the folder of a data set that lists the imported files with sizes and digests."""
Check = Callable[[], None]
"""Loads the files in the temporary folder; raises a `HarnessError` of one line if they are wrong."""


def import_asset(asset: Asset, file: Path, check: Check, into: Path | None = None) -> tuple[Path, str]:
    """Import a file of weights or parameters into a folder, or the cache; return its new path and its sha256.

    If a digest is published, it decides; otherwise `check` loads the file as the component would.
    """
    if not file.is_file():
        raise UsageError(f"{printable(file)} is not a file.")
    folder = into or cache_folder()
    final = folder / asset.file
    with _laid_out(folder) as stage:
        staged = stage / asset.file
        staged.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, staged)
        digest = digest_of(staged)
        if not asset.fits(digest):
            wanted = f"the published one is {asset.sha256[:12]}…"
            raise UsageError(f"{printable(file)} is not {asset.name}: its sha256 is {digest[:12]}…, {wanted}.")
        if not asset.sha256:
            _checked(file, stage, check)
        final.parent.mkdir(parents=True, exist_ok=True)
        os.replace(staged, final)
    return final, digest


def import_data(
    source: DataSource, paths: Sequence[Path], check: Check, into: Path | None = None
) -> tuple[Path, dict[str, str]]:
    """Import the files of a data set, packed or not, or a folder, as `import_asset` does a file.

    Return the folder of the data set, and file name -> sha256.
    """
    folder = into or cache_folder()
    digests = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{printable(path)} does not exist.")
        digests[path.name] = digest_of(path)
        _refuse_other(source, path, digests[path.name])
    final = folder / source.name
    with _laid_out(folder) as stage:
        roots = [_opened(source, path, stage / "given" / str(number)) for number, path in enumerate(paths)]
        staged = stage / source.name
        staged.mkdir()
        for member in (*source.members, *source.optional):
            _take(member, roots, staged, paths, needed=member in source.members)
        _checked(paths[0], stage, check)
        sizes = {path.name: {"sha256": digests[path.name], "bytes": _bytes(path)} for path in paths}
        (staged / RECORD).write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")
        with alone(folder):  # another process may be importing the same
            if final.exists():
                final.rename(stage / "before")
            final.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(final)
    return final, digests


def digest_of(path: Path) -> str:
    """Return the sha256 of a file, or of the names and digests of all files in a folder."""
    if path.is_dir():
        lines = [f"{f.relative_to(path)} {digest_of(f)}" for f in sorted(path.rglob("*")) if f.is_file()]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _laid_out(beside: Path) -> Iterator[Path]:
    """Yield a new temporary folder inside `beside`; while the block runs, loaders look for assets there first."""
    beside.mkdir(parents=True, exist_ok=True)
    before = os.environ.get("HARNESS_ASSETS")
    with tempfile.TemporaryDirectory(prefix=".import-", dir=beside) as folder:
        os.environ["HARNESS_ASSETS"] = os.pathsep.join(filter(None, [folder, before]))
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ["HARNESS_ASSETS"]
            else:
                os.environ["HARNESS_ASSETS"] = before


def _checked(file: Path, stage: Path, check: Check) -> None:
    """Run the check; its message names the file that the person gave, not the temporary folder."""
    try:
        check()
    except HarnessError as error:
        text = error.reason if isinstance(error, Unavailable) else str(error)
        text = " ".join(text.replace(f"{stage}{os.sep}", "").split())
        raise UsageError(f"{printable(file)} was not imported: {text}") from None


def _refuse_other(source: DataSource, path: Path, digest: str) -> None:
    """Raise `UsageError` for a file that has a published name but not the published digest."""
    for archive in source.archives:
        if archive.file == path.name and archive.sha256 and not digest.startswith(archive.sha256):
            raise UsageError(
                f"{printable(path)} is not the published file: its sha256 is {digest[:12]}…, "
                f"not {archive.sha256[:12]}…."
            )


def _opened(source: DataSource, path: Path, into: Path) -> Path:
    """Return the given folder or file, or the folder `into` if it was an archive, which is unpacked there."""
    if path.is_dir() or not is_archive(path):
        return path
    subfolder = next((archive.into for archive in source.archives if archive.file == path.name), "")
    unpack(path, into / subfolder)
    for name in source.nested:
        for inner in sorted(into.rglob(name)):
            unpack(inner, inner.parent)
    return into


def _take(member: str, roots: Sequence[Path], folder: Path, paths: Sequence[Path], *, needed: bool) -> None:
    """Put a member of the data set into its folder.

    Of several files or folders that may be the member, the one nearest to the top counts.

    Args:
        member: a path in the data set: a file, a folder, which ends in a slash, or ``FOLDER/*.EXTENSION``, which stands
            for the folder with such files.
        roots: the folders and files in which the member is searched.
        folder: the temporary folder of the data set.
        paths: the files that the person gave, for messages.
        needed: whether the member must be there.

    Raises:
        UsageError: a needed member is missing, or two are equally near to the top.
    """
    destination = folder / (str(PurePosixPath(member).parent) if "*" in member else member)
    candidates = [path for root in roots for path in _candidates(member, root)]
    names = ", ".join(printable(path) for path in paths)
    if not candidates and not needed:
        return
    if not candidates:
        kind = "folder" if member.endswith("/") else "files" if "*" in member else "file"
        raise UsageError(f"{names} has no {kind} {member.rstrip('/')}; is it another data set, or a part of it?")
    least_depth = min(len(path.parts) for path in candidates)
    nearest = [path for path in candidates if len(path.parts) == least_depth]
    if len(nearest) > 1:
        raise UsageError(f"{names}: {member.rstrip('/')} is there {len(nearest)} times; give one of them.")
    destination.parent.mkdir(parents=True, exist_ok=True)
    was_unpacked = folder.parent in nearest[0].parents
    if was_unpacked:
        nearest[0].rename(destination)
    else:
        copy_plain(nearest[0], destination)


def _candidates(member: str, root: Path) -> list[Path]:
    """Return the paths that may be a member: `root`, or what is below it, if the path ends like the member's."""
    if "*" in member:
        pattern = PurePosixPath(member).name
        return sorted({file.parent for file in root.rglob(pattern)}) if root.is_dir() else []
    segments, is_folder = PurePosixPath(member).parts, member.endswith("/")
    if not root.is_dir():
        return [root] if not is_folder and root.name == segments[-1] else []
    same_name = [root, *root.rglob(segments[-1])]
    return [path for path in same_name if path.parts[-len(segments) :] == segments and path.is_dir() == is_folder]


def _bytes(path: Path) -> int:
    """Return the size of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)

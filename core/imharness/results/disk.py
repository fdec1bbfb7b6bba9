"""Files that are written completely or not at all, and folders that one process at a time changes. Imports no torch."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PureWindowsPath

from imharness.errors import StoreError
from imharness.reading.opening import AS_IT_IS

UNFINISHED = ".unfinished"
"""The folder of files that are being written; a process that is killed leaves its files there."""
OLD_S = 3600.0
"""The age, in seconds, at which a file there is no longer anybody's and may be removed."""
WAIT_S = 600.0
"""Seconds for which a process waits for another one that changes the same folder."""
ATTEMPTS = 100
LOOK_S = 0.05
"""Seconds between two looks at a lock that another process has."""
FAR_BYTE = 1 << 40
_WINDOWS = os.name == "nt"
_locked_folders: set[Path] = set()


def below(root: Path, name: str) -> Path:
    """Return the path of a file that is named relative to `root`; raises `StoreError` for a name that leads outside.

    The names are checked because they are read from files that may come from others.
    """
    if "\0" in name or name.startswith("/") or ".." in name.split("/") or (_WINDOWS and _leads_outside(name)):
        raise StoreError(f"{name!r:.200} is not the name of a file in {root}: it leads outside")
    return root / name


def _leads_outside(name: str) -> bool:
    """Return whether a name leads outside by what Windows alone takes for parts of a path: drives and backslashes."""
    path = PureWindowsPath(name)
    return bool(path.anchor) or ".." in path.parts


def write_whole(root: Path, name: str, content: bytes, *, flushed: bool = True) -> None:
    """Write a file below `root`: first under another name, flushed to the disk if `flushed`, and then rename it.

    Where a machine loses its power, a file that was not flushed may be damaged: flush what cannot be made again. Raises
    `StoreError` and then leaves nothing behind. Several processes and machines may write one file at once.
    """
    path = below(root, name)
    try:
        temporary, descriptor = _aside(root)
        try:
            with open(descriptor, "wb") as opened:
                opened.write(content)
                opened.flush()
                if flushed:
                    os.fsync(descriptor)
            _into_place(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else str(error.strerror)
        raise StoreError(f"cannot write {path}: {reason}; what was finished before is kept") from None


def _into_place(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(path)


def _aside(root: Path) -> tuple[Path, int]:
    """Return a new, open file among the unfinished ones.

    Their folder is made again if it is missing, because a process that starts may remove it while it is empty.
    """
    path = root / UNFINISHED / secrets.token_hex(8)
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError):
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | AS_IT_IS, 0o666)
        with suppress(FileExistsError, FileNotFoundError):
            path.parent.mkdir(parents=True)
    raise OSError(errno.EAGAIN, f"{path.parent} is not a folder, or is removed again and again")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise `StoreError` if the file system fails inside the block, and `FileNotFoundError` if a file is missing."""
    try:
        yield
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}; what is stored was left as it is") from None


def prepare(root: Path) -> None:
    """Create a folder, check that it can be written, and remove old unfinished files; raises `OSError`."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=root):
        remove_remains(root)


def remove_remains(root: Path) -> None:
    """Remove files that processes killed more than an hour ago left unfinished, as far as they can be removed."""
    folder = root / UNFINISHED
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if time.time() - path.lstat().st_mtime > OLD_S:
                shutil.rmtree(path, ignore_errors=True)
                path.unlink(missing_ok=True)
        folder.rmdir()


@contextmanager
def alone(root: Path, wait_s: float | None = None, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Let one process at a time change files that several would overwrite; the others wait.

    A process may enter a folder again that it holds. If the folder cannot be written, or its file system has no locks,
    nobody waits. Raises `StoreError` if another process holds it for `wait_s` seconds, by default `WAIT_S`. `waiting`
    is called once if another process holds it. The lock of a process ends with it.
    """
    folder = root.resolve()
    if folder in _locked_folders:
        yield
        return
    patience = WAIT_S if wait_s is None else wait_s
    too_long = f"another process has been changing {folder} for {patience:g} s; end it, or try again later"
    descriptor = _locked(folder / ".lock", patience, too_long, waiting)
    _locked_folders.add(folder)
    try:
        yield
    finally:
        _locked_folders.discard(folder)
        if descriptor is not None:
            os.close(descriptor)


def lock(descriptor: int, *, wait: bool) -> None:
    """Lock an open file until it is closed; raises `BlockingIOError` where another has it and nobody waits."""
    try:
        import fcntl
    except ImportError:
        _lock_far_byte(descriptor, wait)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _lock_far_byte(descriptor: int, wait: bool) -> None:
    """Lock a byte far behind the end of a file, because Windows lets nobody else read locked bytes."""
    import msvcrt

    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        os.lseek(descriptor, FAR_BYTE, os.SEEK_SET)
        while True:
            try:
                return msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, no-any-return]
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EDEADLK):
                    raise
                if not wait:
                    raise BlockingIOError(error.errno, error.strerror) from None
            time.sleep(LOOK_S)
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)


def _locked(path: Path, wait_s: float, too_long: str, waiting: Callable[[], object] = lambda: None) -> int | None:
    """Return the descriptor of a file once it is locked, or None where it cannot be; see `alone`.

    `too_long` is the message of the `StoreError` after `wait_s` seconds.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None
    until, announced = time.monotonic() + wait_s, False
    while True:
        try:
            lock(descriptor, wait=False)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(descriptor)
                raise StoreError(too_long) from None
            if not announced:
                waiting()
            announced = True
            time.sleep(LOOK_S)
        except OSError:
            os.close(descriptor)
            return None

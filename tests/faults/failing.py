"""A file system that fails: calls of Python on files of a folder fail, at random or always, or take long."""

import builtins
import errno
import io
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FULL, READ_ONLY, FLAKY = errno.ENOSPC, errno.EROFS, errno.EIO
CHANGING = ("mkdir", "replace", "rename", "unlink", "truncate")
ASKING = ("stat", "scandir", "listdir")


@contextmanager
def failing(
    folder: Path, error: int, *, writes_only: bool = True, share: float = 1.0, seed: int = 0, slow_s: float = 0.0
) -> Iterator[list[str]]:
    """Let a share of the calls on files below `folder` fail with an error number; yield the list of failed calls.

    `writes_only`: calls that only read succeed, as on a full or a read-only file system. Each call takes `slow_s` more.
    """
    root, draw, failed = str(folder.resolve()), random.Random(seed), list[str]()

    def strike(name: str, path: object, writes: bool) -> None:
        if isinstance(path, int) or not os.path.abspath(os.fspath(path)).startswith(root):  # type: ignore[call-overload]
            return
        time.sleep(slow_s)
        if (writes or not writes_only) and draw.random() < share:
            failed.append(f"{name} {path}")
            raise OSError(error, os.strerror(error), str(path))

    def wrapped(name: str, function: Callable, writes: Callable[..., bool]) -> Callable:
        def call(path, *arguments, **named):
            if name != "mkdir" or not Path(path).exists():  # else the folder exists, on full disks, too
                strike(name, path, writes(*arguments, **named))
            return function(path, *arguments, **named)

        return call

    def to_write(mode: str = "r", *arguments: object, **named: object) -> bool:
        return bool(set(mode) & set("wax+"))

    def flags_write(flags: int, *arguments: object, **named: object) -> bool:
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

    opening = wrapped("open", io.open, to_write)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opening)
        patch.setattr(builtins, "open", opening)
        patch.setattr(os, "open", wrapped("open", os.open, flags_write))
        for name in CHANGING:
            patch.setattr(os, name, wrapped(name, getattr(os, name), lambda *arguments, **named: True))
        for name in ASKING:
            patch.setattr(os, name, wrapped(name, getattr(os, name), lambda *arguments, **named: False))
        yield failed

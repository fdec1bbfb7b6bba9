"""Makes the disk of a worker slow, or breaks it after some files, and notes what was flushed."""

import errno
import itertools
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from imharness.running.executor import Preparation


def prepare(facts: Mapping[str, Any]) -> Preparation:
    flush, files = os.fsync, itertools.count()

    def slow(descriptor: int) -> None:
        time.sleep(facts["seconds"])
        if next(files) >= facts["files"]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flush(descriptor)
        Path(facts["folder"], Path(os.readlink(f"/proc/self/fd/{descriptor}")).name).touch()

    os.fsync = slow
    return Preparation()

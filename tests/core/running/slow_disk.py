"""Makes the disk of a worker slow, and notes what was flushed."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from imharness.running.executor import Preparation


def prepare(facts: Mapping[str, Any]) -> Preparation:
    flush = os.fsync

    def slow(descriptor: int) -> None:
        time.sleep(0.3)
        flush(descriptor)
        Path(facts["folder"], Path(os.readlink(f"/proc/self/fd/{descriptor}")).name).touch()

    os.fsync = slow
    return Preparation()

"""Bounds on the time and the memory of one call, whatever this process has used before."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_S = 2.0
"""Most seconds of a call, in time of the processor, which other work on the machine does not lengthen."""
LARGEST_MIB = 256
"""Most memory by which this process may grow during a call, MiB."""


def used_mib(what: str) -> float:
    """Return memory of this process, MiB: VmRSS is what it uses, VmHWM the most since the peak was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


@contextmanager
def bounded() -> Iterator[None]:
    """Fail when the body takes more than `LONGEST_S`, or memory grows by more than `LARGEST_MIB` at any time."""
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM to VmRSS
    before, start = used_mib("VmRSS"), time.process_time()
    yield
    took, grown = time.process_time() - start, used_mib("VmHWM") - before
    assert took < LONGEST_S, f"{took:.1f} s"
    assert grown < LARGEST_MIB, f"{grown:.0f} MiB"
